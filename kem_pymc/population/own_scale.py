"""Means of targets on their own scale: rates, probabilities, means of positive numbers and levels.

The latent value of a row is m + u + e, with m = phi'w of what users share, a user's own function u
~ N(0, t^2), and the error e ~ N(0, s^2) by which targets vary more than their family has it. The
mean of the target over users is h(m, t^2 + s^2), and over the targets of a user h(m + u, s^2), with

    h(m, v) = E[E[y | g]], g ~ N(m, v),

which is exp(m + v / 2) of a rate and Phi(m / sqrt(1 + v)) of a probit
(:meth:`kem_pymc.data.families.Family.averaged`). Means over rows in which a feature is set to a
value are standardised (g-computation; Robins 1986): differences between values are those that one
would see in these rows, of all users. They are computed for draws of the hyperparameters and, given
each, one draw of the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kem_pymc.population.hyperparameters import NOISE

if TYPE_CHECKING:
    from kem_pymc.population.posterior import PopulationPosterior

#: Seed of the draws of weights.
SEED = 0

#: Largest number of elements of the arrays that are made at once.
AT_A_TIME = 2_000_000


@dataclass(frozen=True, eq=False)
class OwnScale:
    """Draws of means of targets on their own scale.

    Attributes
    ----------
    posterior : PopulationPosterior
        Of a cohort with a family.
    """

    posterior: "PopulationPosterior"

    @cached_property
    def _drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draws of shared weights (S, P), a user's own (S, q), and normal scores (S,)."""
        rng = np.random.default_rng(SEED)
        mean, root = self.posterior._weights
        weights = mean + (rng.normal(size=root.shape[:2])[:, None, :] @ root)[:, 0]
        spread = self.posterior._scales.personal
        own = (spread @ rng.normal(size=(*spread.shape[:2], 1)))[..., 0]
        return weights, own, rng.normal(size=len(weights))

    def _settings(
        self,
        rows: np.ndarray,
        settings: Sequence[Mapping[str, float]],
        move: Mapping[str, float] | None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return distinct rows (n, D) and their shares (n,) for each setting of features."""
        names = self.posterior.model.cohort.features
        for setting in settings:
            x = rows.copy()
            for name, value in setting.items():
                x[:, names.index(name)] = value
            for name, step in (move or {}).items():
                x[:, names.index(name)] += step
            distinct, counts = np.unique(x, axis=0, return_counts=True)
            yield distinct, counts / counts.sum()

    def _mean(self, latent: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return h (S, n) for latent values in scaled units."""
        model, family = self.posterior.model, self.posterior.model.original.family
        assert family is not None
        unit = model.target_sd
        return family.averaged(latent * unit + model.target_mean, variance * unit**2)

    @cached_property
    def _noise(self) -> np.ndarray:
        """Variances (S, 1) of errors, in scaled units."""
        return self.posterior.draws[NOISE][:, None] ** 2

    def population(
        self,
        rows: np.ndarray,
        settings: Sequence[Mapping[str, float]],
        move: Mapping[str, float] | None = None,
    ) -> np.ndarray:
        """Return draws (S, k) of means over users and rows, in which features are set, or moved."""
        model, weights = self.posterior.model, self._drawn[0]
        spread, out = self.posterior._scales.personal, []
        for x, shares in self._settings(rows, settings, move):
            common = model.shared(x)
            own, places = np.unique(model.personal(x), axis=0, return_inverse=True)
            size = max(1, AT_A_TIME // (len(x) + own.size + 1))
            means = []
            for start in range(0, len(weights), size):
                part = slice(start, start + size)
                variance = ((own @ spread[part]) ** 2).sum(axis=-1) + self._noise[part]
                means.append(
                    self._mean(weights[part] @ common.T, variance[:, places.ravel()]) @ shares
                )
            out.append(np.concatenate(means))
        return np.array(out).T

    def new_user(self, rows: np.ndarray, settings: Sequence[Mapping[str, float]]) -> np.ndarray:
        """Return draws (S, k) of means over the rows of a new user, whose own function is drawn."""
        model, (weights, own, _) = self.posterior.model, self._drawn
        every = (
            self._mean(weights @ model.shared(x).T + own @ model.personal(x).T, self._noise)
            @ shares
            for x, shares in self._settings(rows, settings, None)
        )
        return np.array([*every]).T

    def user(self, user: int, settings: Sequence[Mapping[str, float]]) -> np.ndarray:
        """Return draws (S, k) of means over the rows of a user of the cohort, by position.

        Where other features vary within the user, their rows have the same normal score.
        """
        model, scores, out = self.posterior.model, self._drawn[2][:, None], []
        rows: Any = model.cohort.inputs[user]
        for x, shares in self._settings(rows, settings, None):
            mean, variance = self.posterior._of_user(user, model.shared(x), model.personal(x))
            latent = mean + scores * np.sqrt(np.maximum(variance, 0.0))
            out.append(self._mean(latent, self._noise) @ shares)
        return np.array(out).T
