"""Variance that is to be explained, in whose units the default priors are."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

#: Least share of a mean square that is left where noise is known, and of all that is to be
#: explained that is taken to vary within users.
LEAST_UNKNOWN, LEAST_WITHIN = 0.1, 1e-3


class Unexplained(NamedTuple):
    """Variance that kernels have to explain, as a fraction of the target's.

    Attributes
    ----------
    total : float
        Mean square of the scaled targets, or of what a shared mean leaves of them.
    within : float
        Their variance within users: how far they are from their user's mean.
    """

    total: float = 1.0
    within: float = 1.0

    @classmethod
    def of(cls, residuals: Sequence[np.ndarray], noise: Sequence[np.ndarray] | None = None) -> Self:
        """Return what is left to explain by user, without the variance of known noise.

        Parameters
        ----------
        residuals : sequence of ndarray, shape (n_u,)
            Residuals of each user.
        noise : sequence of ndarray, shape (n_u,), optional
            Standard deviations of their known noise.
        """
        known = 0.0 if noise is None else float(np.mean(np.concatenate(noise) ** 2))
        total = float(np.mean(np.concatenate(residuals) ** 2))
        freedom = sum(len(r) - 1 for r in residuals)
        squares = float(sum(((r - r.mean()) ** 2).sum() for r in residuals))
        within = squares / freedom if freedom else total
        total, within = (max(v - known, LEAST_UNKNOWN * v) for v in (total, within))
        return cls(total, max(within, LEAST_WITHIN * total))
