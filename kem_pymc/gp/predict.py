"""Predict from a fitted composition: mean, sd, and the contribution of each additive component."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kem_pymc.compiled import compiled
from kem_pymc.display import Display, Displayed, Listing, beyond, number
from kem_pymc.errors import InputError
from kem_pymc.gp.cholesky import cholesky, forward_substitution
from kem_pymc.gp.covariance import covariance, cross_covariance
from kem_pymc.gp.likelihood import HALF_LOG_2PI, add_upper, factorise
from kem_pymc.gp.mixture import Mixture, TransformedMixture, transformed_moments
from kem_pymc.gp.objective import Objective
from kem_pymc.lanes import padded
from kem_pymc.transforms import Transform

#: Maximum number of inputs that are displayed.
SHOWN = 10

#: Name of the component that all users share.
SHARED = "shared"


@dataclass(frozen=True, eq=False)
class Component:
    """Contribution of one candidate to a prediction.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Posterior mean and standard deviation of the candidate's own function.
    """

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Displayed):
    """The predictive distribution at m inputs.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Mean and standard deviation of the latent function, or of a new observation if
        `include_noise`.
    components : dict of str to Component
        Components by the candidate's label; ``"shared"`` is the mean process, if there is one.
        Their means and the offset add up to the mean; their sds ignore correlations between
        components.
    noise : float
        Variance of an observation around the function.
    include_noise : bool
        Whether `sd` includes the noise.
    offset : float
        Contribution of the prior mean: the pilot users' mean if targets were standardised, else 0.
    mixture : Mixture, optional
        Distribution of a new observation, if the prediction is a mixture of several: `mean`, `sd`
        and `noise` are then moments of mixtures.
    transform : Transform, optional
        Transform of the target. `mean` and `sd` are then those of the target itself, by quadrature,
        and so are quantiles and densities of an `observation`; components, `noise` and `offset` are
        those of the transformed target, whose distribution is `mixture`.
    function : Mixture, optional
        Distribution of the transformed latent function, if the target is transformed.
    """

    mean: np.ndarray
    sd: np.ndarray
    components: dict[str, Component] = field(default_factory=dict)
    noise: float = 0.0
    include_noise: bool = False
    offset: float = 0.0
    mixture: Mixture | None = None
    transform: Transform | None = None
    function: Mixture | None = None

    @property
    def observation(self) -> Mixture | TransformedMixture:
        """The distribution of a new observation at each input, regardless of `include_noise`."""
        if self.transform is not None and self.mixture is not None:
            return TransformedMixture(self.mixture, self.transform)
        return self._normal

    @property
    def _normal(self) -> Mixture:
        """Like `observation`, but of the transformed target if the target is transformed."""
        if self.mixture is not None:
            return self.mixture
        variance = self.sd**2 + (0.0 if self.include_noise else self.noise)
        return Mixture(np.ones(1), self.mean[None], np.sqrt(variance)[None])

    @property
    def sd_function(self) -> np.ndarray:
        """The sd (m,) of the latent function, regardless of `include_noise`."""
        if not self.include_noise:
            return self.sd
        if self.transform is not None and self.function is not None:
            of = self.function
            parts = [
                transformed_moments(mean, sd, self.transform)
                for mean, sd in zip(of.mean, of.sd, strict=True)
            ]
            return _moments(of.weights, [mean for mean, _ in parts], [sd for _, sd in parts])[1]
        return np.sqrt(_rounded_up(self.sd**2 - self.noise))

    def quantile(self, probability: float) -> np.ndarray:
        """Return a quantile (m,) of a new observation at each input, in the unit of `mean`.

        Parameters
        ----------
        probability : float
            Probability of a smaller value, above 0 and below 1.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        InputError
            If the probability is outside this range.
        """
        if not 0 < probability < 1:
            raise InputError(
                f"{probability} has no quantile. Give a probability above 0 and below 1."
            )
        return self.observation.quantile(probability)

    def log_predictive_density(self, y_new: npt.ArrayLike) -> np.ndarray:
        """Return the log predictive density of a new observation at each input.

        It includes the noise whether or not `sd` does. The paper's test log-likelihood is its mean
        over the test points.

        Parameters
        ----------
        y_new : array_like, shape (m,)
            Observed targets.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        InputError
            If there isn't one target for each input.
        """
        y = np.asarray(y_new, dtype=np.float64)
        if y.shape != self.mean.shape:
            raise InputError(
                f"There are targets of shape {y.shape} for {len(self.mean)} predictions. "
                "Give one target per input."
            )
        return self.observation.log_density(y)

    def __repr__(self) -> str:
        return f"Prediction({self._of_what()})"

    def _of_what(self) -> str:
        n = len(self.mean)
        what = "new observations" if self.include_noise else "the function"
        return f"{what} at {n} input{'s' * (n != 1)}"

    def _display(self) -> Display:
        parts = self.components
        spreads = [(label, p.mean.std(), np.median(p.sd)) for label, p in parts.items()]
        each = zip(self.mean, self.sd, *(p.mean for p in parts.values()), strict=True)
        means = [(i, *row) for i, row in zip(range(SHOWN), each, strict=False)]
        columns = ("component", "sd of its mean over inputs", "median sd")
        listings = [Listing(columns, spreads)] if parts and len(self.mean) else []
        title = "Means and sds" + (", and what components contribute" if parts else "")
        more = beyond(SHOWN, len(self.mean), "inputs are shown.")
        listings.append(Listing(("input", "mean", "sd", *parts), means, title=title, more=more))
        noise = f"{number(self.noise**0.5)}, {'included' if self.include_noise else 'left out'}"
        facts = {"Sd of the noise": noise, "Offset": number(self.offset)}
        return Display(f"Prediction of {self._of_what()}", facts, listings)


def averaged(predictions: Sequence[Prediction], weights: Sequence[float]) -> Prediction:
    """Return the mixture of predictions at the same inputs, with weights that add up to one.

    A component's mean and sd are those of the mixture, with zero where a prediction lacks it.
    """
    shares = np.array(weights)
    mean, sd = _moments(shares, [p.mean for p in predictions], [p.sd for p in predictions])
    nothing = Component(np.zeros_like(mean), np.zeros_like(mean))
    labels = dict.fromkeys(label for p in predictions for label in p.components)
    components = {}
    for label in labels:
        parts = [p.components.get(label, nothing) for p in predictions]
        components[label] = Component(
            *_moments(shares, [part.mean for part in parts], [part.sd for part in parts])
        )
    own = [p._normal for p in predictions]
    return Prediction(
        mean,
        sd,
        components,
        noise=float(shares @ [p.noise for p in predictions]),
        include_noise=predictions[0].include_noise,
        offset=predictions[0].offset,
        mixture=_joined(shares, own),
        transform=predictions[0].transform,
        function=_joined(shares, [p.function for p in predictions if p.function is not None]),
    )


def _joined(weights: np.ndarray, own: Sequence[Mixture]) -> Mixture | None:
    """Return the mixture of single normal distributions, or None if there aren't any."""
    if not own:
        return None
    return Mixture(
        weights, np.concatenate([m.mean for m in own]), np.concatenate([m.sd for m in own])
    )


def back_transformed(prediction: Prediction, transform: Transform) -> Prediction:
    """Return the prediction of a target, given one kernel's prediction of its transform."""
    mean, sd = transformed_moments(prediction.mean, prediction.sd, transform)
    function = Mixture(np.ones(1), prediction.mean[None], prediction.sd_function[None])
    back = replace(prediction, mean=mean, sd=sd, transform=transform)
    return replace(back, mixture=prediction._normal, function=function)


def _moments(
    weights: np.ndarray, means: list[np.ndarray], sds: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd (m,) of mixtures of distributions with these moments."""
    mean = weights @ np.array(means)
    squares = weights @ (np.array(sds) ** 2 + (np.array(means) - mean) ** 2)
    return mean, np.sqrt(squares)


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A composition with given values, conditioned on data, with the Cholesky factor for reuse.

    It is created by :meth:`of`; :meth:`extended` adds points at the cost of the new ones.

    Attributes
    ----------
    objective : Objective
        Objective whose data are conditioned on; its prior isn't used.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.objective`).
    factor : ndarray, shape (n, n)
        U, upper triangular, with U'U the covariance of the targets.
    jittered : bool
        Whether the factorisation needed the jitter of the likelihood.
    """

    objective: Objective
    values: np.ndarray
    factor: np.ndarray
    jittered: bool

    @classmethod
    def of(cls, objective: Objective, values: np.ndarray) -> "Conditioned":
        """Condition on the data of an objective, at given coordinates.

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        factor, jittered = _factor(objective, values)
        if factor is None:
            raise InputError(
                f"The covariance of {objective.coordinates.composition} isn't positive definite. "
                "Use a larger noise variance."
            )
        return cls(objective, values, factor, jittered)

    def extended(self, x: np.ndarray, y: np.ndarray) -> "Conditioned":
        """Condition on further points as well, at the same values.

        The factor's new columns are U'^-1 K(X, X*), and the conditional covariance of the new
        points is factored: O(n^2 m) for m new points, and no kernel is evaluated between old ones.
        Where jitter was needed, or is needed now, everything is computed again.

        Parameters
        ----------
        x : ndarray, shape (m, D)
            Inputs of the new points.
        y : ndarray, shape (m,)
            Targets of the new points.

        Returns
        -------
        Conditioned

        Raises
        ------
        InputError
            If the covariance isn't positive definite, even with jitter.
        """
        problem, shared = self.objective.problem, self.objective.shared
        before = problem.x.T
        points = np.concatenate([before, x])
        objective = Objective(
            self.objective.coordinates,
            points,
            np.concatenate([self.objective.targets, y]),
            problem.prior,
            self.objective.noise_floor,
            None if shared is None else shared.to(x).extended,
        )
        if not self.jittered:
            h, log_noise = self.objective.coordinates.expand(self.values)
            new = None if shared is None else shared.to(x)
            factor = _extend_factor(
                problem.kernels,
                problem.layout,
                problem.active,
                h,
                log_noise,
                problem.x,
                np.array(np.transpose(x), dtype=np.float64, order="C"),
                self.factor,
                np.zeros((len(before), len(x))) if new is None else new.cross,
                np.zeros((len(x), len(x))) if new is None else new.covariance,
            )
            if len(factor):
                return Conditioned(objective, self.values, factor, jittered=False)
        return Conditioned.of(objective, self.values)

    @cached_property
    def whitened(self) -> np.ndarray:
        """U'^-1 y, shape (n,)."""
        return solve_lower(self.factor, self.objective.problem.y[:, None])[:, 0]

    @property
    def log_likelihood(self) -> float:
        """The log likelihood of the data."""
        terms = -0.5 * self.whitened**2 - np.log(np.diag(self.factor)) - HALF_LOG_2PI
        return float(terms.sum())

    def predict(self, x_new: np.ndarray, include_noise: bool = False) -> Prediction:
        """Predict at inputs x_new (m, D), like :func:`predict`."""
        pool, problem = self.objective.coordinates.pool, self.objective.problem
        u, v = self.factor, self.whitened
        h, log_noise = self.objective.coordinates.expand(self.values)
        noise = math.exp(log_noise)
        z = np.array(np.transpose(x_new), dtype=np.float64, order="C")
        mean, variance = np.zeros(z.shape[1]), np.zeros(z.shape[1])
        projection = np.zeros((len(v), z.shape[1]))
        components = {}
        if self.objective.shared is not None:
            new = self.objective.shared.to(x_new)
            w = solve_lower(u, new.cross)
            prior = new.covariance.diagonal()
            own = _rounded_up(prior - (w**2).sum(axis=0))
            mean += new.mean + v @ w
            components[SHARED] = Component(mean.copy(), np.sqrt(own))
            variance += prior
            projection += w
        active = problem.active
        means, priors, squares = np.empty((3, len(active), z.shape[1]))
        _project(
            *(problem.kernels, problem.layout, active, h, problem.x, z, u, v),
            *(projection, means, priors, squares),
        )
        sds = np.sqrt(_rounded_up(priors - squares))
        for c, part, own in zip(active, means, sds, strict=True):
            components[pool.candidates[c].label(pool.dimension)] = Component(part, own)
        mean += means.sum(axis=0)
        variance = _rounded_up(variance + priors.sum(axis=0) - (projection**2).sum(axis=0))
        sd = np.sqrt(variance + noise if include_noise else variance)
        return Prediction(mean, sd, components, noise, include_noise)


def predict(
    objective: Objective, values: np.ndarray, x_new: np.ndarray, include_noise: bool = False
) -> Prediction:
    """Predict from the data and the composition of an objective, at given coordinates.

    With A = K(X, X) + noise I and K = sum_c K_c, the mean is K(X*, X) A^-1 y and the variance
    K(X*, X*) - K(X*, X) A^-1 K(X, X*); for component c, K_c replaces K outside A. The empty
    composition (WHITE) has no components, mean zero, and no variance except the noise. Where users
    share a mean process with mean m and covariance C, y is replaced by y - m(X), m(X*) is added to
    the mean, and C is the covariance of one more component.

    Parameters
    ----------
    objective : Objective
        Objective whose data are conditioned on; its prior isn't used.
    values : ndarray, shape (k + 1,)
        Coordinates (:mod:`kem_pymc.gp.objective`).
    x_new : ndarray, shape (m, D)
        Inputs at which to predict, in the units of the objective's inputs.
    include_noise : bool
        Whether to predict new observations instead of the latent function.

    Returns
    -------
    Prediction

    Raises
    ------
    InputError
        If the covariance isn't positive definite, even with jitter.
    """
    return Conditioned.of(objective, values).predict(x_new, include_noise)


def covariance_factor(objective: Objective, values: np.ndarray) -> np.ndarray | None:
    """Return U (n, n), upper triangular, with U'U the covariance of the targets.

    Return None if that isn't positive definite, even with the jitter of the likelihood.
    """
    return _factor(objective, values)[0]


def _factor(objective: Objective, values: np.ndarray) -> tuple[np.ndarray | None, bool]:
    """Return the factor of the covariance, if it exists, and whether jitter was needed."""
    problem, n = objective.problem, objective.n_points
    u = np.empty((n, padded(n)))
    counts = np.zeros(2, dtype=np.int64)
    h, log_noise = objective.coordinates.expand(values)
    covariance(problem.kernels, problem.layout, problem.active, h, problem.x, u, np.empty_like(u))
    if objective.shared is not None:
        add_upper(u, problem.shared)
    done = factorise(u, log_noise, counts)
    return np.ascontiguousarray(u[:, :n]) if done == n else None, bool(counts[0] > 1)


@compiled
def solve_lower(u, b):
    """Return the solution (n, m) of U'w = b for upper triangular `u` (n, n) and `b` (n, m)."""
    columns = np.ascontiguousarray(b.T)
    for j in range(columns.shape[0]):
        forward_substitution(u, columns[j], u.shape[0], columns[j])
    return np.ascontiguousarray(columns.T)


@compiled
def _project(kernels, layout, active, h, x, z, u, v, projection, means, priors, squares):
    """Write the contributions of each active candidate at new points `z` (D, m).

    For candidate c, with W = U'^-1 K_c(X, Z), these are its mean W'v, its prior variance and the
    column sums of squares of W, each (number of active candidates, m). The sum of all W is added to
    `projection` (n, m).
    """
    for i in range(active.shape[0]):
        cross, prior = cross_covariance(kernels, layout, active[i], h, x, z)
        w = solve_lower(u, cross)
        priors[i] = prior
        means[i] = 0.0
        squares[i] = 0.0
        for k in range(w.shape[0]):
            for j in range(w.shape[1]):
                means[i, j] += v[k] * w[k, j]
                squares[i, j] += w[k, j] ** 2
                projection[k, j] += w[k, j]


@compiled
def _extend_factor(kernels, layout, active, h, log_noise, x, z, u, shared_cross, shared_new):
    """Return the factor (n + m, n + m) for points `x` (D, n) and `z` (D, m), given that of `x`.

    The covariances of the mean process, (n, m) and (m, m), are added to those of the composition.
    Return an empty array if the conditional covariance of the new points isn't positive definite.
    """
    n, m = x.shape[1], z.shape[1]
    cross = shared_cross.copy()
    for c in active:
        cross += cross_covariance(kernels, layout, c, h, x, z)[0]
    w = solve_lower(u, cross)
    left = np.zeros((m, padded(m)))
    covariance(kernels, layout, active, h, z, left, np.empty_like(left))
    add_upper(left, shared_new)
    noise = math.exp(log_noise)
    for i in range(m):
        left[i, i] += noise
        left[i, :i] = 0.0
        left[i, m:] = 0.0
        for k in range(n):
            for j in range(i, m):
                left[i, j] -= w[k, i] * w[k, j]
    if cholesky(left, m, 0) < m:
        return np.empty((0, 0))
    out = np.empty((n + m, n + m))
    for i in range(n):
        out[i, i:n] = u[i, i:]
    out[:n, n:] = w
    out[n:, n:] = left[:, :m]
    return out


def _rounded_up(variance: np.ndarray) -> np.ndarray:
    """Return variances with negative values, which are due to rounding, replaced by zero."""
    return np.maximum(variance, 0.0)
