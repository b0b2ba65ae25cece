"""Gaussian processes of other packages, fitted to pilot users' rows.

Libraries are imported where they are used: a model whose library isn't installed raises
`ImportError`.
"""

import warnings
from contextlib import ExitStack, suppress

import numpy as np

from experiments.peers.forecast import Pilots
from experiments.peers.joint import Fitted, Joint


def pooled_gp(pilots: Pilots, seed: int) -> Fitted:
    """Fit scikit-learn's GP to the rows of all users, with kernel SE (ARD) + linear + noise.

    Hyperparameters maximise the marginal likelihood, from two starts.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    lengthscales = np.ones(pilots.x.shape[1])
    kernel = (
        ConstantKernel(1.0, (1e-4, 1e3)) * RBF(lengthscales, (1e-2, 1e2))
        + ConstantKernel(1.0, (1e-4, 1e3)) * DotProduct(1.0, (1e-3, 1e2))
        + WhiteKernel(0.1, (1e-5, 1e1))
    )
    model = GaussianProcessRegressor(kernel, alpha=1e-10, n_restarts_optimizer=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about values near bounds
        model.fit(pilots.x, pilots.y)
    return lambda x: Joint(*model.predict(x, return_cov=True))


def two_level_gp(pilots: Pilots, seed: int) -> Fitted:
    """Fit a two-level GP with GPyTorch: a function shared by all users plus one of each user.

    Both kernels are SE with ARD plus linear. The user's kernel also has a constant, and is
    multiplied by a kernel that is 1 for two rows of the same user and otherwise 0. Priors are those
    of BoTorch: log-normal lengthscales that grow with the number of features, and log-normal noise.
    """
    import gpytorch
    import torch
    from linear_operator.utils.errors import NanError, NotPSDError

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = _two_level(pilots)
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
        with _exact(), suppress(NanError, NotPSDError):
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
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")  # about what is added to diagonals
    return stack


def _two_level(pilots: Pilots):
    import torch
    from gpytorch.constraints import GreaterThan
    from gpytorch.distributions import MultivariateNormal
    from gpytorch.kernels import ConstantKernel, Kernel, LinearKernel, RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.means import ConstantMean
    from gpytorch.models import ExactGP
    from gpytorch.priors import LogNormalPrior

    dimension = pilots.x.shape[1]
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
            inputs = torch.from_numpy(np.column_stack([pilots.x, pilots.users.astype(np.float64)]))
            super().__init__(inputs, torch.from_numpy(pilots.y), likelihood)
            self.mean = ConstantMean()
            self.shared = smooth() + LinearKernel(active_dims=features)
            own = smooth() + LinearKernel(active_dims=features) + ConstantKernel()
            self.own = own * SameUser(active_dims=(dimension,))
            likelihood.noise = 0.1
            self.double()

        def forward(self, x):
            return MultivariateNormal(self.mean(x), self.shared(x) + self.own(x))

    return TwoLevel()
