"""Coordinates of a composition: its hyperparameters and noise variance as an unconstrained vector.

Coordinates (k + 1,) are, in the pool's order, the logs of the positive hyperparameters and the
values of the others, then the log of the noise variance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate, Composition, Hyperparameter
from kem_pymc.kernels.pool import CandidatePool

#: Smallest noise variance of a fit (paper, fig. 9), unless a table of priors has another.
NOISE_FLOOR = 0.01


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of one composition, with conversions from and to hyperparameters.

    Parameters
    ----------
    pool : CandidatePool
    composition : Composition

    Raises
    ------
    InputError
        If the pool lacks one of the composition's candidates.
    """

    pool: CandidatePool
    composition: Composition

    @classmethod
    def alone(cls, composition: Composition | str, dimension: int) -> Self:
        """Return the coordinates of a composition in a pool of its candidates only.

        Parameters
        ----------
        composition : Composition or str
            The composition, or its printed form such as ``"LIN0 + PER0"``.
        dimension : int
            Number of features D.
        """
        if isinstance(composition, str):
            composition = Composition.parse(composition, dimension)
        # A pool has at least one candidate, which a composition needn't have.
        return cls(CandidatePool(composition.candidates or [Candidate()], dimension), composition)

    def __post_init__(self) -> None:
        self.inclusion  # noqa: B018  refuses compositions from elsewhere at once

    @cached_property
    def inclusion(self) -> np.ndarray:
        """Inclusion indicators of the candidates, (C,) bool."""
        return self.pool.inclusion(self.composition)

    @cached_property
    def places(self) -> np.ndarray:
        """Indices of the hyperparameters in the pool's vector (H,): int64, (k,)."""
        return np.flatnonzero(self.pool.active(self.inclusion))

    @cached_property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """The k hyperparameters in the order of the coordinates."""
        return tuple(self.pool.hyperparameters[i] for i in self.places)

    @cached_property
    def positive(self) -> np.ndarray:
        """Which coordinates are logs, (k + 1,) bool; that of the noise, the last, is one."""
        return np.append(self.pool.layout.positive[self.places], True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the k + 1 coordinates, e.g. ``log SE0.lengthscale``; the last is the noise's."""
        logs = (f"log {h.name}" if h.positive else h.name for h in self.hyperparameters)
        return (*logs, "log noise")

    def __len__(self) -> int:
        return len(self.places) + 1

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the pool's vector (H,), zero where no candidate is active, and the log noise."""
        h = np.zeros(len(self.pool.hyperparameters))
        h[self.places] = values[:-1]
        return h, float(values[-1])

    def named(self, values: np.ndarray) -> tuple[dict[str, float], float]:
        """Return the hyperparameters' natural values by name, and the noise variance."""
        return self.all_named(values[None])[0]

    def all_named(self, values: np.ndarray) -> list[tuple[dict[str, float], float]]:
        """Return :meth:`named` of each of several coordinates (S, k + 1)."""
        natural = np.where(self.positive, np.exp(np.where(self.positive, values, 0.0)), values)
        names = [h.name for h in self.hyperparameters]
        return [(dict(zip(names, own, strict=False)), own[-1]) for own in natural.tolist()]

    def from_named(self, hyperparameters: Mapping[str, float], noise: float) -> np.ndarray:
        """Return the coordinates of natural values by name; other names are ignored.

        Raises
        ------
        InputError
            If a value is missing or out of range.
        """
        names = [h.name for h in self.hyperparameters]
        missing = [name for name in names if name not in hyperparameters]
        if missing:
            raise InputError(
                f"There is no value of {', '.join(missing)}. Give one of each of "
                f"{', '.join(names)}."
            )
        return self.from_natural(np.array([hyperparameters[name] for name in names]), noise)

    def from_natural(self, hyperparameters: np.ndarray, noise: float) -> np.ndarray:
        """Return the coordinates of natural values (k,) and a noise variance.

        Raises
        ------
        InputError
            If a value isn't finite, or isn't positive where it must be.
        """
        natural = np.append(hyperparameters, noise)
        wrong = ~np.isfinite(natural) | (self.positive & (natural <= 0))
        if wrong.any():
            name = [*(h.name for h in self.hyperparameters), "noise"][int(np.argmax(wrong))]
            raise InputError(
                f"{name} of {self.composition} is {natural[np.argmax(wrong)]}. "
                "Give a finite value, positive unless it is a shift."
            )
        natural[self.positive] = np.log(natural[self.positive])
        return natural
