"""Regression with and without decomposed feedback (algorithms 1 and 2)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kem_pymc._system.options import checked
from kem_pymc.bandits.objective import Moments, Objective, Weighted
from kem_pymc.data.validation import filled, number_array
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Posterior, Process

#: Number of observations by which correlations of errors are shrunk towards none.
SHRUNK = 10.0

#: A component: a Gaussian process, or draws of one, which have the same weight.
type Component = Process | Sequence[Process]


@checked
class ComposedProcess:
    """The Gaussian process of a weighted sum of independent ones.

    Its covariance is ``sum_j g_j(x) k_j(x, x') g_j(x')``, and the noise variance of an observed sum
    ``sum_j g_j(x)^2 sigma_j^2``.

    Parameters
    ----------
    processes : sequence of Process, length J
    objective : Weighted
        The weights.
    """

    def __init__(self, processes: Sequence[Process], objective: Weighted) -> None:
        self.processes, self.objective = list(processes), objective

    @property
    def dimension(self) -> int:
        """Number of inputs D."""
        return self.processes[0].dimension

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return prior means; see :class:`kem_pymc.gp.posterior.Process`."""
        return self.objective.value(x, self._columns("mean", x))

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return prior covariances; see :class:`kem_pymc.gp.posterior.Process`."""
        left, right = self.objective.weights(x), self.objective.weights(z)
        parts = [process.covariance(x, z) for process in self.processes]
        return np.einsum("nj,jnm,mj->nm", left, np.array(parts), right)

    def variance(self, x: np.ndarray) -> np.ndarray:
        """Return prior variances; see :class:`kem_pymc.gp.posterior.Process`."""
        return (self.objective.weights(x) ** 2 * self._columns("variance", x)).sum(axis=1)

    def noise_at(self, x: np.ndarray) -> np.ndarray:
        """Return noise variances; see :class:`kem_pymc.gp.posterior.Process`."""
        return (self.objective.weights(x) ** 2 * self._columns("noise_at", x)).sum(axis=1)

    def _columns(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return what a method of the processes returns, as columns (n, J)."""
        return np.column_stack([getattr(process, name)(x) for process in self.processes])


@checked
class DecomposedPosterior:
    """Posteriors of the components, and what follows for the objective (algorithms 2 and 4).

    The paper prints the posterior covariance of a weighted sum with squared weights on both sides;
    that of a :class:`ComposedProcess` of the posteriors is right.

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
        drawn = [
            list(component) if isinstance(component, Sequence) else [component]
            for component in components
        ]
        if len(drawn) != objective.count or not all(drawn):
            raise InputError(
                f"The number of components is {len(drawn)}, and that of the objective "
                f"{objective.count}. Give one process, or draws of one, for each."
            )
        dimensions = {process.dimension for draws in drawn for process in draws}
        if len(dimensions) > 1:
            raise InputError(
                f"The components have {' and '.join(map(str, sorted(dimensions)))} inputs. Give "
                "all of them the same."
            )
        self.objective, self.points = objective, points
        self.dimension = dimensions.pop()
        #: The posterior of each draw of each component.
        self.posteriors = [
            [Posterior.unobserved(process, points) for process in draws] for draws in drawn
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
        observed = zip(self.posteriors, filled(components), strict=True)
        self.posteriors = [
            draws if np.isnan(y) else [draw.observe(x, float(y)) for draw in draws]
            for draws, y in observed
        ]

    def expect(self, x: np.ndarray) -> None:
        """Add observations at a point (D,) that are the means: only variances change."""
        self.posteriors = [
            [draw.observe(x, float(draw.mean(x[None])[0])) for draw in draws]
            for draws in self.posteriors
        ]

    def relearn(self, j: int, processes: Sequence[Process], x: np.ndarray, y: np.ndarray) -> None:
        """Replace draws of component j, and its observations by y (n,), or NaN, at x (n, D)."""
        fresh = DecomposedPosterior([processes], Weighted(1), self.points)
        for at, value in zip(x, y, strict=True):
            fresh.observe(at, [value])
        self.posteriors = [*self.posteriors[:j], *fresh.posteriors, *self.posteriors[j + 1 :]]

    @property
    def at_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (m,) of the objective at the points."""
        return self.predict(self.points)  # type: ignore[arg-type]

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m,) of the objective at inputs (m, D), without noise."""
        return self.objective.moments(x, *self.predict_components(x))

    def predict_components(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (m, J) of the components at inputs (m, D), without noise."""
        kept = x is self.points  # up to date
        each = [
            _mixed([draw.at_points if kept else draw.predict(x) for draw in draws])
            for draws in self.posteriors
        ]
        means, variances = zip(*each, strict=True)
        return np.column_stack(means), np.column_stack(variances)


def _mixed(moments: Sequence[Moments]) -> Moments:
    """Return moments (m,) of a mixture with equal weights, by the law of total variance."""
    if len(moments) == 1:
        return moments[0]
    means, variances = zip(*moments, strict=True)
    return np.mean(means, axis=0), np.mean(variances, axis=0) + np.var(means, axis=0)


@checked
def error_correlation(
    components: Sequence[Process], x: npt.ArrayLike, y: npt.ArrayLike
) -> np.ndarray:
    """Return the correlation (J, J) of errors of components' processes, for `Composed`.

    Each observation is predicted from all others, by each component's process, and errors are
    divided by their standard deviations. Their correlations (about zero) are multiplied by
    n / (n + 10).

    Parameters
    ----------
    components : sequence of Process, length J
    x : array_like, shape (n, D), or (n,) if D is 1
        Inputs of pilot observations.
    y : array_like, shape (n, J)
        The components there.

    Raises
    ------
    InputError
        If there are fewer than three points, shapes don't match, or a value isn't finite.
    """
    x, y = number_array("inputs", x), number_array("components", y)
    x = x[:, None] if x.ndim == 1 else x
    dimensions = {process.dimension for process in components}
    if len(x) < 3 or y.shape != (len(x), len(components)) or dimensions != {x.shape[-1]}:
        raise InputError(
            f"There are inputs of shape {x.shape} and components of shape {y.shape}. Give a row of "
            f"each for three points or more, with as many inputs as the {len(components)} "
            "components have."
        )
    errors = np.empty(y.shape)
    for column, process, own in zip(errors.T, components, y.T, strict=True):
        error, variance = Posterior.of(process, x, own).conditional.left_out()
        column[:] = error / np.sqrt(variance)
    errors /= np.linalg.norm(errors, axis=0)
    share = len(x) / (len(x) + SHRUNK)
    return share * errors.T @ errors + (1 - share) * np.eye(len(components))
