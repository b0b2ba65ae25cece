"""The grammar of kernels that a search explores: sums of products of base kernels.

Expressions are built from base kernels on single input dimensions by adding, multiplying and
replacing (Duvenaud et al. 2013, section 3). Products are distributed over sums, so that an
expression is a sum of products, in which every product has an amplitude and hyperparameters of its
own. Expressions that are equal up to the order of sums and products, or by distribution, are one
:class:`~kem_pymc.kernels.composition.Composition`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kem_pymc._system.options import check_whole, checked
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate, Composition, Factor

#: Base kernels of the papers.
BASES = ("SE", "RQ", "LIN", "PER")

#: Base kernels whose product with themselves, on the same dimension, is the same kernel again.
IDEMPOTENT = frozenset({"SE", "CAT"})

#: Base kernels of which a second copy adds nothing: the sum of two lines with different shifts is a
#: line and a constant, which the mean absorbs.
ADDITIVE = frozenset({"LIN"})

#: Largest number of copies of a product. With more, BOMS spent its budget on further copies, which
#: raised the evidence by less than .01 nats per point.
COPIES = 2

#: Probability that a random walk ends after each step (Malkomes et al. 2016).
STOP = 1 / 3

#: Factors of the products of an expression.
type Products = tuple[tuple[Factor, ...], ...]


def _steps(products: Products, factor: Factor) -> Iterator[Products]:
    """Yield the results of combining an expression with a base kernel B, in every place."""
    yield (*products, (factor,))  # S to S + B
    yield tuple((*product, factor) for product in products)  # S to S x B, the whole expression
    for i, product in enumerate(products):  # S to S x B, one product
        yield (*products[:i], (*product, factor), *products[i + 1 :])
    replaced = [
        (i, (*product[:j], factor, *product[j + 1 :]))
        for i, product in enumerate(products)
        for j, other in enumerate(product)
        if not other.tie  # which is of a change point or window
    ]
    for _, product in replaced:  # S to S + B, one factor: (A + B) x C is A x C + B x C
        yield (*products, product)
    for i, product in replaced:  # A to B, one factor
        yield (*products[:i], product, *products[i + 1 :])


def _change(products: Products, factor: Factor) -> Iterator[Products]:
    """S to a change point or window between S and B, B and S, or S and S, on B's dimension."""
    from kem_pymc.kernels.changes import PAIRS

    tie = 1 + max((f.tie for product in products for f in product), default=0)
    for pair in PAIRS:
        one, other = (Factor(name, factor.dimension, tie) for name in pair)
        for first, second in (
            (products, ((factor,),)),
            (((factor,),), products),
            (products, products),
        ):
            yield (
                *((*product, one) for product in first),
                *((*product, other) for product in second),
            )


@checked
@dataclass(frozen=True)
class Grammar:
    """Expressions over base kernels on every input dimension.

    Parameters
    ----------
    dimension : int
        Number of input dimensions D.
    bases : tuple of str
        Names of base kernels.
    dimensions : tuple of int, optional
        Input dimensions that base kernels use; by default all.
    changes : bool
        Whether an expression may change over to another one at a point or in a window of an input
        (:mod:`kem_pymc.kernels.changes`).

    Raises
    ------
    InputError
        If a base kernel isn't registered or is given twice, there are no base kernels or
        dimensions, or a dimension is out of range.
    """

    dimension: int = 1
    bases: tuple[str, ...] = BASES
    dimensions: tuple[int, ...] | None = None
    changes: bool = False

    def __post_init__(self) -> None:
        if self.changes:
            # Registered only where they are used, because all registered kernels are compiled.
            from kem_pymc.kernels.changes import register_changes

            register_changes()
        check_whole(dimension=self.dimension)
        if not self._used or not {*self._used} <= {*range(self.dimension)}:
            raise InputError(
                f"The grammar has the dimensions {self.dimensions}. "
                f"Give at least one, from 0 to {self.dimension - 1}."
            )
        if not self.bases:
            raise InputError("The grammar has no base kernels. Give at least one, like SE.")
        for name in self.bases:
            base_kernel(name)
            if self.bases.count(name) > 1:
                raise InputError(f"Base kernel {name} is given twice. Give each one once.")

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """Every base kernel on every dimension."""
        return tuple(Factor(name, d) for d in self._used for name in self.bases)

    @property
    def _used(self) -> tuple[int, ...]:
        return tuple(range(self.dimension)) if self.dimensions is None else self.dimensions

    @cached_property
    def starts(self) -> tuple[Composition, ...]:
        """The expressions that consist of one base kernel."""
        return tuple(canonical([(factor,)]) for factor in self.factors)

    def parse(self, text: str) -> Composition:
        """Return the expression with a printed form such as ``LIN0 x PER0 + SE0``.

        Raises
        ------
        InputError
            If the text can't be parsed, or uses a base kernel or dimension outside the grammar.
        """
        products = [Candidate.parse(part, self.dimension).factors for part in text.split("+")]
        for factors in products:
            if not factors:
                raise InputError(
                    f"{text.strip()!r} contains a constant, but every model has a constant mean. "
                    "Leave it out."
                )
            for factor in factors:
                if factor not in self.factors and not (factor.tie and self.changes):
                    raise InputError(
                        f"{factor} isn't in the grammar. Use base kernels {', '.join(self.bases)} "
                        f"on dimensions {', '.join(map(str, self._used))}."
                    )
        return canonical(products)

    def neighbours(self, expression: Composition) -> tuple[Composition, ...]:
        """Return the expressions that one rule makes of an expression, sorted, without itself.

        Expressions with more than `COPIES` copies of a product are left out.
        """
        expressions = {
            canonical(made) for factor in self.factors for made in self._made(expression, factor)
        }
        expressions.discard(expression)
        return tuple(sorted(e for e in expressions if _admissible(e)))

    def _made(self, expression: Composition, factor: Factor) -> list[Products]:
        """Return the results of all rules with a factor, which may be equal up to order.

        Their number is the same for all factors.
        """
        products = tuple(candidate.factors for candidate in expression)
        made = list(_steps(products, factor))
        return [*made, *_change(products, factor)] if self.changes else made

    def within(self, steps: int, largest: int, rng: np.random.Generator) -> list[Composition]:
        """Return expressions at most `steps` steps away from a single base kernel.

        Parameters
        ----------
        steps : int
            Number of steps.
        largest : int
            Number of expressions to return at most. If there are more, those at the fewest steps
            are kept, and a random subset of those that are farther away.
        rng : numpy.random.Generator

        Returns
        -------
        list of Composition
            Sorted expressions.
        """
        outer = _sample(self.starts, largest, rng)
        reached = set(outer)
        for _ in range(steps):
            if len(reached) == largest:
                break
            outer = sorted({n for e in outer for n in self.neighbours(e)} - reached)
            reached |= set(_sample(outer, largest - len(reached), rng))
        return sorted(reached)

    def random_walk(self, rng: np.random.Generator) -> Composition:
        """Return the end of a random walk, started at a random base kernel.

        In each step a rule is applied to a place with a base kernel, all drawn at random; a result
        with too many copies is dropped. The number of steps is geometric: after each step the walk
        ends with probability `STOP`.
        """
        expression = self.starts[rng.integers(len(self.starts))]
        while True:
            factor = self.factors[rng.integers(len(self.factors))]
            made = self._made(expression, factor)
            proposal = canonical(made[rng.integers(len(made))])
            expression = proposal if _admissible(proposal) else expression
            if rng.random() < STOP:
                return expression


def canonical(products: Iterable[Iterable[Factor]]) -> Composition:
    """Return the sum of products of factors.

    Repeated factors such as SE0 x SE0 are simplified where the product is the same kernel again,
    and LIN0 + LIN0 because the sum is. Other equal products are numbered as copies, because they
    have different hyperparameters. Change points and windows are numbered in order of appearance.
    """
    copies: Counter[Candidate] = Counter()
    candidates = []
    for factors in _renumbered([tuple(factors) for factors in products]):
        candidate = Candidate(tuple(_simplified(factors)))
        alone = not candidate.is_interaction and candidate.factors[0].base in ADDITIVE
        copies[candidate] = 1 if alone else copies[candidate] + 1
        candidates.append(Candidate(candidate.factors, copies[candidate]))
    return Composition(tuple(candidates))


def _renumbered(products: Sequence[tuple[Factor, ...]]) -> Sequence[tuple[Factor, ...]]:
    """Return products in which change points and windows are numbered from 1."""
    if not any(factor.tie for factors in products for factor in factors):
        return products
    numbers: dict[int, int] = {}

    def untied(factors: tuple[Factor, ...]) -> list[tuple[str, int]]:
        return sorted((factor.base, factor.dimension) for factor in factors)

    for factors in sorted(products, key=untied):
        for factor in sorted(factors):
            if factor.tie:
                numbers.setdefault(factor.tie, len(numbers) + 1)
    return [
        tuple(replace(f, tie=numbers[f.tie]) if f.tie else f for f in factors)
        for factors in products
    ]


def _admissible(expression: Composition) -> bool:
    return all(candidate.copy <= COPIES for candidate in expression)


def _simplified(factors: Iterable[Factor]) -> Iterator[Factor]:
    seen = set()
    for factor in factors:
        if factor.base not in IDEMPOTENT or factor not in seen:
            yield factor
        seen.add(factor)


def _sample[T](items: Sequence[T], size: int, rng: np.random.Generator) -> list[T]:
    """Return a random subset of at most `size` items, in their order."""
    if len(items) <= size:
        return list(items)
    return [items[i] for i in np.sort(rng.choice(len(items), size, replace=False))]
