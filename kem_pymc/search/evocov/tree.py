"""Expression trees of kernels: text, hyperparameters, formulas, and PyTensor expressions."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytensor.tensor as pt
from deap import gp
from pytensor.scalar.basic import autocast_float_as

from kem_pymc.errors import InputError
from kem_pymc.search.evocov.primitives import HYPERPARAMETERS, Covariance, Scalar, primitive_set

if TYPE_CHECKING:
    import pymc as pm

#: Largest depth of a tree, in levels of nodes.
MOST_LEVELS = 40

#: A hyperparameter of a parent: the parent's number, and the name there.
type Origin = tuple[int, str]

# Binding strengths of formulas.
SUM, PRODUCT, POWER, ATOM = range(4)


class Tree(gp.PrimitiveTree):
    """An expression tree of a kernel, as a list of DEAP's nodes in prefix order.

    Its text, such as ``exp(multiply(-0.5, sq_dist(euc(x), h0)))``, has the names of table 2.
    Hyperparameters are named in the order in which they occur; all leaves with one name are the
    same hyperparameter.
    """

    def __repr__(self) -> str:
        return f"Tree({self.formula()})"

    def __reduce__(self) -> Any:
        return type(self).parse, (str(self),)  # DEAP's nodes would be ten times as long

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the tree with a text.

        Parameters
        ----------
        text : str
            Names of primitives and constants, with parentheses, as :class:`str` gives it.

        Returns
        -------
        Tree

        Raises
        ------
        InputError
            If a name is unknown, a type is wrong, or the tree is incomplete or deeper than 40
            levels.
        """
        primitives = primitive_set()
        # DEAP evaluates names that it doesn't know as Python code. These are its separators.
        names = re.findall(r"[^ \t\n\r\f\v(),]+", text)
        mapping = dict(primitives.mapping)
        for name in names:
            if name not in mapping:
                mapping[name] = _constant(name, text)
        try:
            tree = cls.from_string(text, SimpleNamespace(mapping=mapping))
            complete = bool(tree) and tree.searchSubtree(0).stop == len(tree)
        except TypeError as error:
            raise InputError(f"The kernel {_short(text)} has a wrong type: {error}") from None
        except IndexError:
            complete = False
        if not complete or "".join(str(tree).split()) != "".join(text.split()):
            raise InputError(
                f"The kernel {_short(text)} isn't one complete expression. "
                "Give every primitive its arguments, in parentheses and separated by commas."
            )
        if tree[0].ret is not primitives.ret:
            raise InputError(
                f"The kernel {_short(text)} gives {tree[0].ret.__name__}, not a covariance. "
                "Begin with sq_dist, dot_prod, hp, a constant, or a function of these."
            )
        if tree.depth > MOST_LEVELS:
            raise InputError(
                f"The kernel {_short(text)} has {tree.depth} levels. Give at most {MOST_LEVELS}."
            )
        return tree

    @property
    def depth(self) -> int:
        """Number of levels of nodes."""
        return self.height + 1

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """Names of the k hyperparameters in the order in which they first occur."""
        return tuple(dict.fromkeys(node.name for node in self if is_hyperparameter(node)))

    @property
    def positive(self) -> tuple[bool, ...]:
        """Whether each of the k hyperparameters is positive: all are that aren't only shifts."""
        shifts, others = set(), set()
        for i, node in enumerate(self):
            if node.name == "dot_prod":
                shifts.add(self.searchSubtree(i + 1).stop)
        for i, node in enumerate(self):
            if is_hyperparameter(node) and i not in shifts:
                others.add(node.name)
        return tuple(name in others for name in self.hyperparameters)

    @property
    def frequencies(self) -> tuple[bool, ...]:
        """Whether each of the k hyperparameters is an angular frequency of `spectral`."""
        frequencies = {self[i + 2].name for i, node in enumerate(self) if node.name == "spectral"}
        return tuple(name in frequencies for name in self.hyperparameters)

    def to_pytensor(self, x: Any, z: Any, hyperparameters: Sequence[Any]) -> Any:
        """Return the covariance of two sets of points as a PyTensor expression.

        Parameters
        ----------
        x, z : tensor variables, shape (n, D) and (m, D)
        hyperparameters : sequence of k scalars
            Natural values, in the order of :attr:`hyperparameters`.

        Returns
        -------
        tensor variable, shape (n, m)
            Where the kernel doesn't depend on the points, it may have shape (1, 1).
        """
        primitives = primitive_set()
        values = dict(zip(self.hyperparameters, hyperparameters, strict=True))
        function = gp.compile(self, primitives)
        with autocast_float_as("float64"):  # constants would be of single precision
            value = function((x, z), *(values.get(name) for name in primitives.arguments[1:]))
            return pt.atleast_2d(pt.as_tensor_variable(value))

    def to_pymc(
        self, hyperparameters: Mapping[str, object], dimension: int
    ) -> "pm.gp.cov.Covariance":
        """Return the covariance, without white noise, as a ``pm.gp.cov`` object.

        Fitted values are those for inputs scaled to [0, 1] and standardised targets. A model of
        these has to use scaled data, too.

        Parameters
        ----------
        hyperparameters : mapping
            Natural values, or PyMC variables, by name. Other names are ignored.
        dimension : int
            Number of input columns.

        Returns
        -------
        pm.gp.cov.Covariance

        Raises
        ------
        InputError
            If a hyperparameter is missing.

        Examples
        --------
        >>> found = kem.search.evolve(x, y)
        >>> covariance = found.best.to_pymc(found.selection.hyperparameters, dimension=1)
        >>> scaled_x, standardised_y = found.data
        >>> process = pm.gp.Marginal(cov_func=covariance)
        >>> process.marginal_likelihood("y", scaled_x, standardised_y, found.selection.noise**0.5)
        """
        from kem_pymc.search.evocov.to_pymc import ExpressionCovariance

        names = self.hyperparameters
        for name in names:
            if name not in hyperparameters:
                raise InputError(f"{name} has no value. Give all of {', '.join(names)}.")
        # Cast to floats, because PyTensor would store whole numbers as small integers.
        values = [pt.cast(hyperparameters[name], "floatX") for name in names]
        return ExpressionCovariance(lambda x, z: self.to_pytensor(x, z, values), dimension)

    def formula(self) -> str:
        """Return the kernel as a formula, e.g. ``exp(-0.5 * |x - x'|^2 / h0^2)``."""
        text = _formula(self, latex=False).replace(" * 1 / ", " / ")
        return text.replace("-1 * ", "-").replace(" + -", " - ")

    def latex(self) -> str:
        r"""Return the kernel as a formula in LaTeX, with hyperparameters \theta_0, ..."""
        return _formula(self, latex=True).replace(r"-1 \, ", "-").replace(" + -", " - ")


def is_hyperparameter(node: Any) -> bool:
    """Return whether a node of a tree is a hyperparameter."""
    return node.ret is Scalar


def numbered(nodes: Sequence[tuple[int, Any]]) -> tuple[Tree, list[Origin]]:
    """Return a tree with hyperparameters h0, h1, ..., and where each of them comes from.

    Hyperparameters of different parents are different ones, whatever their names. If there are more
    than 20, those after them have the name of the last.
    """
    origins: dict[Origin, str] = {}
    mapping = primitive_set().mapping
    tree = Tree([])
    for number, node in nodes:
        if is_hyperparameter(node):
            name = f"h{min(len(origins), HYPERPARAMETERS - 1)}"
            node = mapping[origins.setdefault((number, node.name), name)]
        tree.append(node)
    return tree, list(origins)


def _constant(name: str, text: str) -> gp.Terminal:
    """Return a constant of a kernel that isn't one of the primitives.

    Raises
    ------
    InputError
        If it isn't written as Python writes a finite number.
    """
    with suppress(ValueError):
        number = float(name)
        if math.isfinite(number) and repr(number) == name:
            return gp.Terminal(number, False, Covariance)
    raise InputError(
        f"There is no primitive {_short(name)} in the kernel {_short(text)}. "
        f"Use {', '.join(primitive_set().mapping)}, or other finite constants, such as 0.25."
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


#: For each primitive the templates of text and LaTeX, the binding strength of the result, and the
#: least binding strengths of the arguments. Pairs of features have two parts, named by [0], [1].
FORMULAS: dict[str, tuple[str, str, int, tuple[int, ...]]] = {
    "sq_dist": (
        "|{0[0]} - {0[1]}|^2 / {1}^2",
        r"\frac{{\lVert {0[0]} - {0[1]} \rVert^2}}{{{1}^2}}",
        PRODUCT,
        (ATOM, ATOM),
    ),
    "dot_prod": (
        "({0[0]} - {1})·({0[1]} - {1}) / {2}",
        r"\frac{{({0[0]} - {1})^\top ({0[1]} - {1})}}{{{2}}}",
        PRODUCT,
        (ATOM, ATOM, ATOM),
    ),
    "hp": ("{0}", "{0}", ATOM, (ATOM,)),
    "power": ("{0}^{1}", "{0}^{{{1}}}", POWER, (ATOM, ATOM)),
    "add": ("{0} + {1}", "{0} + {1}", SUM, (SUM, SUM)),
    "multiply": ("{0} * {1}", r"{0} \, {1}", PRODUCT, (PRODUCT, PRODUCT)),
    "div": ("1 / {0}", r"\frac{{1}}{{{0}}}", PRODUCT, (POWER,)),
    "exp": ("exp({0})", r"\exp\left({0}\right)", ATOM, (SUM,)),
    "sqrt": ("sqrt({0})", r"\sqrt{{{0}}}", ATOM, (SUM,)),
    "square": ("{0}^2", "{0}^2", POWER, (ATOM,)),
}


def _formula(tree: Tree, latex: bool) -> str:
    """Return a formula, from the leaves to the root."""
    brackets = r"\left({}\right)" if latex else "({})"
    wave = r"\operatorname{{sincos}}({0} {1})" if latex else "sincos({0} {1})"
    stack: list[tuple[Any, int]] = []
    for node in reversed(tree):
        given = [stack.pop() for _ in range(node.arity)]
        if node.name in FORMULAS:
            text, formula, strength, least = FORMULAS[node.name]
            if latex and node.name == "div":  # a fraction needs no brackets
                least = (SUM,)
            parts = [
                brackets.format(part) if binding < needed else part
                for (part, binding), needed in zip(given, least, strict=True)
            ]
            stack.append(((formula if latex else text).format(*parts), strength))
        elif node.name == "x":
            stack.append((("x", "x'"), ATOM))
        elif node.name == "euc":
            stack.append(given[0])
        elif node.name == "spectral":
            (points, _), (frequency, _) = given
            stack.append((tuple(wave.format(frequency, point) for point in points), ATOM))
        elif is_hyperparameter(node):
            number = node.name.removeprefix("h")
            stack.append((rf"\theta_{{{number}}}" if latex else node.name, ATOM))
        else:  # a negative constant is like a product: it may be a factor or a summand
            stack.append((f"{node.value:g}", ATOM if node.value >= 0 else PRODUCT))
    return stack[0][0]
