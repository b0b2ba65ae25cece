"""Compare the time to evaluate a model of a search with scikit-learn's Gaussian process regressor.

The model is SE x PER + RQ + SE with a constant mean, on 144 points of one input, as of the airline
data. Ours is fitted from the three best of 64 draws from the prior and scored by Laplace's
approximation; scikit-learn's from three starting points. Both use analytic gradients and one
thread; times are CPU seconds of calls from Python, over several simulated series. Log likelihoods
are first checked to be equal.

    uv run --extra peers python benchmarks/search.py
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import time
import warnings

import numpy as np
from measure import Row, at_least

from kem_pymc.search.evaluation import Evaluator, coordinates_of
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.points import scaled

try:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import (
        RBF,
        ConstantKernel,
        ExpSineSquared,
        RationalQuadratic,
        WhiteKernel,
    )
except ImportError:
    raise SystemExit(
        "The comparison needs scikit-learn, which isn't installed. "
        "Use `uv run --extra peers python benchmarks/search.py`."
    ) from None

POINTS, SERIES = 144, 5

EXPRESSION = Grammar().parse("PER0 x SE0 + RQ0 + SE0")


def series(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a growing rhythm with noise, scaled."""
    rng = np.random.default_rng(seed)
    x = np.arange(POINTS) / 12
    y = x + (1 + 0.1 * x) * np.sin(2 * np.pi * x) + 0.3 * np.cumsum(rng.normal(size=POINTS)) / 4
    return scaled(x, y + 0.1 * rng.normal(size=POINTS))[:2]


def regressor(values: dict[str, float], noise: float) -> GaussianProcessRegressor:
    """Return scikit-learn's model at given hyperparameters, with three starting points."""
    wide = (1e-4, 1e4)
    kernel = (
        ConstantKernel(1.0, "fixed")
        + ConstantKernel(values["PER0 x SE0.amplitude"], wide)
        * RBF(values["PER0 x SE0.SE0.lengthscale"], wide)
        * ExpSineSquared(
            values["PER0 x SE0.PER0.lengthscale"], values["PER0 x SE0.PER0.period"], wide, wide
        )
        + ConstantKernel(values["RQ0.amplitude"], wide)
        * RationalQuadratic(values["RQ0.lengthscale"], values["RQ0.mixture"], wide, wide)
        + ConstantKernel(values["SE0.amplitude"], wide) * RBF(values["SE0.lengthscale"], wide)
        + WhiteKernel(noise, wide)
    )
    return GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=2, random_state=0)


def rows() -> list[Row]:
    """Return the ratio of the times of an evaluation."""
    hyperpriors = Hyperpriors()
    coordinates = coordinates_of(EXPRESSION, 1)
    middle = coordinates.named(hyperpriors.of(coordinates)[0])
    ours, theirs = [], []
    for seed in range(SERIES + 1):
        x, y = series(seed)
        evaluator = Evaluator(x, y, hyperpriors, seed=seed)
        began = time.process_time()
        evaluator.evaluate(EXPRESSION)
        took = time.process_time() - began
        model = regressor(*middle)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that values are close to their bounds
            model.fit(x, y)
        if seed == 0:  # compiles; check that both have the same model
            likelihood = model.log_marginal_likelihood(regressor(*middle).kernel.theta)
            values = hyperpriors.of(coordinates)[0]
            own, _ = evaluator.objective(EXPRESSION).terms(values)
            assert math.isclose(likelihood, own, rel_tol=1e-6), (likelihood, own)
            continue
        ours.append(took)
        theirs.append(time.process_time() - began)
    ratio = float(np.mean(theirs) / np.mean(ours))
    return [at_least(f"evaluation of {EXPRESSION} at {POINTS} points, scikit-learn", ratio, 5, "x")]


if __name__ == "__main__":
    from run import main

    main(("search",))
