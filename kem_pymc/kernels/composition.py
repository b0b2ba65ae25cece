"""Candidates and compositions: immutable values that describe a kernel, and print and parse.

A *candidate* is one additive term: a product of base kernels, each on one input dimension; the
empty product is ``CONST``, a constant level. A *composition* is a sum of candidates; the empty
one is ``WHITE`` (noise only). The same product may occur several times in a composition, as copies
with hyperparameters of their own, like ``SE0`` and ``SE0 #2``. Candidates and compositions compare,
sort and hash by content, not by the order in which they were written::

    >>> Composition.parse("PER0 + LIN0 x SE1")
    Composition('LIN0 x SE1 + PER0')
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, total_ordering
from typing import TYPE_CHECKING, Any, Self

from kem_pymc._system.display import Display, Displayed, Listing
from kem_pymc._system.options import MOST, check_kind, check_whole, checked
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import CONST, base_kernel, base_kernels

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True, order=True)
class Factor:
    """A base kernel on one input dimension, e.g. ``SE3``.

    Factors of base kernels that are tied also have a number, from 1, e.g. ``BEFORE0@1``: those with
    the same number share their hyperparameters.
    """

    base: str
    dimension: int
    tie: int = 0

    def __post_init__(self) -> None:
        dimension, tie = self.dimension, self.tie
        whole = type(dimension) is int and type(tie) is int
        if not (whole and 0 <= dimension < MOST and 0 <= tie < MOST):
            check_whole(0, dimension=dimension, tie=tie)
        if bool(base_kernel(self.base).tied) != (tie > 0):
            raise InputError(
                f"{self.base} on dimension {self.dimension} has the number {self.tie}. "
                "Give a number from 1, as in BEFORE0@1, to change points and windows only."
            )

    def __str__(self) -> str:
        return f"{self.base}{self.dimension}{f'@{self.tie}' if self.tie else ''}"

    @classmethod
    @checked
    def parse(cls, text: str) -> Self:
        """Parse a factor from its printed form.

        Raises
        ------
        InputError
            If the text isn't a base kernel's name followed by a dimension's index.
        """
        text = text.strip()
        place, at, tie = text.partition("@")
        for kernel in base_kernels():
            rest = place.removeprefix(kernel.name)
            numbers = [rest, tie] if at else [rest]
            whole = rest != place and all(n.isdecimal() and len(n) < 10 for n in numbers)
            if whole and bool(kernel.tied) == bool(at):
                return cls(kernel.name, *map(int, numbers))
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise InputError(
            f"{shown!r} is not a base kernel with an input dimension. "
            f"Write a name ({', '.join(k.name for k in base_kernels())}) and an index, like SE0; "
            "register your own kernel first."
        )


@dataclass(frozen=True, order=True)
class Candidate:
    """One additive term: a product of factors with one amplitude.

    Parameters
    ----------
    factors : tuple of Factor
        Factors in any order; they are sorted. Without factors the candidate is ``CONST``, a level:
        one value for all inputs (a random intercept), with the amplitude as its variance.
    copy : int
        Number that distinguishes terms with the same factors, from 1.

    Raises
    ------
    InputError
        If the number is below 1.
    """

    factors: tuple[Factor, ...] = ()
    copy: int = 1

    def __post_init__(self) -> None:
        factors = self.factors
        for factor in factors if type(factors) is tuple else (None,):
            if type(factor) is not Factor:
                factors = _checked_tuple(Factor, factors, "factors")
                break
        if factors is not self.factors or len(factors) > 1:
            object.__setattr__(self, "factors", tuple(sorted(factors)))
        copy = self.copy
        if type(copy) is not int or not 1 <= copy < MOST:
            check_whole(copy=copy)

    def __str__(self) -> str:
        number = f" #{self.copy}" if self.copy != 1 else ""
        return (" x ".join(map(str, self.factors)) or CONST) + number

    def __repr__(self) -> str:
        return f"Candidate({str(self)!r})"

    def __mul__(self, other: "Candidate") -> "Candidate":
        if not isinstance(other, Candidate):
            return NotImplemented
        return Candidate(self.factors + other.factors)

    def __add__(self, other: "Candidate | Composition") -> "Composition":
        return Composition((self,)).__add__(other)

    @classmethod
    @checked
    def ard(cls, dimension: int) -> Self:
        """Return the product of SE over all of `dimension` input dimensions (section 6.1)."""
        check_whole(dimension=dimension)
        return cls(tuple(Factor("SE", d) for d in range(dimension)))

    @classmethod
    @checked
    def parse(cls, text: str, dimension: int | None = None) -> Self:
        """Parse a candidate from its printed form; ``ARD`` needs the input `dimension`.

        Raises
        ------
        InputError
            If a factor can't be parsed, is outside the given dimension, or is CONST, or if ARD is
            given without a dimension.
        """
        if numbered := re.fullmatch(r"(.*\S)\s+#(\d{1,9})", text.strip(), re.DOTALL):
            return cls(cls.parse(numbered[1], dimension).factors, int(numbered[2]))
        parts = re.split(r"\s[x*]\s", text.strip())
        if parts == [CONST]:
            return cls()
        if any(re.fullmatch(rf"{CONST}\d*", part.strip()) for part in parts):
            raise InputError(
                f"{text.strip()!r} isn't a candidate: CONST is a constant level, which depends on "
                "no input dimension and would change only the amplitude of a product. "
                "Write CONST alone, and add it: CONST + SE0."
            )
        if parts == ["ARD"]:
            if dimension is None:
                raise InputError("ARD doesn't specify its dimensions. Give dimension= as well.")
            return cls.ard(dimension)
        factors = tuple(map(Factor.parse, parts))
        for factor in factors:
            if dimension is not None and factor.dimension >= dimension:
                raise InputError(
                    f"{factor} uses input dimension {factor.dimension}, but the number of "
                    f"dimensions is {dimension}. Use dimensions 0 to {dimension - 1}."
                )
        return cls(factors)

    @property
    def is_interaction(self) -> bool:
        """Whether it is a product of more than one base kernel."""
        return len(self.factors) > 1

    @property
    def dimensions(self) -> frozenset[int]:
        """The input dimensions that the candidate uses."""
        return frozenset(f.dimension for f in self.factors)

    def label(self, dimension: int | None = None) -> str:
        """Return the paper's name: as printed, but ``ARD`` for SE over all of the dimensions."""
        every = len(self.factors) > 1 and len(self.factors) == dimension
        if every and self == Candidate.ard(len(self.factors)):
            return "ARD"
        return str(self)

    @property
    def by_factor(self) -> list[tuple[Factor, tuple["Hyperparameter", ...]]]:
        """The factors with their hyperparameters.

        Those of factors with a number are shared with other factors of the same number.
        """
        pairs = []
        for position, factor in enumerate(self.factors):
            kernel = base_kernel(factor.base)
            owner = str(self)
            if factor.tie:
                owner = f"{kernel.tied}{factor.dimension}@{factor.tie}"
            elif self.is_interaction:
                several = self.factors.count(factor) > 1
                number = position - self.factors.index(factor) + 1
                owner += f".{factor}{f'#{number}' if several else ''}"
            kinds = kernel.hyperparameters
            named = tuple(Hyperparameter(f"{owner}.{kind}", kind, factor.base) for kind in kinds)
            pairs.append((factor, named))
        return pairs

    @property
    def hyperparameters(self) -> tuple["Hyperparameter", ...]:
        """The candidate's own hyperparameters, amplitude first, then factor by factor."""
        unshared = [h for factor, named in self.by_factor for h in named if not factor.tie]
        return (Hyperparameter(f"{self}.amplitude", "amplitude", None), *unshared)


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter of one candidate.

    Attributes
    ----------
    name : str
        ``LIN0.shift``; in a product ``LIN0 x PER0.PER0.period``, ``PER0 x PER0.PER0#2.period``.
    kind : str
        ``"amplitude"``, or a kind of hyperparameter of its base kernel.
    base : str or None
        Name of the base kernel it belongs to; None for the amplitude.
    """

    name: str
    kind: str
    base: str | None

    @property
    def positive(self) -> bool:
        """Whether it is positive, so that algorithms work on its log."""
        return self.base is None or base_kernel(self.base).positive(self.kind)


@total_ordering
@dataclass(frozen=True)
class Composition(Displayed):
    """A sum of candidates; the empty sum is ``WHITE``.

    Parameters
    ----------
    candidates : tuple of Candidate
        Candidates in any order, maybe with repeats; they are sorted, and repeats are dropped.
    """

    candidates: tuple[Candidate, ...] = ()

    def __post_init__(self) -> None:
        candidates = self.candidates
        for candidate in candidates if type(candidates) is tuple else (None,):
            if type(candidate) is not Candidate:
                candidates = _checked_tuple(Candidate, candidates, "candidates")
                break
        if candidates is not self.candidates or len(candidates) > 1:
            object.__setattr__(self, "candidates", tuple(sorted(set(candidates))))

    @cached_property
    def _hash(self) -> int:
        return hash(self.candidates)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.candidates,)  # without the hash, which other processes don't share

    @classmethod
    @checked
    def parse(cls, text: str, dimension: int | None = None) -> Self:
        """Parse a composition from its printed form, such as ``LIN0 + PER0`` or ``WHITE``.

        Raises
        ------
        InputError
            If a part can't be parsed, or is outside the given dimension.
        """
        if text.strip() == "WHITE":
            return cls()
        return cls(tuple(Candidate.parse(part, dimension) for part in text.split("+")))

    def __str__(self) -> str:
        return self.label()

    def __repr__(self) -> str:
        return f"Composition({str(self)!r})"

    def label(self, dimension: int | None = None) -> str:
        """Return the paper's name of the composition; with `dimension`, ARD is written as such."""
        return " + ".join(c.label(dimension) for c in self.candidates) or "WHITE"

    def __lt__(self, other: "Composition") -> bool:
        if not isinstance(other, Composition):
            return NotImplemented
        return (len(self), self.candidates) < (len(other), other.candidates)

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __contains__(self, candidate: Candidate) -> bool:
        return candidate in self.candidates

    def __add__(self, other: "Composition | Candidate") -> "Composition":
        if not isinstance(other, Composition | Candidate):
            return NotImplemented
        added = (other,) if isinstance(other, Candidate) else other.candidates
        return Composition(self.candidates + added)

    def __sub__(self, other: "Composition | Candidate") -> "Composition":
        if not isinstance(other, Composition | Candidate):
            return NotImplemented
        dropped = (other,) if isinstance(other, Candidate) else other.candidates
        return Composition(tuple(c for c in self.candidates if c not in dropped))

    def _display(self) -> Display:
        if not self.candidates:
            return Display("Composition WHITE", notes=["Noise only."])
        columns = ("candidate", "input dimensions", "hyperparameters")
        rows = [
            (
                str(candidate),
                ", ".join(map(str, sorted(candidate.dimensions))),
                ", ".join(h.name.removeprefix(f"{candidate}.") for h in candidate.hyperparameters),
            )
            for candidate in self
        ]
        return Display(f"Composition {self}", listings=[Listing(columns, rows)])

    @property
    def dimensions(self) -> frozenset[int]:
        """The input dimensions that the composition uses: the included features."""
        return frozenset[int]().union(*(c.dimensions for c in self.candidates))

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """All hyperparameters, candidate by candidate, then those that candidates share.

        The noise isn't among them.
        """
        return with_shared(self.candidates)

    @checked
    def to_pymc(
        self, hyperparameters: Mapping[str, object], dimension: int
    ) -> "pm.gp.cov.Covariance":
        """Return the noise-free covariance as a ``pm.gp.cov`` object.

        Parameters
        ----------
        hyperparameters : mapping
            Values, or PyMC variables, by name as in :attr:`hyperparameters`. Amplitudes are
            variances, and no value is a log. Other names are ignored.
        dimension : int
            Number of input columns.

        Returns
        -------
        pm.gp.cov.Covariance

        Raises
        ------
        InputError
            If a hyperparameter is missing or isn't a number or scalar variable, or a candidate is
            outside the dimension.
        """
        from kem_pymc.kernels.to_pymc import scalar, sum_of_products

        names = [h.name for h in self.hyperparameters]
        for name in names:
            if name not in hyperparameters:
                raise InputError(f"{name} has no value. Give all of {', '.join(names)}.")
        values = {name: scalar(hyperparameters[name], name) for name in names}
        terms = []
        for candidate in as_candidates(self, dimension):
            factors = [
                (factor.base, factor.dimension, [values[h.name] for h in named])
                for factor, named in candidate.by_factor
            ]
            terms.append((values[candidate.hyperparameters[0].name], factors))
        return sum_of_products(terms, dimension)


def _checked_tuple[T](kind: type[T], given: Any, name: str) -> tuple[T, ...]:
    """Return the parts of what is constructed as a tuple, if they are of a kind.

    Searches construct candidates and compositions by the million, so this is called only where it
    isn't plain that they are.
    """
    check_kind(given, Iterable[kind], name)  # type: ignore[valid-type]
    parts = tuple(given)
    check_kind(parts, tuple[kind, ...], name)  # type: ignore[valid-type]
    return parts


def with_shared(candidates: Iterable[Candidate]) -> tuple[Hyperparameter, ...]:
    """Return the candidates' own hyperparameters in order, then those that they share, by name."""
    candidates = tuple(candidates)
    of_candidates = [h for candidate in candidates for h in candidate.hyperparameters]
    shared = {h.name: h for c in candidates for factor, hs in c.by_factor for h in hs if factor.tie}
    owners = sorted({name.partition(".")[0] for name in shared})
    # Kinds stay in the order of the base kernel's.
    ordered = [h for o in owners for name, h in shared.items() if name.partition(".")[0] == o]
    return (*of_candidates, *ordered)


def as_candidates(items: Iterable[str | Candidate], dimension: int) -> tuple[Candidate, ...]:
    """Parse candidates from strings, keeping their order.

    Raises
    ------
    InputError
        If one can't be parsed, is outside the dimension, or occurs twice.
    """
    candidates = tuple(Candidate.parse(str(item), dimension) for item in items)
    seen = set[Candidate]()
    for candidate in candidates:
        if candidate in seen:
            raise InputError(f"Candidate {candidate} is given twice. Give each candidate once.")
        seen.add(candidate)
    return candidates
