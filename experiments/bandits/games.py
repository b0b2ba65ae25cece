"""Games of bandits with decomposed feedback: the problems of D-GPUCB's experiments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from experiments.data.influenza import AGES, epidemic
from experiments.data.weather import AFTERNOON, NIGHT, perceived_temperature, stations
from kem_pymc.bandits.objective import Composed, Weighted
from kem_pymc.bandits.regression import error_correlation
from kem_pymc.bandits.space import Box, Points
from kem_pymc.gp.process import GaussianProcess

#: Problems by name.
ProblemName = Literal["se", "matern", "rq", "influenza", "weather", "afternoon", "smooth"]

#: Files of problems with weather stations.
STATIONS = {"weather": NIGHT, "afternoon": AFTERNOON}

#: Kernels of synthetic problems.
KERNELS = {"se": "SE", "matern": "MATERN52", "rq": "RQ"}

#: Ranges of the lengthscales (of their logs), amplitudes and mixtures of synthetic components.
LENGTHSCALES, AMPLITUDES, MIXTURES = (0.03, 0.5), (0.3, 1.0), (0.5, 3.0)

#: Number of points of a synthetic space, and noise variance of an observation.
POINTS, NOISE = 1000, 1e-4

#: Variance that is added to the diagonal of a covariance from which functions are drawn.
JITTER = 1e-8

#: Influenza: number of random policies from which kernels are learned, share of people who may be
#: vaccinated, ranges of the reproduction number and of susceptibilities, and noise relative to the
#: standard deviations of the components.
PILOT, BUDGET, REPRODUCTION, SUSCEPTIBILITY, RELATIVE = 150, 0.3, (1.4, 2.0), (0.7, 1.3), 0.05

#: Nonlinear problems: number of points from which kernels are learned (of stations: out of a third
#: of all), number of points of a smooth problem, and numbers of points of a box at which
#: derivatives are computed, and from which larger ones are searched for.
LEARNED, SMOOTH_POINTS, SAMPLES, STARTS = 200, 500, 4096, 5


@dataclass(frozen=True, eq=False)
class Game:
    """A problem of which everything is known.

    Attributes
    ----------
    space : Points or Box
    components : sequence of GaussianProcess
        Processes that the policies suppose.
    objective : Weighted or Composed
    truth : callable
        Returns the components (m, J) at points (m, D), without noise.
    noises : ndarray, shape (J,)
        Standard deviations of observations.
    sign : float
        1 if the objective is maximised, -1 if it is minimised.
    optimum : float
        Its best value in the space.
    whole : GaussianProcess or None
        Process of the values, for policies without decomposed feedback; None if it is that of the
        weighted sum.
    bounds : ndarray of shape (J,) or None
        Bounds of the derivatives of a nonlinear objective where the components are.
    """

    space: Points | Box
    components: Sequence[GaussianProcess]
    objective: Weighted | Composed
    truth: Callable[[np.ndarray], np.ndarray]
    noises: np.ndarray
    sign: float
    optimum: float
    whole: GaussianProcess | None = None
    bounds: np.ndarray | None = None

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return values of the objective (m,) at points (m, D)."""
        return self.objective.value(x, self.truth(x))


def read(name: str) -> None:
    """Read the data files of a problem; synthetic ones have none.

    Raises
    ------
    DataFileNotFoundError
        If a file isn't there.
    """
    if name == "influenza":
        epidemic()
    if name in STATIONS:
        stations(STATIONS[name])


def game(name: ProblemName, rng: np.random.Generator) -> Game:
    """Return a random game of a problem."""
    if name == "influenza":
        return _influenza(rng)
    if name in STATIONS:
        return _weather(STATIONS[name], rng)
    if name == "smooth":
        return _smooth(rng)
    return synthetic(name, 10, rng)


def synthetic(name: str, count: int, rng: np.random.Generator, points: int = POINTS) -> Game:
    """Return a game with components drawn from Gaussian processes on [0, 1].

    Every component is drawn from a kernel of its own, by random numbers of its own; those of the
    authors' program are the same for all components.

    Parameters
    ----------
    name : {"se", "matern", "rq"}
    count : int
        Number of components J.
    rng : numpy.random.Generator
    points : int
        Number of points of the space.
    """
    base = KERNELS[name]
    x = np.linspace(0.0, 1.0, points)[:, None]
    components, functions = [], []
    for _ in range(count):
        values = {
            f"{base}0.amplitude": rng.uniform(*AMPLITUDES),
            f"{base}0.lengthscale": np.exp(rng.uniform(*np.log(LENGTHSCALES))),
            f"{base}0.mixture": rng.uniform(*MIXTURES),
        }
        process = GaussianProcess.of(f"{base}0", values, NOISE)
        root = np.linalg.cholesky(process.covariance(x, x) + JITTER * np.eye(points))
        components.append(process)
        functions.append(root @ rng.normal(size=points))
    table = np.column_stack(functions)

    def truth(at: np.ndarray) -> np.ndarray:
        return table[np.rint(at[:, 0] * (points - 1)).astype(int)]

    optimum = float(table.sum(axis=1).max())
    noises = np.full(count, np.sqrt(NOISE))
    return Game(Points(x), components, Weighted(count), truth, noises, 1.0, optimum)


def _influenza(rng: np.random.Generator) -> Game:
    """Return a vaccination policy's game: sick days by age group, under a budget."""
    made = epidemic(rng.uniform(*REPRODUCTION), rng.uniform(*SUSCEPTIBILITY, len(AGES)))
    space = Box(np.zeros(5), np.ones(5), (made.shares[None], np.array([BUDGET])))
    x = np.array([space.draw(rng) for _ in range(PILOT)])
    pilot = made.sick_days(x)
    noises = RELATIVE * pilot.std(axis=0)
    y = pilot + noises * rng.normal(size=pilot.shape)
    kernel = " + ".join(" x ".join(f"{base}{d}" for d in range(5)) for base in ("SE", "MATERN52"))
    seed = int(rng.integers(2**32))
    components = [GaussianProcess.fit(kernel, x, values, seed=seed) for values in y.T]
    best = space.best(lambda at: -made.sick_days(at).sum(axis=1), np.random.default_rng(seed))
    optimum = float(made.sick_days(best[None]).sum())
    return Game(space, components, Weighted(5), made.sick_days, noises, -1.0, optimum)


def _composed(
    g: Callable[..., np.ndarray], processes: Sequence[GaussianProcess], x: np.ndarray, y: np.ndarray
) -> Composed:
    """Return the objective g, with the correlation of errors at pilot observations y (n, J)."""
    return Composed(g, len(processes), correlation=error_correlation(processes, x, y))


def taken_up(effect: np.ndarray, appeal: np.ndarray) -> np.ndarray:
    """Return the effect of an offer times the share of people who take it up: a smooth function."""
    return effect / (1 + np.exp(-appeal))


def _smooth(rng: np.random.Generator) -> Game:
    """Return the game of an offer whose effect and appeal are drawn from Gaussian processes."""
    made = synthetic("se", 2, rng, SMOOTH_POINTS)
    x = np.linspace(0.0, 1.0, SMOOTH_POINTS)[:, None]
    truth = made.truth(x)
    values = taken_up(*truth.T)
    few = rng.permutation(SMOOTH_POINTS)[:LEARNED]
    seed = int(rng.integers(2**32))
    return replace(
        made,
        objective=_composed(taken_up, made.components, x[few], truth[few]),
        optimum=float(values.max()),
        whole=GaussianProcess.fit("SE0", x[few], values[few], seed=seed),
        bounds=np.array([1.0, np.abs(truth[:, 0]).max() / 4]),
    )


def _weather(file: str, rng: np.random.Generator) -> Game:
    """Return the game of finding the station with the highest perceived temperature."""
    places, weather = stations(file)
    order = rng.permutation(len(places))
    pilot, left = np.split(order, [len(order) // 3])
    few = pilot[:LEARNED]
    kernel = "MATERN520 x MATERN521 + SE0 x SE1"
    seed = int(rng.integers(2**32))
    components = [
        GaussianProcess.fit(kernel, places[few], values, seed=seed) for values in weather[few].T
    ]
    bounds = derivative_bounds(weather[pilot].min(axis=0), weather[pilot].max(axis=0), seed)
    objective = _composed(perceived_temperature, components, places[few], weather[few])
    values = perceived_temperature(*weather.T)
    whole = GaussianProcess.fit(kernel, places[few], values[few], seed=seed)
    index = {place.tobytes(): values for place, values in zip(places, weather, strict=True)}

    def truth(at: np.ndarray) -> np.ndarray:
        return np.array([index[place.tobytes()] for place in at])

    optimum = float(values[left].max())
    space = Points(places[left])
    return Game(space, components, objective, truth, np.zeros(3), 1.0, optimum, whole, bounds)


def derivative_bounds(low: np.ndarray, high: np.ndarray, seed: int) -> np.ndarray:
    """Return the largest derivatives (3,) of the perceived temperature over a box.

    Differences would be far larger where it jumps. The largest derivatives are searched for by
    L-BFGS from the best of random points and corners.
    """
    import pytensor
    import pytensor.tensor as pt

    x = pt.matrix("x")
    value = perceived_temperature(x[:, 0], x[:, 1], x[:, 2], pt)
    derivative = pytensor.function([x], pytensor.grad(pt.sum(value), x))
    ends = list(zip(low, high, strict=True))
    unit = qmc.Sobol(3, rng=np.random.default_rng(seed)).random(SAMPLES)
    corners = np.array(np.meshgrid(*ends)).reshape(3, -1).T
    points = np.vstack([low + unit * (high - low), corners])
    slopes = np.abs(derivative(points))
    bounds = slopes.max(axis=0)
    for j in range(3):
        for start in points[np.argsort(-slopes[:, j])[:STARTS]]:
            best = minimize(
                lambda at, j=j: -abs(float(derivative(at[None])[0, j])), start, bounds=ends
            )
            bounds[j] = max(bounds[j], -float(best.fun))
    return bounds
