"""Models of many users from other packages, with their predictions for a new user.

Each model is fitted to the pilot users' rows, in scaled units, and returns the joint normal
predictive distribution of all observations of a new user, noise included. Conditioning it on the
user's earlier rows is then the same for all models. Libraries are imported where they are used: a
model whose library isn't installed raises `ImportError`.
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr


class Rows(NamedTuple):
    """Pilot users' rows in scaled units.

    Attributes
    ----------
    x : ndarray, shape (n, D)
        Inputs, from 0 to 1.
    y : ndarray, shape (n,)
        Targets, with mean 0 and standard deviation 1.
    users : ndarray of int, shape (n,)
        Number of each row's user.
    """

    x: np.ndarray
    y: np.ndarray
    users: np.ndarray


class Joint(NamedTuple):
    """Mean (m,) and covariance (m, m), noise included, of a new user's m observations."""

    mean: np.ndarray
    covariance: np.ndarray


#: Function from a new user's inputs (m, D) to the distribution of the observations there.
type Fitted = Callable[[np.ndarray], Joint]


@dataclass(frozen=True)
class Conditioned:
    """Marginal means and sds of new observations, given earlier ones; shape (m,) each."""

    mean: np.ndarray
    sd: np.ndarray


def given(joint: Joint, y: np.ndarray, coming: slice) -> Conditioned:
    """Return the predictive distribution of later observations given the first ones.

    Parameters
    ----------
    joint : Joint
        Distribution of all of the user's observations.
    y : ndarray, shape (k,)
        The first k observations.
    coming : slice
        Positions of the observations to predict.

    Returns
    -------
    Conditioned
    """
    mean, covariance = joint
    k = len(y)
    factor = cho_factor(covariance[:k, :k], lower=True)
    cross = covariance[:k, coming]
    gain = cho_solve(factor, cross)
    variance = np.diag(covariance)[coming] - np.sum(cross * gain, axis=0)
    return Conditioned(mean[coming] + gain.T @ (y - mean[:k]), np.sqrt(variance))


# --- statsmodels ----------------------------------------------------------------------------------


def mixed_model(rows: Rows, seed: int) -> Fitted:  # noqa: ARG001  nothing is drawn
    """Fit a linear mixed model with statsmodels, by REML.

    Fixed effects are an intercept and a slope for every feature, except features that are linear in
    others. Random effects are an intercept, or an intercept and a slope for the first feature
    (time, if there is one), whichever has the lower AIC by maximum likelihood. The predictive
    covariance includes the uncertainty of the fixed effects.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    kept = _independent(rows.x)

    def fixed(x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), x[:, kept]])

    def effects(x: np.ndarray, slopes: int) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), x[:, :slopes]])

    def fit(slopes: int, reml: bool):
        model = MixedLM(rows.y, fixed(rows.x), rows.users, effects(rows.x, slopes))
        return model.fit(reml=reml, method=["bfgs", "lbfgs", "powell"])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about variances at zero, which are valid estimates
        aic = {slopes: _aic(fit(slopes, reml=False), slopes) for slopes in (0, 1)}
        slopes = min(aic, key=aic.__getitem__)
        found = fit(slopes, reml=True)
        if not np.isfinite(found.llf):  # REML of statsmodels fails at a variance of zero
            found = fit(slopes, reml=False)
        own = np.atleast_2d(found.cov_re)
        _check_blups(found, rows, fixed, lambda x: effects(x, slopes))
    noise = float(found.scale)
    information = scores = np.zeros(())
    for user in np.unique(rows.users):
        x, y = rows.x[rows.users == user], rows.y[rows.users == user]
        design, z = fixed(x), effects(x, slopes)
        weighed = np.linalg.solve(z @ own @ z.T + noise * np.eye(len(x)), design)
        information = information + design.T @ weighed
        scores = scores + y @ weighed
    uncertainty = np.linalg.inv(information)
    coefficients = uncertainty @ scores
    # The coefficients of statsmodels are unreliable if a variance is zero.
    regular = np.linalg.eigvalsh(own)[0] > 1e-8
    assert not regular or np.allclose(coefficients, found.fe_params, atol=1e-4)

    def joint(x: np.ndarray) -> Joint:
        design, z = fixed(x), effects(x, slopes)
        covariance = design @ uncertainty @ design.T + z @ own @ z.T + noise * np.eye(len(x))
        return Joint(design @ coefficients, covariance)

    return joint


def _independent(x: np.ndarray) -> np.ndarray:
    """Return the indices of columns that aren't linear in a constant and other columns."""
    _, triangle, order = qr(x - x.mean(axis=0), mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return np.sort(order[: int(np.sum(size > 1e-6 * size[0]))])


def _aic(found, slopes: int) -> float:
    effects = 1 + slopes
    return -2 * found.llf + 2 * (len(found.fe_params) + effects * (effects + 1) // 2 + 1)


def _check_blups(found, rows: Rows, fixed: Callable, effects: Callable) -> None:
    """Check that conditioning on rows gives the random effects (BLUPs) of statsmodels."""
    own, noise = np.atleast_2d(found.cov_re), float(found.scale)
    try:
        effects_of = found.random_effects
    except ValueError:  # statsmodels has none if a variance is zero
        return
    for user, given in effects_of.items():
        mine = rows.users == user
        z = effects(rows.x[mine])
        residual = rows.y[mine] - fixed(rows.x[mine]) @ np.asarray(found.fe_params)
        blup = own @ z.T @ np.linalg.solve(z @ own @ z.T + noise * np.eye(len(z)), residual)
        assert np.allclose(blup, given, atol=1e-6), (blup, given)


# --- scikit-learn ---------------------------------------------------------------------------------


def pooled_gp(rows: Rows, seed: int) -> Fitted:
    """Fit scikit-learn's GP to the rows of all users, with kernel SE (ARD) + linear + noise.

    Hyperparameters maximise the marginal likelihood, from two starts.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    lengthscales = np.ones(rows.x.shape[1])
    kernel = (
        ConstantKernel(1.0, (1e-4, 1e3)) * RBF(lengthscales, (1e-2, 1e2))
        + ConstantKernel(1.0, (1e-4, 1e3)) * DotProduct(1.0, (1e-3, 1e2))
        + WhiteKernel(0.1, (1e-5, 1e1))
    )
    model = GaussianProcessRegressor(kernel, alpha=1e-10, n_restarts_optimizer=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about values near bounds
        model.fit(rows.x, rows.y)
    return lambda x: Joint(*model.predict(x, return_cov=True))


# --- GPyTorch -------------------------------------------------------------------------------------


def two_level_gp(rows: Rows, seed: int) -> Fitted:
    """Fit a two-level GP with GPyTorch: a function shared by all users plus one of each user.

    Both kernels are SE with ARD plus linear. The user's kernel also has a constant, and is
    multiplied by a kernel that is 1 for two rows of the same user and otherwise 0. Priors are those
    of BoTorch: log-normal lengthscales that grow with the number of features, and log-normal noise.
    """
    import gpytorch
    import torch
    from linear_operator.utils.errors import NotPSDError

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = _two_level(rows)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    best = {"loss": np.inf, "values": model.state_dict()}

    def loss() -> "torch.Tensor":
        model.zero_grad()
        value = -marginal(model(*model.train_inputs), model.train_targets)
        if value.item() < best["loss"]:
            values = {name: v.detach().clone() for name, v in model.state_dict().items()}
            best.update(loss=value.item(), values=values)
        value.backward()
        return value

    for _ in range(5):
        search = torch.optim.LBFGS(
            model.parameters(), max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-7
        )
        # A line search may try values at which a matrix can't be factorised; then restart.
        with _exact(), suppress(NotPSDError):
            search.step(loss)
            break
        model.load_state_dict(best["values"])
    model.load_state_dict(best["values"])
    model.eval()

    def joint(x: np.ndarray) -> Joint:
        with torch.no_grad(), _exact():
            inputs = torch.from_numpy(np.column_stack([x, np.full(len(x), -1.0)]))
            found = model.likelihood(model(inputs))
            return Joint(found.mean.numpy(), found.covariance_matrix.numpy())

    return joint


def _exact():
    """Return a context with settings of GPyTorch for exact computations by Cholesky."""
    from gpytorch import settings

    stack = ExitStack()
    stack.enter_context(settings.fast_computations(False, False, False))
    stack.enter_context(settings.lazily_evaluate_kernels(False))
    return stack


def _two_level(rows: Rows):
    import torch
    from gpytorch.constraints import GreaterThan
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import ConstantKernel, Kernel, LinearKernel, RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ConstantMean
    from gpytorch.models import ExactGP
    from gpytorch.priors import LogNormalPrior

    dimension = rows.x.shape[1]
    features = tuple(range(dimension))
    location, scale = 2**0.5 + 0.5 * np.log(dimension), 3**0.5

    class SameUser(Kernel):
        def forward(self, x1, x2, diag=False, **_):
            if diag:
                return torch.ones(x1.shape[:-1], dtype=x1.dtype)
            return (x1 == x2.transpose(-2, -1)).to(x1.dtype)

    def smooth():
        base = RBFKernel(
            ard_num_dims=dimension,
            active_dims=features,
            lengthscale_prior=LogNormalPrior(location, scale),
        )
        base.lengthscale = np.exp(location - scale**2 / 2)
        return ScaleKernel(base, outputscale_prior=LogNormalPrior(-1.0, 1.5))

    class TwoLevel(ExactGP):
        def __init__(self) -> None:
            likelihood = GaussianLikelihood(LogNormalPrior(-3.0, 1.5), GreaterThan(1e-4))
            inputs = torch.from_numpy(np.column_stack([rows.x, rows.users.astype(np.float64)]))
            super().__init__(inputs, torch.from_numpy(rows.y), likelihood)
            self.mean = ConstantMean()
            self.shared = smooth() + LinearKernel(active_dims=features)
            own = smooth() + LinearKernel(active_dims=features) + ConstantKernel()
            self.own = own * SameUser(active_dims=(dimension,))
            likelihood.noise = 0.1
            self.double()

        def forward(self, x):
            return MultivariateNormal(self.mean(x), self.shared(x) + self.own(x))

    return TwoLevel()


#: Models to compare, by name.
PEERS: dict[str, Callable[[Rows, int], Fitted]] = {
    "statsmodels MixedLM": mixed_model,
    "scikit-learn GP": pooled_gp,
    "GPyTorch two-level": two_level_gp,
}
