"""Compare the speed of log likelihoods and fits with that of other libraries.

The kernel is LIN + PER with all its hyperparameters and the noise. All libraries use the same data
and one thread; times are CPU seconds of calls from Python, as ratios to ours. Every library's log
likelihood is first checked to equal ours. Each of several data sets is fitted once, from the same
start values; the figures are the mean time of a fit and the mean log likelihood reached, because
searches from the same start may end at different local optima. Imports and compilation aren't
timed.

    uv run --extra peers python benchmarks/peers.py [--json FILE] [--out FOLDER]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from measure import Row, at_least, in_turns
from scipy.optimize import minimize

import kem_pymc as kem
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.fit import bounds, fit
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.library import kernels

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GPyTorch uses deprecated parts of PyTorch
        import gpytorch
        import torch
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import (
        ConstantKernel,
        ExpSineSquared,
        Hyperparameter,
        Kernel,
        WhiteKernel,
    )
except ImportError as missing:
    raise SystemExit(
        f"The comparison with other libraries needs {missing.name}, which isn't installed. "
        "Use `uv run --extra peers python benchmarks/peers.py`."
    ) from None

#: Seconds of one log likelihood of LIN + PER at 30 points by the authors' public program
#: (TensorFlow, GPflow), measured on a comparable machine. SE took 4.8 ms, LIN x PER + SE 9.3 ms;
#: fits and other numbers of points weren't measured.
AUTHORS = 7.3e-3

POINTS = (30, 200)

#: Number of data sets that are fitted.
SETS = 5

#: Values at which likelihoods are computed and fits start; they differ from the true values.
START = {
    "LIN0.amplitude": 1.0,
    "LIN0.shift": 1.0,
    "PER0.amplitude": 1.0,
    "PER0.lengthscale": 1.0,
    "PER0.period": 2.2,
}
NOISE = 0.5

COMPOSITION = kem.Composition.parse("LIN0 + PER0")
COORDINATES = Coordinates(kem.CandidatePool(COMPOSITION.candidates), COMPOSITION)


class Peer(NamedTuple):
    """Functions of a library that are timed.

    Attributes
    ----------
    name : str
    likelihood : callable
        Returns the log likelihood of the first data set at `START`.
    fit : callable
        Fits the kernel to a data set, x and y (n,), and returns the log likelihood reached.
    """

    name: str
    likelihood: Callable[[], float]
    fit: Callable[[np.ndarray, np.ndarray], float]


def data(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate a linear trend plus an oscillation of period 2, with noise."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, points))
    return x, 0.3 * (x - 3) + np.sin(math.pi * x) + 0.3 * rng.normal(size=points)


def ours(x: np.ndarray, y: np.ndarray) -> Peer:
    """Return our log likelihood, which is one compiled call, and our fit."""
    start = COORDINATES.from_named(START, NOISE)
    h, log_noise = COORDINATES.expand(start)
    user = Data(x[None, None], y[None, None], np.array([[len(x)]]), np.array([1]), nested=True)
    layout, active = COORDINATES.pool.layout, as_active(COORDINATES.inclusion)
    code, out, counts = kernels(), np.empty(1), np.zeros(2, dtype=np.int64)

    def likelihood() -> float:
        prefix_log_likelihood(code, layout, active, h, log_noise, user, 0, 1, out, counts)
        return out[0]

    def fitted(x: np.ndarray, y: np.ndarray) -> float:
        return fit(Objective(COORDINATES, x[:, None], y), [start]).log_likelihood

    return Peer("ours", likelihood, fitted)


class Linear(Kernel):
    """LIN for scikit-learn, whose `DotProduct` has no shift.

    The hyperparameter is the shift's exponential, as scikit-learn optimises logs.
    """

    def __init__(self, exp_shift: float) -> None:
        self.exp_shift = exp_shift

    @property
    def hyperparameter_exp_shift(self) -> Hyperparameter:
        return Hyperparameter("exp_shift", "numeric", (1e-5, 1e5))

    def __call__(self, X, Y=None, eval_gradient=False):
        x, z = (points - math.log(self.exp_shift) for points in (X, X if Y is None else Y))
        value = x @ z.T
        return (value, -(x + z.T)[:, :, None]) if eval_gradient else value

    def diag(self, X):
        return ((X - math.log(self.exp_shift)) ** 2)[:, 0]

    def is_stationary(self):
        return False


def by_scikit_learn(x: np.ndarray, y: np.ndarray) -> Peer:
    """Return the functions of scikit-learn, with its default optimiser (SciPy's L-BFGS-B)."""
    linear = ConstantKernel(START["LIN0.amplitude"]) * Linear(math.exp(START["LIN0.shift"]))
    periodic = ExpSineSquared(START["PER0.lengthscale"], START["PER0.period"])
    noise = WhiteKernel(NOISE, noise_level_bounds=(NOISE_FLOOR, 1e5))
    kernel = linear + ConstantKernel(START["PER0.amplitude"]) * periodic + noise
    still = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x[:, None], y)

    def likelihood() -> float:
        return still.log_marginal_likelihood(kernel.theta, clone_kernel=False)

    def fitted(x: np.ndarray, y: np.ndarray) -> float:
        found = GaussianProcessRegressor(kernel, alpha=0.0).fit(x[:, None], y)
        return found.log_marginal_likelihood_value_

    return Peer("scikit-learn", likelihood, fitted)


class Shifted(gpytorch.kernels.LinearKernel):
    """LIN for GPyTorch, whose `LinearKernel` has an amplitude (its variance) and no shift."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("shift", torch.nn.Parameter(torch.zeros(1)))

    def forward(self, x1, x2, **options):
        return super().forward(x1 - self.shift, x2 - self.shift, **options)


class Model(gpytorch.models.ExactGP):
    """LIN + PER in GPyTorch, in double precision, at `START`."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        floor = gpytorch.constraints.GreaterThan(NOISE_FLOOR)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor)
        super().__init__(torch.from_numpy(x[:, None]), torch.from_numpy(y), likelihood)
        self.mean = gpytorch.means.ZeroMean()
        linear = Shifted()
        periodic = gpytorch.kernels.ScaleKernel(gpytorch.kernels.PeriodicKernel())
        self.kernel = linear + periodic
        self.double()
        values = {name: torch.tensor(v, dtype=torch.double) for name, v in START.items()}
        linear.initialize(variance=values["LIN0.amplitude"], shift=values["LIN0.shift"])
        periodic.outputscale = values["PER0.amplitude"]
        # GPyTorch doesn't square the lengthscale.
        periodic.base_kernel.lengthscale = values["PER0.lengthscale"] ** 2
        periodic.base_kernel.period_length = values["PER0.period"]
        likelihood.noise = torch.tensor(NOISE, dtype=torch.double)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    def log_likelihood(self) -> torch.Tensor:
        return self.likelihood(self(*self.train_inputs)).log_prob(self.train_targets)


def by_gpytorch(x: np.ndarray, y: np.ndarray) -> Peer:
    """Return the functions of GPyTorch, with PyTorch's L-BFGS (faster here than SciPy's)."""
    still = Model(x, y)

    def likelihood() -> float:
        with torch.no_grad():
            return still.log_likelihood().item()

    def fitted(x: np.ndarray, y: np.ndarray) -> float:
        model = Model(x, y)
        search = torch.optim.LBFGS(model.parameters(), max_iter=300, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            search.zero_grad()
            value = -model.log_likelihood()
            value.backward()
            return value

        search.step(loss)
        with torch.no_grad():
            return model.log_likelihood().item()

    return Peer("GPyTorch", likelihood, fitted)


def by_pymc(x: np.ndarray, y: np.ndarray) -> Peer:
    """Return the functions of PyMC's `gp.Marginal`, compiled once, with SciPy's L-BFGS-B."""
    start = COORDINATES.from_named(START, NOISE)
    limits = list(zip(*bounds(COORDINATES, NOISE_FLOOR), strict=True))
    with pm.Model() as model:
        inputs, targets = pm.Data("inputs", x[:, None]), pm.Data("targets", y)
        values = pm.Flat("values", shape=len(start))
        natural = {
            h.name: pt.exp(values[i]) if h.positive else values[i]
            for i, h in enumerate(COORDINATES.hyperparameters)
        }
        process = pm.gp.Marginal(cov_func=COMPOSITION.to_pymc(natural, 1))
        noise = pt.exp(values[-1] / 2)
        process.marginal_likelihood("y", inputs, targets, sigma=noise, jitter=0.0)
    value, slope = model.logp(), model.dlogp()
    log_likelihood, descent = (
        model.compile_fn(outputs, inputs=model.value_vars, point_fn=False)
        for outputs in (value, [-value, -slope])
    )
    # Skip type checks at every call.
    log_likelihood.trust_input = descent.trust_input = True

    def likelihood() -> float:
        return float(log_likelihood(start))

    def fitted(x: np.ndarray, y: np.ndarray) -> float:
        inputs.set_value(x[:, None])
        targets.set_value(y)
        return -minimize(descent, start, jac=True, method="L-BFGS-B", bounds=limits).fun

    return Peer("PyMC", likelihood, fitted)


def one_size(points: int) -> list[Row]:
    """Measure likelihoods and fits at one number of points."""
    sets = [data(points, seed) for seed in range(SETS)]
    peers = [make(*sets[0]) for make in (ours, by_scikit_learn, by_gpytorch, by_pymc)]
    expected = peers[0].likelihood()
    for peer in peers:
        assert math.isclose(peer.likelihood(), expected, rel_tol=1e-6), peer.name
    own, *others = in_turns(*(peer.likelihood for peer in peers), seconds=4.0)

    def all_fits(peer: Peer) -> Callable[[], float]:
        return lambda: math.fsum(peer.fit(x, y) for x, y in sets) / SETS

    repeated = [all_fits(peer) for peer in peers]
    own_height, *heights = (fits() for fits in repeated)
    own_fit, *fits = (seconds / SETS for seconds in in_turns(*repeated, seconds=6.0))

    names = [peer.name for peer in peers[1:]]
    single = list(zip(names, others, strict=True))
    if points == 30:
        single.append(("the authors' program", AUTHORS))
    out = []
    for name, seconds in single:
        figure = f"likelihood, {points} points: {name} ({shown(seconds)}) / ours ({shown(own)})"
        out.append(at_least(figure, seconds / own, 1.0))
    for name, seconds, height in zip(names, fits, heights, strict=True):
        figure = f"fit, {points} points: {name} ({shown(seconds)}, to {height:.2f}) / ours"
        figure += f" ({shown(own_fit)}, to {own_height:.2f})"
        lower = "; ours reaches a lower value" if own_height < height - 0.01 else ""
        out.append(at_least(figure + lower, seconds / own_fit, 1.0))
    return out


def shown(seconds: float) -> str:
    """Return a time as text, in milliseconds or microseconds."""
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"


def rows() -> list[Row]:
    """Measure likelihoods and fits at both numbers of points."""
    torch.set_num_threads(1)
    with (
        # Exact computations by Cholesky, without features that only take time here.
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.lazily_evaluate_kernels(False),
        gpytorch.settings.debug(False),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of scikit-learn, about values near bounds
        return [row for points in POINTS for row in one_size(points)]


if __name__ == "__main__":
    from run import main

    main(["peers"])
