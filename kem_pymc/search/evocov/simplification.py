"""Simplification of expression trees: the same kernel with fewer nodes and hyperparameters.

A tree becomes a number times powers, whose bases are leaves, functions, or sums of such products.
Equal bases and equal terms are collected, and constants are folded. Then hyperparameters that only
scale something join: if h0 and h1 occur nowhere else, h0 h1 is one positive hyperparameter, and h0
times a squared distance is one with another lengthscale. The covariances that a kernel can have
stay the same, and BIC counts fewer hyperparameters.

A simplified kernel may be defined where the other one isn't, such as square(sqrt(a)) for a negative
a. So a kernel is simplified before it is checked.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from deap import gp

from kem_pymc.search.evocov.primitives import Covariance, primitive_set
from kem_pymc.search.evocov.tree import MOST_LEVELS, Tree, is_hyperparameter, numbered

#: Largest number of times that a tree is simplified: what joins may become equal to something else.
ROUNDS = 5

#: What a power is of: its kind, then names of hyperparameters, products or bases. Kinds are the
#: names of primitives; "sum" of several products; "abs" of a base; and "group", a product under a
#: root, whose factors have unknown signs.
type Base = tuple[Any, ...]


class Product(NamedTuple):
    """A number times powers of different bases. Exponents are multiples of powers of 1/2."""

    number: float
    powers: tuple[tuple[Base, float], ...] = ()


class _UndefinedError(ArithmeticError):
    """A constant part of a tree has no finite real value."""


def simplified(tree: Tree, natural: np.ndarray) -> tuple[Tree, np.ndarray]:
    """Return a simpler tree for the same kernel, and its values.

    Parameters
    ----------
    tree : Tree
    natural : ndarray, shape (k + 1,)
        Values of its hyperparameters, and another one, which is kept; NaN where there is none.

    Returns
    -------
    tree : Tree
        The tree itself where a constant part has no finite value.
    natural : ndarray, shape (j + 1,)
        With these values the covariances are the same; j is at most k. Where a value is missing of
        several that join, it is that of the others.
    """
    for _ in range(ROUNDS):
        usable = ~np.array([*tree.positive, False]) | (natural > 0)
        values = dict(
            zip(tree.hyperparameters, np.where(usable, natural, np.nan)[:-1].tolist(), strict=True)
        )
        try:
            whole = _Joining(_expression(tree), values).whole
        except ArithmeticError:
            break
        simpler, origins = numbered([(0, node) for node in _nodes(whole)])
        if simpler == tree or simpler.depth > MOST_LEVELS:
            break
        tree, natural = simpler, np.array([*(values[name] for _, name in origins), natural[-1]])
    return tree, natural


def _expression(tree: Tree) -> Product:
    """Return a tree as a product."""
    stack: list[Any] = []
    for node in reversed(tree):
        given = [stack.pop() for _ in range(node.arity)]
        match node.name:
            case "x":
                stack.append("")
            case "euc" | "spectral":  # the frequency, if there is one
                stack.append(given[-1])
            case "sq_dist" | "dot_prod" | "hp":
                stack.append(_power((node.name, *given)))
            case "power":
                stack.append(_raised_to(*given))
            case "add":
                stack.append(_sum(given))
            case "multiply":
                stack.append(_product(given))
            case "exp":
                stack.append(_exp(*given))
            case "div" | "sqrt" | "square":
                exponent = {"div": -1.0, "sqrt": 0.5, "square": 2.0}[node.name]
                stack.append(_raised(given[0], exponent))
            case name:
                stack.append(name if is_hyperparameter(node) else Product(float(node.value)))
    return stack[0]


def _power(base: Base, exponent: float = 1.0) -> Product:
    return Product(1.0, ((base, exponent),))


def _product(parts: Iterable[Product]) -> Product:
    """Return a product, with the powers of equal bases collected."""
    number, exponents, inside = 1.0, dict[Base, float](), list[Product]()
    for part in parts:
        number *= part.number
        for base, exponent in part.powers:
            if base[0] == "exp":  # of which there is one at most
                inside.append(_times(base[1], exponent))
            else:
                exponents[base] = exponents.get(base, 0.0) + exponent
    if not number:
        return Product(0.0)
    if not math.isfinite(number):
        raise _UndefinedError
    for base, exponent in list(exponents.items()):
        inner = [(base[1], 1.0)] if base[0] == "abs" and exponent % 2 == 0 else []
        if base[0] == "group" and exponent % 1 == 0:
            number *= base[1].number ** exponent
            inner = base[1].powers
        if inner:
            del exponents[base]
        for part, before in inner:
            exponents[part] = exponents.get(part, 0.0) + before * exponent
    powers = [(base, exponent) for base, exponent in exponents.items() if exponent]
    if inside:
        total = _exp(_sum(inside))
        number, powers = number * total.number, [*powers, *total.powers]
    return Product(number, tuple(sorted(powers, key=repr)))


def _times(product: Product, number: float) -> Product:
    return _product([Product(number), product])


def _sum(terms: Iterable[Product]) -> Product:
    """Return a sum, with equal terms collected."""
    numbers: dict[tuple[tuple[Base, float], ...], float] = {}
    for term in terms:
        parts: Iterable[Product] = [term]
        if abs(term.number) == 1.0 and len(term.powers) == 1:
            base, exponent = term.powers[0]
            if base[0] == "sum" and exponent == 1.0:
                parts = (_times(part, term.number) for part in base[1])
        for number, powers in parts:
            numbers[powers] = numbers.get(powers, 0.0) + number
    if not all(map(math.isfinite, numbers.values())):
        raise _UndefinedError
    found = [Product(number, powers) for powers, number in numbers.items() if number]
    if len(found) < 2:
        return found[0] if found else Product(0.0)
    return _power(("sum", tuple(sorted(found, key=lambda term: repr(term.powers)))))


def _exp(inside: Product) -> Product:
    """Return an exponential; a constant summand becomes a number before it."""
    if not inside.powers:
        return Product(math.exp(inside.number))
    (base, exponent), *others = inside.powers
    if base[0] == "sum" and exponent == 1.0 and not others:
        constant = sum(term.number for term in base[1] if not term.powers)
        number = math.exp(inside.number * constant)
        if constant and number:
            rest = _sum(term for term in base[1] if term.powers)
            return Product(number, ((("exp", _times(rest, inside.number)), 1.0),))
    return _power(("exp", inside))


def _raised(product: Product, exponent: float) -> Product:
    """Return a product to the power of -1, 2, or a positive power of 1/2, or of such."""
    number, powers = product
    if exponent % 1 == 0:
        return _product([Product(number**exponent, tuple((b, e * exponent) for b, e in powers))])
    known, unknown = list[tuple[Base, float]](), list[tuple[Base, float]]()
    for base, before in powers:
        if before % 1 or _is_positive(base):
            known.append((base, before * exponent))
        elif before % 2 == 0:  # of a square, the root is the absolute value
            known.append((("abs", base), before * exponent))
        else:
            unknown.append((base, before))
    if len(unknown) == 1 and number > 0:
        known.append((unknown[0][0], unknown[0][1] * exponent))
    elif unknown:
        known.append((("group", Product(math.copysign(1.0, number), tuple(unknown))), exponent))
    elif number < 0:
        raise _UndefinedError
    return _product([Product(abs(number) ** exponent, tuple(known))])


def _raised_to(product: Product, name: str) -> Product:
    """Return a product to the power of a hyperparameter."""
    if product.number in (0.0, 1.0) and not product.powers:
        return product
    if not product.powers and product.number < 0:
        raise _UndefinedError
    if product.number == 1.0 and len(product.powers) == 1 and product.powers[0][1] < 0:
        return _raised(_raised_to(_raised(product, -1.0), name), -1.0)
    return _power(("power", product, name))


def _is_positive(base: Base) -> bool:
    """Return whether a base is never negative where it is defined."""
    if base[0] != "sum":
        return base[0] not in ("dot_prod", "group")
    return all(
        term.number > 0 and all(e % 1 or e % 2 == 0 or _is_positive(b) for b, e in term.powers)
        for term in base[1]
    )


class _Joining:
    """Joins hyperparameters that only scale something, with their values.

    Attributes
    ----------
    values : dict of str to float
        Values of the hyperparameters, which are changed.
    uses : Counter of str
        How often each one occurs. Only those that occur once may join others.
    whole : Product
        The kernel.
    """

    def __init__(self, whole: Product, values: dict[str, float]) -> None:
        self.values = values
        self.uses = Counter(_names(whole))
        self.whole = self._in_product(whole)

    def _in_product(self, product: Product) -> Product:
        """Return a product without a number and with one scale, or none if a factor has it."""
        parts = [self._in_base(base, exponent) for base, exponent in product.powers]
        number, powers = _product([Product(product.number), *parts])
        scales = [(b, e) for b, e in powers if b[0] == "hp" and self.uses[b[1]] == 1]
        rest = tuple(power for power in powers if power not in scales)
        if not number or (abs(number) == 1.0 and not scales):
            return Product(number, powers)
        inherited = [self.values[base[1]] ** exponent for base, exponent in scales]
        inherited = [value for value in inherited if not math.isnan(value)]
        size = abs(number) * math.prod(inherited)
        sign = Product(math.copysign(1.0, number))
        for base, exponent in rest:
            if self._has_scale(base):
                self._scale(base, size ** (1 / exponent))
                return _product([sign, Product(1.0, rest)])
        if not scales:
            return Product(number, powers)
        base = scales[0][0]
        self.values[base[1]] = size if inherited else math.nan
        return _product([sign, Product(1.0, rest), _power(base)])

    def _in_base(self, base: Base, exponent: float) -> Product:
        match base:
            case ("exp", inside):
                found = _exp(self._in_product(inside))
            case ("abs", inside):
                found = _raised(_raised(self._in_base(inside, 1.0), 2.0), 0.5)
            case ("group", inside):
                found = self._in_product(inside)
            case ("power", inside, name):
                if self.uses[name] == 1:
                    self.values[name] *= abs(exponent)
                    exponent = math.copysign(1.0, exponent)
                found = self._in_power(self._in_product(inside), name)
            case ("sum", terms):
                found = self._in_sum([self._in_product(term) for term in terms])
            case _:
                found = _power(base)
        return _raised(found, exponent)

    def _in_power(self, inside: Product, name: str) -> Product:
        if self.uses[name] == 1 and inside.number == 1.0 and len(inside.powers) == 1:
            ((base, exponent),) = inside.powers
            if base[0] == "hp" and self.uses[base[1]] == 1:
                self.values[name] *= exponent
                self.values[base[1]] **= self.values[name]
                return _power(base)
            if exponent > 0 and _is_positive(base):
                self.values[name] *= exponent
                return _raised_to(_power(base), name)
        return _raised_to(inside, name)

    def _in_sum(self, terms: list[Product]) -> Product:
        for sign in (1.0, -1.0):
            alike = [
                term.powers[0][0][1]
                for term in terms
                if term.number == sign
                and len(term.powers) == 1
                and term.powers[0][1] == 1.0
                and term.powers[0][0][0] == "hp"
                and self.uses[term.powers[0][0][1]] == 1
            ]
            if alike:
                inherited = [value for name in alike if not math.isnan(value := self.values[name])]
                self.values[alike[0]] = sum(inherited) if inherited else math.nan
                gone = [Product(sign, _power(("hp", name)).powers) for name in alike[1:]]
                terms = [term for term in terms if term not in gone]
        return _sum(terms)

    def _has_scale(self, base: Base) -> bool:
        """Return whether a hyperparameter multiplies a base, and has no other meaning."""
        match base:
            case ("sq_dist" | "dot_prod" | "hp", *_, name):
                return self.uses[name] == 1
            case ("abs", inside):
                return self._has_scale(inside)
            case ("power", inside, _):
                return any(self._has_scale(inner) for inner, _ in inside.powers)
            case ("sum", terms):
                return all(any(self._has_scale(b) for b, _ in term.powers) for term in terms)
        return False

    def _scale(self, base: Base, factor: float) -> None:
        """Multiply a base that has a scale."""
        match base:
            case ("sq_dist", _, name):
                self.values[name] /= math.sqrt(factor)
            case ("dot_prod", _, _, name):
                self.values[name] /= factor
            case ("hp", name):
                self.values[name] *= factor
            case ("abs", inside):
                self._scale(inside, factor)
            case ("power", inside, name):
                self._scale_product(inside, factor ** (1 / self.values[name]))
            case ("sum", terms):
                for term in terms:
                    self._scale_product(term, factor)

    def _scale_product(self, product: Product, factor: float) -> None:
        base, exponent = next(power for power in product.powers if self._has_scale(power[0]))
        self._scale(base, factor ** (1 / exponent))


def _names(part: Any) -> Iterable[str]:
    """Yield the hyperparameters of a product or a base, as often as they occur."""
    if isinstance(part, Product):
        part = [base for base, _ in part.powers]
    else:
        part = part[1] if part[0] == "sum" else part[1:]
    for inner in part:
        if not isinstance(inner, str):
            yield from _names(inner)
        elif inner:
            yield inner


def _nodes(product: Product) -> list[Any]:
    """Return the nodes of a product, in prefix order."""
    number, powers = product
    parts = [_nodes_of_power(base, exponent) for base, exponent in powers if exponent > 0]
    below = [_nodes_of_power(base, -exponent) for base, exponent in powers if exponent < 0]
    if below:
        parts.append([_node("div"), *_joined("multiply", below)])
    if number != 1.0 or not parts:
        parts.insert(0, [_node(str(number))])
    return _joined("multiply", parts)


def _nodes_of_power(base: Base, exponent: float) -> list[Any]:
    if exponent % 1:
        return [_node("sqrt"), *_nodes_of_power(base, 2 * exponent)]
    if exponent % 2 == 0:
        return [_node("square"), *_nodes_of_power(base, exponent / 2)]
    if exponent > 1:
        return _joined("multiply", [_nodes_of_power(base, e) for e in (1.0, exponent - 1)])
    match base:
        case ("sum", terms):
            return _joined("add", [_nodes(term) for term in terms])
        case ("group", inside):
            return _nodes(inside)
        case ("abs", inside):
            return [_node("sqrt"), _node("square"), *_nodes_of_power(inside, 1.0)]
        case ("exp", inside):
            return [_node("exp"), *_nodes(inside)]
        case ("power", inside, name):
            return [_node("power"), *_nodes(inside), _node(name)]
        case ("hp", name):
            return [_node("hp"), _node(name)]
    kind, frequency, *names = base
    transform = ["spectral", "x", frequency] if frequency else ["euc", "x"]
    return [_node(name) for name in (kind, *transform, *names)]


def _node(name: str) -> Any:
    """Return DEAP's node of a name, or of a constant."""
    known = primitive_set().mapping.get(name)
    return known or gp.Terminal(float(name), False, Covariance)


def _joined(name: str, parts: list[list[Any]]) -> list[Any]:
    """Return a sum or a product of several parts, as flat as possible."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return [_node(name), *_joined(name, parts[:half]), *_joined(name, parts[half:])]
