"""Base kernels: one PyTensor expression each, from which value, gradient and compiled code come.

A base kernel is a function of two scalar inputs and its own hyperparameters, without an
amplitude: a candidate (a product of base kernels) has ONE amplitude of its own. To add a base
kernel, write its expression and register it; it then works in candidate pools, in the likelihood
and its gradient, in the sampler, in selection and in PyMC models, also in other processes::

    def cosine(x, z, period):
        return pt.cos(2 * np.pi * (x - z) / period)

    register_kernel(BaseKernel("COS", ("period",), cosine, phrase="a cosine wave in {feature}"))
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytensor.tensor as pt
from pytensor.printing import debugprint

from kem_pymc.errors import InputError

#: Kinds of hyperparameters of this file's kernels, and whether they are positive (every algorithm
#: then works on logs).
KINDS: MappingProxyType[str, bool] = MappingProxyType(
    {
        "amplitude": True,
        "lengthscale": True,
        "period": True,
        "mixture": True,
        "shift": False,
    }
)

#: The candidate that is a product of no base kernels: a user's own level. What it is written as is
#: here, because no base kernel may be called so.
CONST = "CONST"

#: Names that mean something else in a table of priors.
TAKEN = frozenset({"amplitude", "noise", "noise_without_parent", "stay", "enter", "scaling"})


@dataclass(frozen=True)
class BaseKernel:
    """A kernel on one input dimension, with unit amplitude.

    Parameters
    ----------
    name : str
        Upper-case letters and digits, starting with a letter, e.g. ``"SE"``.
    hyperparameters : tuple of str
        Kinds of its hyperparameters, each another: of :data:`KINDS`, whose priors every table has,
        or kinds of one's own in lower case, whose priors the study adds.
    expression : callable
        ``expression(x, z, *hyperparameters)`` returns a PyTensor expression made of elementwise
        functions (``pt.exp``, ``pt.abs``, ``pt.switch``, arithmetic). It must be symmetric in
        ``x`` and ``z`` and positive semi-definite.
    real : tuple of str
        Those kinds of one's own that may be negative; others are positive.
    phrase : str, optional
        What its functions are in plain English, ``"a smooth curve in {feature}"``. By default "a
        pattern of kind NAME in {feature}".
    modifier : str
        What it does to another factor of a product, ``"that changes smoothly along {feature}"``.
    detail : str
        What its values tell, ``"changing over about {lengthscale}"``; nothing by default.
    degree : int
        Which power of the input's unit its values are in: 2 for LIN, 0 where distances count only
        beside a lengthscale or period.
    unitless : tuple of str
        Those of its hyperparameters that aren't in the input's unit.

    Raises
    ------
    InputError
        If the name can't be read back from a composition, a kind can't be used or is given twice,
        or a text has a placeholder that is neither ``{feature}`` nor a hyperparameter.
    """

    name: str
    hyperparameters: tuple[str, ...]
    expression: Callable[..., Any]
    real: tuple[str, ...] = ()
    phrase: str = ""
    modifier: str = "that changes along {feature}"
    detail: str = ""
    degree: int = 0
    unitless: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if re.fullmatch(rf"ARD|WHITE|{CONST}\d*", self.name):
            raise InputError(
                f"{self.name!r} can't name a base kernel: it means something else in a "
                "composition. Use another name."
            )
        if not re.fullmatch(r"[A-Z][A-Z0-9]*", self.name):
            raise InputError(
                f"{self.name!r} can't name a base kernel. "
                "Use upper-case letters and digits, starting with a letter."
            )
        for kind in self.hyperparameters:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", kind) or kind in TAKEN:
                raise InputError(
                    f"Base kernel {self.name} has a hyperparameter of kind {kind!r}, which can't "
                    "be told in a table of priors. Use another word in lower case."
                )
        for kind in self.real:
            if kind not in self.hyperparameters or kind in KINDS:
                raise InputError(
                    f"Base kernel {self.name} says that {kind!r} may be negative. "
                    "Say so of its hyperparameters of kinds of your own."
                )
        if len(set(self.hyperparameters)) < len(self.hyperparameters):
            raise InputError(
                f"Base kernel {self.name} has two hyperparameters of one kind. "
                "Give each another kind, since kinds name them."
            )
        if not self.phrase:
            object.__setattr__(self, "phrase", f"a pattern of kind {self.name} in {{feature}}")
        for text, known in (
            (self.phrase, {"feature"}),
            (self.modifier, {"feature"}),
            (self.detail, set(self.hyperparameters)),
        ):
            self._check_text(text, known)

    def _check_text(self, text: str, known: set[str]) -> None:
        try:
            text.format_map(dict.fromkeys(known, ""))
        except (KeyError, ValueError, IndexError, AttributeError) as error:
            names = " and ".join(f"{{{name}}}" for name in sorted(known)) or "no placeholders"
            raise InputError(
                f"The text {text!r} of base kernel {self.name} can't be filled in. Use {names}."
            ) from error

    def positive(self, kind: str) -> bool:
        """Return whether a hyperparameter is positive, so that algorithms work on its log."""
        return KINDS.get(kind, kind not in self.real)


#: Names of the kernels that this file defines.
BUILT_IN = frozenset({"LIN", "PER", "SE", "RQ", "MATERN32", "MATERN52", "CAT"})

_REGISTRY: dict[str, BaseKernel] = {}

#: Names of kernels that another process sent, which it may send anew.
_RECEIVED: set[str] = set()


def register_kernel(kernel: BaseKernel) -> BaseKernel:
    """Make a base kernel available by name everywhere.

    Running the lines that register a kernel once more changes nothing. If they were edited in
    between, the kernel is replaced; pools, models and selectors made before must be made again.

    Parameters
    ----------
    kernel : BaseKernel

    Returns
    -------
    BaseKernel
        The one that is registered now: an earlier one, if it has the same expression.

    Raises
    ------
    InputError
        If it would replace one of this package's kernels, or a dimension's index behind one name
        would read as another name.
    """
    for name in _REGISTRY:
        longer, shorter = sorted((name, kernel.name), key=len, reverse=True)
        rest = longer.removeprefix(shorter)
        mistaken = rest != longer and rest.isdigit()
        if mistaken or (name == kernel.name in BUILT_IN and _REGISTRY[name] != kernel):
            raise InputError(
                f"The name {kernel.name} can't be told from base kernel {name}. "
                "Register yours under another name."
            )
    known = _REGISTRY.get(kernel.name)
    if known is not None and _same(known, kernel):
        return known
    _RECEIVED.discard(kernel.name)
    _REGISTRY[kernel.name] = kernel
    return kernel


def receive_kernel(kernel: BaseKernel) -> None:
    """Register a base kernel that came with an object from another process.

    Raises
    ------
    InputError
        If this process has registered another kernel under its name.
    """
    known = _REGISTRY.get(kernel.name)
    if known is not None and _same(known, kernel):
        return
    if known is not None and kernel.name not in _RECEIVED:
        raise InputError(
            f"Base kernel {kernel.name} is another one here than where it was used. "
            "Register that one, or give yours another name."
        )
    register_kernel(kernel)
    _RECEIVED.add(kernel.name)


def _same(one: BaseKernel, other: BaseKernel) -> bool:
    """Return whether two kernels have the same hyperparameters and the same expression."""
    kinds = (one.hyperparameters, one.real) == (other.hyperparameters, other.real)
    return one == other or (kinds and _graph(one) == _graph(other))


def _graph(kernel: BaseKernel) -> str:
    arguments = [pt.dscalar(name) for name in ("x", "z", *kernel.hyperparameters)]
    value = pt.as_tensor(kernel.expression(*arguments))
    return debugprint(value, print_type=True, file="str")


def base_kernel(name: str) -> BaseKernel:
    """Return the base kernel registered under a name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in _REGISTRY:
        raise InputError(
            f"There is no base kernel {name!r}. "
            f"Use one of {', '.join(_REGISTRY)}, or register your own first."
        )
    return _REGISTRY[name]


def base_kernels() -> tuple[BaseKernel, ...]:
    """Return the registered base kernels in order of registration."""
    return tuple(_REGISTRY.values())


def category_offset(levels: int) -> float:
    """Return what is added to the number of a level, so that CAT knows how many levels there are.

    Nothing where there are two.
    """
    return 1 / levels - 0.5


def _categories(x, z):
    # One number tells which level it is, and of how many: number + category_offset(count).
    one, other = pt.floor(x + 0.5), pt.floor(z + 0.5)
    count, count_z = (
        pt.floor(1 / pt.maximum(v + 0.5 - level, 1e-9) + 0.5) for v, level in ((x, one), (z, other))
    )
    alike = pt.eq(count, count_z)
    # Levels that aren't among the first so many are strangers to all others.
    known = (pt.minimum(one, other) >= 0) * (pt.maximum(one, other) < count)
    apart = pt.switch(alike * known, -1 / pt.maximum(count - 1, 1), 0.0)
    return pt.switch(alike * pt.eq(one, other), 1.0, apart)


def _linear(x, z, shift):  # eq. 11
    return (x - shift) * (z - shift)


def _periodic(x, z, lengthscale, period):  # eq. 10
    return pt.exp(-2 * pt.sqr(pt.sin(math.pi * (x - z) / period) / lengthscale))


def _squared_exponential(x, z, lengthscale):  # eq. 9
    return pt.exp(-0.5 * pt.sqr((x - z) / lengthscale))


def _rational_quadratic(x, z, lengthscale, mixture):
    return pt.exp(-mixture * pt.log1p(0.5 * pt.sqr((x - z) / lengthscale) / mixture))


def _matern32(x, z, lengthscale):
    distance = math.sqrt(3) * pt.abs(x - z) / lengthscale
    return (1 + distance) * pt.exp(-distance)


def _matern52(x, z, lengthscale):
    distance = math.sqrt(5) * pt.abs(x - z) / lengthscale
    return (1 + distance + pt.sqr(distance) / 3) * pt.exp(-distance)


LIN = register_kernel(
    BaseKernel(
        "LIN",
        ("shift",),
        _linear,
        degree=2,
        phrase="a straight line in {feature}",
        modifier="that grows or shrinks in proportion to {feature}",
    )
)
PER = register_kernel(
    BaseKernel(
        "PER",
        ("lengthscale", "period"),
        _periodic,
        unitless=("lengthscale",),
        phrase="a rhythm in {feature}",
        modifier="that comes back with a rhythm in {feature}",
        detail="repeating every {period}",
    )
)
SE = register_kernel(
    BaseKernel(
        "SE",
        ("lengthscale",),
        _squared_exponential,
        phrase="a smooth curve in {feature}",
        modifier="that changes smoothly along {feature}",
        detail="changing over about {lengthscale}",
    )
)
RQ = register_kernel(
    BaseKernel(
        "RQ",
        ("lengthscale", "mixture"),
        _rational_quadratic,
        unitless=("mixture",),
        phrase="a curve in {feature} with slow and fast changes",
        modifier="that changes along {feature}, slowly and fast",
        detail="changing over about {lengthscale}",
    )
)
MATERN32 = register_kernel(
    BaseKernel(
        "MATERN32",
        ("lengthscale",),
        _matern32,
        phrase="a jagged curve in {feature}",
        modifier="that changes jaggedly along {feature}",
        detail="changing over about {lengthscale}",
    )
)
MATERN52 = register_kernel(
    BaseKernel(
        "MATERN52",
        ("lengthscale",),
        _matern52,
        phrase="a fairly smooth curve in {feature}",
        modifier="that changes fairly smoothly along {feature}",
        detail="changing over about {lengthscale}",
    )
)
# Zero-sum over the levels, as Timonen et al. (2021, lgpr) have it: 1 of a level with itself,
# -1 / (L - 1) with another of L.
CAT = register_kernel(
    BaseKernel(
        "CAT",
        (),
        _categories,
        phrase="differences between levels of {feature}",
        modifier="that differs between levels of {feature}",
    )
)
