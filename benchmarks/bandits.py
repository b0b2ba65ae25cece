"""Time D-GPUCB: 100 rounds with ten components and 1,000 points, beside packages that refit.

    uv run --extra peers python benchmarks/bandits.py

All programs play the same game: the same kernels with fixed hyperparameters, the same observations
at the points that ours chooses, and after each round the moments of every component at all points.
scikit-learn and BoTorch (ModelListGP) are given all observations anew in every round, as they have
no update for fixed hyperparameters that keeps the moments. CPU seconds, one thread.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from measure import Row, at_least, at_most
from rich.console import Console
from rich.table import Table

from kem_pymc.bandits import Bandit, GaussianProcess, Points, Weighted

#: Components, points, rounds, noise variance, and limit of the time in seconds.
J, POINTS, ROUNDS, NOISE, LIMIT = 10, 1000, 100, 1e-4, 2.0

X = np.linspace(0, 1, POINTS)[:, None]

#: How many times longer scikit-learn and BoTorch should take at least.
SCIKIT_LEARN, BOTORCH = 10.0, 1.0


def ours(lengthscales: np.ndarray, functions: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Play, and return the places (T,) that were chosen, and the moments at the end."""
    components = [
        GaussianProcess.of("SE0", {"SE0.amplitude": 1.0, "SE0.lengthscale": own}, NOISE)
        for own in lengthscales
    ]
    bandit = Bandit(Points(X), components, Weighted(J))
    places = []
    for _ in range(ROUNDS):
        place = int(np.rint(bandit.ask()[0] * (POINTS - 1)))
        bandit.tell(X[place], functions[:, place])
        places.append(place)
    return np.array(places), [*bandit.model.at_points]


def scikit_learn(
    lengthscales: np.ndarray, functions: np.ndarray, places: np.ndarray
) -> list[np.ndarray]:
    """Refit all components in every round, and return the moments of the sum at the end."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    mean, variance = np.zeros(POINTS), np.zeros(POINTS)
    for t in range(1, ROUNDS + 1):
        mean, variance = np.zeros(POINTS), np.zeros(POINTS)
        for own, function in zip(lengthscales, functions, strict=True):
            model = GaussianProcessRegressor(RBF(own), alpha=NOISE, optimizer=None)
            model.fit(X[places[:t]], function[places[:t]])
            m, sd = model.predict(X, return_std=True)
            mean, variance = mean + m, variance + sd**2
    return [mean, variance]


def botorch(
    lengthscales: np.ndarray, functions: np.ndarray, places: np.ndarray
) -> list[np.ndarray]:
    """Condition a list of models in every round, and return the moments of the sum at the end."""
    import torch
    from botorch.models import ModelListGP, SingleTaskGP
    from gpytorch.kernels import RBFKernel
    from gpytorch.means import ZeroMean

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    points = torch.tensor(X)
    mean, variance = np.zeros(POINTS), np.zeros(POINTS)
    for t in range(1, ROUNDS + 1):
        models = []
        for own, function in zip(lengthscales, functions, strict=True):
            kernel = RBFKernel()
            kernel.lengthscale = float(own)
            y = torch.tensor(function[places[:t], None])
            noise = torch.full_like(y, NOISE)
            model = SingleTaskGP(
                points[places[:t]],
                y,
                noise,
                covar_module=kernel,
                mean_module=ZeroMean(),
                outcome_transform=None,
            )
            models.append(model)
        with torch.no_grad():
            found = ModelListGP(*models).posterior(points)
            mean = found.mean.sum(dim=1).numpy()
            variance = found.variance.sum(dim=1).numpy()
    return [mean, variance]


def timed(play: Callable[[], list[np.ndarray]], exact: list[np.ndarray]) -> float:
    """Return the CPU seconds of a game, whose moments are checked."""
    began = time.process_time()
    found = play()
    seconds = time.process_time() - began
    for name, own, other in zip(("mean", "variance"), exact, found, strict=True):
        far = float(np.abs(own - other).max())
        if far > 1e-3:
            warnings.warn(f"The {name}s differ by up to {far:.2g}.", stacklevel=2)
    return seconds


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    lengthscales = np.exp(rng.uniform(np.log(0.05), np.log(0.5), J))
    roots = [
        np.linalg.cholesky(np.exp(-0.5 * ((X - X.T) / own) ** 2) + 1e-8 * np.eye(POINTS))
        for own in lengthscales
    ]
    functions = np.array([root @ rng.normal(size=POINTS) for root in roots])
    ours(lengthscales, functions)  # compiles
    began = time.process_time()
    places, exact = ours(lengthscales, functions)
    own = time.process_time() - began
    rows: list[Row] = [at_most(f"{ROUNDS} rounds, J = {J}, {POINTS} points", own, LIMIT, " s")]
    for name, play, target in (
        ("scikit-learn", scikit_learn, SCIKIT_LEARN),
        ("BoTorch ModelListGP", botorch, BOTORCH),
    ):
        try:
            seconds = timed(partial(play, lengthscales, functions, places), exact)
        except ImportError:
            print(f"{name} isn't installed: uv run --extra peers")  # noqa: T201
            continue
        rows.append(at_least(f"{name} / ours", seconds / own, target))
    table = Table("figure", "target", "measured", "met")
    for row in rows:
        table.add_row(row.figure, row.target, row.measured, "yes" if row.met else "no")
    Console().print(table)


if __name__ == "__main__":
    main()
