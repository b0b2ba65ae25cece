"""The candidate pool of a study, and its layout in the arrays of the compiled code.

Compositions are data for the compiled code: rows of inclusion indicators over the pool, next to one
vector with an entry for every hyperparameter of every candidate. :class:`PoolLayout` holds the
positions, so that nothing is compiled for a particular composition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import numpy.typing as npt

from kem_pymc._system.display import Display, Displayed, plural, some
from kem_pymc._system.jit.structs import by_reference
from kem_pymc._system.options import check_whole, checked, shown
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import BUILT_IN, CONST, base_kernel, base_kernels, receive_kernel
from kem_pymc.kernels.composition import (
    Candidate,
    Composition,
    Factor,
    Hyperparameter,
    as_candidates,
    with_shared,
)

#: Maximum number of candidates whose names are in a pool's repr, and of names displayed per kind.
NAMED, SHOWN = 20, 30


@by_reference
class PoolLayout(NamedTuple):
    """Positions of candidates, factors and hyperparameters in the arrays of the compiled code.

    There are C candidates, F factors over all of them and H hyperparameters. Candidate c has
    factors ``factor_start[c]:factor_start[c+1]`` and hyperparameters
    ``hyper_start[c]:hyper_start[c+1]``, the first of which is its amplitude; hyperparameters that
    factors of different candidates share come after those of all candidates.
    """

    factor_start: np.ndarray  # (C + 1,) int64
    factor_base: np.ndarray  # (F,) int64, position in the registry of base kernels
    factor_dimension: np.ndarray  # (F,) int64
    factor_hyper: np.ndarray  # (F,) int64, first hyperparameter of each factor
    factor_size: np.ndarray  # (F,) int64, number of hyperparameters of each factor
    hyper_start: np.ndarray  # (C + 1,) int64
    positive: np.ndarray  # (H,) bool


@checked
class CandidatePool(Displayed):
    """The candidates from which the compositions of a study are built.

    Parameters
    ----------
    candidates : iterable of str or Candidate
        Candidates, e.g. ``["LIN0", "PER0", "LIN0 x PER0", "ARD"]``; their order is kept.
    dimension : int
        Number of input dimensions D.

    Raises
    ------
    InputError
        If a candidate can't be parsed, is outside the dimension or is given twice, if there are no
        candidates, or if the dimension is less than 1.
    """

    def __init__(self, candidates: Iterable[str | Candidate], dimension: int = 1) -> None:
        check_whole(dimension=dimension)
        self.dimension = int(dimension)
        self.candidates = as_candidates(candidates, self.dimension)
        if not self.candidates:
            raise InputError("The candidate pool is empty. Give at least one candidate, like SE0.")
        self._index = {c: i for i, c in enumerate(self.candidates)}

    @classmethod
    def from_base(
        cls,
        names: Sequence[str],
        dimension: int = 1,
        interactions: bool = False,
        ard: bool | None = None,
    ) -> "CandidatePool":
        """Create a pool of base kernels on every dimension (paper, 10.2.3).

        Parameters
        ----------
        names : sequence of str
            Names of base kernels, e.g. ``["LIN", "PER", "SE"]``, and ``"CONST"`` for a level, which
            has no dimension and is in no product.
        dimension : int
            Number of input dimensions.
        interactions : bool
            Whether to include products of two factors. SE x SE on the same dimension is left out,
            because it is an SE again.
        ard : bool, optional
            Whether to include ARD; by default if there is more than one dimension.

        Returns
        -------
        CandidatePool

        Raises
        ------
        InputError
            If a base kernel isn't registered.
        """
        check_whole(dimension=dimension)
        levels = [Candidate() for name in names if name == CONST]
        names = [name for name in names if name != CONST]
        for name in names:
            base_kernel(name)
        atoms = [Factor(name, d) for d in range(dimension) for name in names]
        candidates = levels + [Candidate((a,)) for a in atoms]
        if interactions:
            same = {(Factor("SE", d), Factor("SE", d)) for d in range(dimension)}
            pairs = [p for p in combinations_with_replacement(atoms, 2) if p not in same]
            candidates += [Candidate(pair) for pair in pairs]
        if dimension > 1 if ard is None else ard:
            candidates += [c for c in [Candidate.ard(dimension)] if c not in candidates]
        return cls(candidates, dimension)

    def __getstate__(self) -> dict[str, Any]:
        # User-defined kernels are pickled by value: other processes may not have registered them.
        bases = {factor.base for candidate in self.candidates for factor in candidate.factors}
        registered = [base_kernel(name) for name in sorted(bases - BUILT_IN)]
        return {
            "candidates": self.candidates,
            "dimension": self.dimension,
            "kernels": cloudpickle.dumps(registered) if registered else None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for kernel in cloudpickle.loads(state["kernels"]) if state["kernels"] else ():
            receive_kernel(kernel)
        self.__init__(state["candidates"], state["dimension"])  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CandidatePool) and (self.candidates, self.dimension) == (
            other.candidates,
            other.dimension,
        )

    def __hash__(self) -> int:
        return hash((self.candidates, self.dimension))

    def __repr__(self) -> str:
        if len(self) > NAMED:
            return (
                f"<CandidatePool of {plural(len(self), 'candidate')}, dimension={self.dimension}>"
            )
        return f"CandidatePool({self.names}, dimension={self.dimension})"

    def _display(self) -> Display:
        base = [c for c in self if not c.is_interaction]
        products = [c.label(self.dimension) for c in self if c.is_interaction]
        facts = {
            "Input dimensions": str(self.dimension),
            f"Base kernels ({len(base)})": some(base, SHOWN) or "none",
            f"Products ({len(products)})": some(products, SHOWN) or "none",
            "Hyperparameters": str(len(self.hyperparameters)),
        }
        return Display(f"CandidatePool of {plural(len(self), 'candidate')}", facts)

    @property
    def names(self) -> list[str]:
        """The paper's names of the candidates, in order."""
        return [c.label(self.dimension) for c in self.candidates]

    @cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Every hyperparameter of every candidate, in the order of the pool's vectors (H,).

        Those that candidates share come last.
        """
        return with_shared(self.candidates)

    @cached_property
    def layout(self) -> PoolLayout:
        """Positions of candidates, factors and hyperparameters in the compiled code's arrays."""
        codes = {k.name: i for i, k in enumerate(base_kernels())}
        factor_start, hyper_start = [0], [0]
        factors: list[Factor] = []
        factor_hyper: list[int] = []  # 0 for factors without hyperparameters
        places = {h.name: i for i, h in enumerate(self.hyperparameters)}
        for candidate in self.candidates:
            factor_hyper += [places[h[0].name] if h else 0 for _, h in candidate.by_factor]
            factors += candidate.factors
            factor_start.append(len(factors))
            hyper_start.append(hyper_start[-1] + len(candidate.hyperparameters))
        as_int = lambda values: np.asarray(list(values), dtype=np.int64)  # noqa: E731
        return PoolLayout(
            factor_start=as_int(factor_start),
            factor_base=as_int(codes[f.base] for f in factors),
            factor_dimension=as_int(f.dimension for f in factors),
            factor_hyper=as_int(factor_hyper),
            factor_size=as_int(len(base_kernel(f.base).hyperparameters) for f in factors),
            hyper_start=as_int(hyper_start),
            positive=np.asarray([h.positive for h in self.hyperparameters], dtype=np.bool_),
        )

    @cached_property
    def _uses(self) -> np.ndarray:
        """Which hyperparameters every candidate has, (C, H) bool."""
        names = [{h.name for h in with_shared([candidate])} for candidate in self.candidates]
        return np.array([[h.name in used for h in self.hyperparameters] for used in names])

    def inclusion(self, composition: Composition) -> np.ndarray:
        """Return a composition's inclusion indicators (C,) bool.

        Raises
        ------
        InputError
            If one of its candidates isn't in the pool.
        """
        row = np.zeros(len(self), dtype=np.bool_)
        for candidate in composition:
            if candidate not in self._index:
                raise InputError(
                    f"{candidate} is not in the candidate pool. "
                    f"Add it, or use some of {', '.join(self.names)}."
                )
            row[self._index[candidate]] = True
        return row

    def composition(self, inclusion: np.ndarray) -> Composition:
        """Return the composition with these inclusion indicators (C,)."""
        row = _vector(inclusion, len(self), "inclusion")
        return Composition(tuple(self.candidates[i] for i in np.flatnonzero(row)))

    def active(self, inclusion: np.ndarray) -> np.ndarray:
        """Return which hyperparameters (H,) belong to included candidates, as bool."""
        row = _vector(inclusion, len(self), "inclusion")
        return self._uses[row.astype(bool)].any(axis=0)

    def unconstrained(self, hyperparameters: Mapping[str, float]) -> np.ndarray:
        """Return values by name as a vector (H,) of logs (positive kinds) or values (others).

        Hyperparameters that aren't named are NaN.

        Raises
        ------
        InputError
            If a name isn't one of the pool's, or a positive hyperparameter isn't positive.
        """
        vector = np.full(len(self.hyperparameters), np.nan)
        places = {h.name: i for i, h in enumerate(self.hyperparameters)}
        for name, value in hyperparameters.items():
            if name not in places:
                raise InputError(
                    f"{name!r} isn't a hyperparameter of this pool. "
                    f"Use a name like {next(iter(places))}."
                )
            positive = self.hyperparameters[places[name]].positive
            if positive and not value > 0:
                raise InputError(f"{name} is {value}. Give a positive value.")
            vector[places[name]] = np.log(value) if positive else value
        return vector

    def named(self, vector: np.ndarray, composition: Composition) -> dict[str, float]:
        """Return, by name, the values of a composition in a vector (H,) of logs or values."""
        vector = _vector(vector, len(self.hyperparameters), "vector")
        active = self.active(self.inclusion(composition))
        return {
            h.name: float(np.exp(v) if h.positive else v)
            for h, v, on in zip(self.hyperparameters, vector, active, strict=True)
            if on
        }


def _vector(values: npt.ArrayLike, size: int, name: str) -> np.ndarray:
    """Return values as an array (size,).

    Raises
    ------
    InputError
        If they aren't so many numbers.
    """
    try:
        vector = np.asarray(values)
    except (TypeError, ValueError):  # rows of unequal length, or no array
        vector = np.array(None)
    if vector.shape != (size,) or vector.dtype.kind not in "biuf":
        raise InputError(f"{name} is {shown(values)}. Give {size} numbers or truth values.")
    return vector
