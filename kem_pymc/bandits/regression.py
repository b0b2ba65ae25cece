"""Regression with and without decomposed feedback (algorithms 1 and 2)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kem_pymc.bandits.objective import Objective, Weighted
from kem_pymc.errors import InputError
from kem_pymc.gp.process import AveragedPosterior, GaussianProcess, Posterior, Process

#: A component: a Gaussian process, or draws of one, which have the same weight.
type Component = Process | Sequence[Process]


class ComposedProcess:
    """The Gaussian process of a weighted sum of independent ones.

    Its covariance is ``sum_j g_j(x) k_j(x, x') g_j(x')``, and the noise variance of an observed sum
    ``sum_j g_j(x)^2 sigma_j^2``.

    Parameters
    ----------
    processes : sequence of GaussianProcess, length J
    objective : Weighted
        The weights.
    """

    def __init__(self, processes: Sequence[GaussianProcess], objective: Weighted) -> None:
        self.processes, self.objective = list(processes), objective

    @property
    def dimension(self) -> int:
        """Number of inputs D."""
        return self.processes[0].dimension

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means; see :class:`kem_pymc.gp.process.GaussianProcess`."""
        own = np.column_stack([process.mean(x) for process in self.processes])
        return (self.objective.weights(x) * own).sum(axis=1)

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances; see :class:`kem_pymc.gp.process.GaussianProcess`."""
        left, right = self.objective.weights(x), self.objective.weights(z)
        found = np.zeros((len(x), len(z)))
        for j, process in enumerate(self.processes):
            found += left[:, j, None] * process.covariance(x, z) * right[:, j]
        return found

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances; see :class:`kem_pymc.gp.process.GaussianProcess`."""
        own = np.column_stack([process.variance(x) for process in self.processes])
        return (self.objective.weights(x) ** 2 * own).sum(axis=1)

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances; see :class:`kem_pymc.gp.process.GaussianProcess`."""
        own = np.column_stack([process.noise_at(x) for process in self.processes])
        return (self.objective.weights(x) ** 2 * own).sum(axis=1)


class DecomposedPosterior:
    """Posteriors of the components, and what follows for the objective (algorithms 2 and 4).

    Parameters
    ----------
    components : sequence of Process, or of sequences of Process, length J
        Processes of the components; a sequence in place of one contains draws of it.
    objective : Objective
    points : ndarray, shape (m, D), optional
        Points at which moments are kept up to date.

    Raises
    ------
    InputError
        If there are more or fewer components than the objective has, or inputs differ in number.
    """

    def __init__(
        self,
        components: Sequence[Component],
        objective: Objective,
        points: np.ndarray | None = None,
    ) -> None:
        drawn = [[own] if isinstance(own, Process) else list(own) for own in components]
        if len(drawn) != objective.count or not all(drawn):
            raise InputError(
                f"There are {len(drawn)} components, and the objective has {objective.count}. Give "
                "one process, or draws of one, for each."
            )
        dimensions = {process.dimension for own in drawn for process in own}
        if len(dimensions) > 1:
            raise InputError(
                f"The components have {' and '.join(map(str, sorted(dimensions)))} inputs. Give "
                "all of them the same."
            )
        self.objective, self.points = objective, points
        self.dimension = dimensions.pop()
        self.posteriors = [
            Posterior(own[0], points) if len(own) == 1 else AveragedPosterior(own, points)
            for own in drawn
        ]

    def observe(self, x: np.ndarray, components: npt.ArrayLike) -> None:
        """Add observations of the components at a point.

        Parameters
        ----------
        x : ndarray, shape (D,)
        components : array_like, shape (J,)
                NaN where a component wasn't observed: it isn't updated then.

        Raises
        ------
        InputError
            If an observation contradicts earlier ones, and there is no noise. Nothing is added
            then.
        """
        own = zip(self.posteriors, np.asarray(components, float), strict=True)
        # All rows first: if one observation is refused, none is added.
        rows = [(post, post.row_of(x, float(y))) for post, y in own if not np.isnan(y)]
        for posterior, row in rows:
            if row is not None:
                posterior.add(row)  # type: ignore[arg-type]  # of the same posterior

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) of the objective at the points."""
        if self.points is None:
            raise InputError("The posterior has no fixed points. Use predict.")
        means = np.column_stack([posterior.mean for posterior in self.posteriors])
        variances = np.column_stack([posterior.variance for posterior in self.posteriors])
        return self.objective.moments(self.points, means, variances)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) of the objective at inputs (m, D), without noise."""
        return self.objective.moments(x, *self.predict_components(x))

    def predict_components(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m, J) of the components at inputs (m, D), without noise."""
        means, variances = zip(*(own.predict(x) for own in self.posteriors), strict=True)
        return np.column_stack(means), np.column_stack(variances)

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return covariances (n, m) of a weighted sum at inputs (n, D) and (m, D) (algorithm 2).

        The paper prints the weights squared, on both sides.

        Raises
        ------
        InputError
            If the objective isn't a weighted sum, or a component has several draws.
        """
        own = [posterior for posterior in self.posteriors if isinstance(posterior, Posterior)]
        if not isinstance(self.objective, Weighted) or len(own) < len(self.posteriors):
            raise InputError(
                "There is a covariance of weighted sums of components with one process each only."
            )
        left, right = self.objective.weights(x), self.objective.weights(z)
        found = np.zeros((len(x), len(z)))
        for j, posterior in enumerate(own):
            found += left[:, j, None] * posterior.covariance(x, z) * right[:, j]
        return found
