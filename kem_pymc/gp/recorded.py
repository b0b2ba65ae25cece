"""A user's targets as they were recorded, of a family that isn't normal."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kem_pymc.data.families import Family
from kem_pymc.gp.sites import sites


class ScaledSites(NamedTuple):
    """Normal observations that stand for recorded targets, in scaled units.

    Attributes
    ----------
    targets, noise : ndarray, shape (..., n)
        Values, and known variances of their noise.
    log_constant : ndarray, shape (...)
        What is added to their log density to obtain that of the recorded targets.
    """

    targets: np.ndarray
    noise: np.ndarray
    log_constant: np.ndarray


@dataclass(frozen=True, eq=False)
class Recorded:
    """Targets of a family, with the scaling of their latent values.

    Attributes
    ----------
    family : Family
    y : ndarray, shape (n,)
        Targets, in their unit.
    sizes : ndarray, shape (n,), or None
        Exposures or numbers of trials.
    centre, unit : float
        The latent values are centre + unit times scaled ones.
    """

    family: Family
    y: np.ndarray
    sizes: np.ndarray | None
    centre: float
    unit: float

    def sites(
        self,
        mean: np.ndarray,
        covariance: np.ndarray,
        start: ScaledSites | None = None,
    ) -> ScaledSites:
        """Return observations that stand for the targets, see :mod:`kem_pymc.gp.sites`.

        Parameters
        ----------
        mean, covariance : ndarray, shapes (n,) and (..., n, n)
            Those of the scaled latent values before, with the variance of their errors.
        start : ScaledSites, optional
            Observations that are near.
        """
        location, spread = self.centre + self.unit * mean, self.unit**2 * covariance
        near = None
        if start is not None:
            near = self.centre + self.unit * start.targets, self.unit**2 * start.noise
        found = sites(location, spread, self.family, self.y, self.sizes, near)
        return ScaledSites(
            (found.z - self.centre) / self.unit,
            found.v / self.unit**2,
            found.log_constant - len(self.y) * float(np.log(self.unit)),
        )

    def at(self, places: np.ndarray) -> "Recorded":
        """Return the targets at some places."""
        sizes = None if self.sizes is None else self.sizes[places]
        return Recorded(self.family, self.y[places], sizes, self.centre, self.unit)
