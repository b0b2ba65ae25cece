"""Everything that conditions on data, against dense matrices: one test over all users of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.bandits import ComposedProcess, DecomposedPosterior, Weighted
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import leave_one_out
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import Posterior
from kem_pymc.gp.predict import Conditioned
from kem_pymc.gp.process import GaussianProcess
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.result import predict
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.model_gp import ModelGP
from tests.search.evocov.trees import SE

VALUES = {
    **{"SE0.amplitude": 1.3, "SE0.lengthscale": 0.4, "LIN1.amplitude": 0.7, "LIN1.shift": 0.2},
    **{"CONST.amplitude": 0.5},
}
NOISE = 0.05
RNG = np.random.default_rng(0)
X, Z = RNG.uniform(size=(20, 2)), RNG.uniform(size=(7, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]


def se(x, z, amplitude=1.3, lengthscale=0.4):
    return amplitude * np.exp(-0.5 * ((x[:, None, 0] - z[None, :, 0]) / lengthscale) ** 2)


def lines(x, z):
    return 0.5 + 0.7 * np.outer(x[:, 1] - 0.2, z[:, 1] - 0.2)


def both(x, z):
    return se(x, z) + lines(x, z)


def case(kernel, found, mean=0.0, noise=NOISE, level=False):
    """What a user of the posterior found, beside the kernel, mean and noise that it stands for."""
    return SimpleNamespace(kernel=kernel, found=found, mean=mean, noise=noise, level=level)


def process(text, mean=0.0):
    return GaussianProcess.of(text, VALUES, NOISE, mean=mean, dimension=2)


def of_posterior(posterior):
    mean, variance = posterior.predict(Z)
    return {
        "mean": mean,
        "variance": variance,
        "covariance": posterior.covariance(Z, X[:3]),
        "log_likelihood": posterior.conditional.log_density,
        "left_out": posterior.conditional.left_out(),
    }


def all_at_once():
    return case(both, of_posterior(Posterior.of(process("SE0 + LIN1 + CONST", 3.0), X, Y)), 3.0)


def one_at_a_time():
    """Moments at points that are watched, too."""
    posterior = Posterior.unobserved(process("SE0 + LIN1 + CONST", 3.0), Z)
    for x, y in zip(X, Y, strict=True):
        posterior = posterior.observe(x, y)
    mean, variance = posterior.at_points
    found = of_posterior(posterior)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
    return case(both, found | {"variance": variance}, 3.0)


def conditioned_again():
    """A posterior is a process, which can be conditioned on more data."""
    first = Posterior.of(process("SE0 + LIN1 + CONST", 3.0), X[:9], Y[:9])
    second = Posterior.of(first, X[9:], Y[9:])
    found = of_posterior(second)
    del found["left_out"]
    density = first.conditional.log_density + second.conditional.log_density
    return case(both, found | {"log_likelihood": density}, 3.0)


def composition():
    coordinates = Coordinates(
        CandidatePool(["SE0", "LIN1", "CONST"], 2), Composition.parse("SE0 + LIN1 + CONST", 2)
    )
    values = coordinates.from_named(VALUES, NOISE)
    objective = Objective(coordinates, X, Y)
    fitted = Conditioned.of(objective, values)
    predicted = fitted.predict(Z)
    found = {
        "mean": predicted.mean,
        "variance": predicted.sd**2,
        "log_likelihood": fitted.conditional.log_density,
        "left_out": fitted.conditional.left_out(),
    }
    return case(both, found | {"left_out_density": leave_one_out(objective, values).value})


def weighted_sum():
    objective = Weighted([lambda x: 1 + x[:, 0], -0.5])
    composed = ComposedProcess([process("SE0", 1.0), process("LIN1 + CONST")], objective)

    def kernel(x, z):
        return np.outer(1 + x[:, 0], 1 + z[:, 0]) * se(x, z) + 0.25 * lines(x, z)

    def noise(x):
        return NOISE * ((1 + x[:, 0]) ** 2 + 0.25)

    found = of_posterior(Posterior.of(composed, X, Y))
    return case(kernel, found, lambda x: 1 + x[:, 0], noise)


def component():
    """Of two components, each with observations of its own, the first alone."""
    own = DecomposedPosterior([process("SE0"), process("LIN1")], Weighted([1.0, 0.0]), Z)
    for x, y in zip(X, Y, strict=True):
        own.observe(x, [y, 7.0])
    mean, variance = own.at_points
    np.testing.assert_allclose(own.predict(Z), [mean, variance], rtol=1e-10)
    (first,), _ = own.posteriors
    return case(se, {"mean": mean, "variance": variance, "covariance": first.covariance(Z, X[:3])})


def evolved():
    """The kernel's amplitude and lengthscale are h0^2 and h1, of all inputs."""
    individual = Individual(Tree.parse(SE), np.array([1.2, 0.6, NOISE]), 0.0, 0.0, {})
    predicted = predict(individual, X, Y, Z)

    def kernel(x, z):
        squares = ((x[:, None] - z[None]) ** 2).sum(axis=2)
        return 1.44 * np.exp(-0.5 * squares / 0.36)

    return case(kernel, {"mean": predicted.mean, "variance": predicted.sd**2})


def scores_of_models():
    """With a mean that is estimated by generalised least squares."""
    gp = ModelGP(every=100)
    for i in range(len(X)):
        gp.add((X[i] - X[:i]) ** 2, Y[i])
    sd, lengthscale, structural, length, noise = np.exp(gp._logs)

    def kernel(x, z):
        apart = (x[:, None] - z[None]) ** 2
        first = sd**2 * np.exp(-0.5 * apart[..., 0] / lengthscale**2)
        return first + structural**2 * np.exp(-0.5 * apart[..., 1] / length**2)

    mean, deviation = gp.predict((Z[:, None] - X[None]) ** 2)
    spread, middle = Y.std(), Y.mean()
    found = {"mean": middle + spread * mean, "variance": spread**2 * deviation**2}
    noise = spread**2 * (noise**2 + 1e-6 * (sd**2 + structural**2))
    return case(lambda x, z: spread**2 * kernel(x, z), found, noise=noise, level=True)


USERS = [
    *(all_at_once, one_at_a_time, conditioned_again, composition),
    *(weighted_sum, component, evolved, scores_of_models),
]


@pytest.mark.parametrize("user", USERS)
def test_every_user_of_the_posterior_equals_dense_matrices(user):
    """Rasmussen and Williams 2006, eqs. 2.25, 2.26 and 2.30; 2.41 and 2.42 for a level."""
    own = user()

    def at(points, what):
        return what(points) if callable(what) else np.full(len(points), what)

    noisy = own.kernel(X, X) + np.diag(at(X, own.noise))
    inverse, cross = np.linalg.inv(noisy), own.kernel(X, Z)
    error = Y - at(X, own.mean)
    precision = inverse.sum()
    level = (inverse @ error).sum() / precision if own.level else 0.0
    error = error - level
    missing = (1 - inverse.sum(axis=0) @ cross) ** 2 / precision if own.level else 0.0
    gain = cross.T @ inverse
    precisions = np.diag(inverse)
    errors = inverse @ error / precisions
    dense = {
        "mean": at(Z, own.mean) + level + gain @ error,
        "variance": np.diag(own.kernel(Z, Z) - gain @ cross) + missing,
        "covariance": own.kernel(Z, X[:3]) - gain @ own.kernel(X, X[:3]),
        "log_likelihood": multivariate_normal(at(X, own.mean), noisy).logpdf(Y),
        "left_out": (errors, 1 / precisions),
        "left_out_density": multivariate_normal(cov=np.diag(1 / precisions)).logpdf(errors),
    }
    for name, value in own.found.items():
        np.testing.assert_allclose(value, dense[name], rtol=1e-10, atol=1e-10, err_msg=name)


def test_exact_observations_may_be_repeated_but_not_contradicted():
    exact = GaussianProcess.of("SE0", VALUES, 0.0)
    posterior = Posterior.unobserved(exact, np.array([[0.1], [0.3]])).observe(np.array([0.1]), 1.0)
    assert posterior.observe(np.array([0.1]), 1.0) is posterior
    assert 0 <= posterior.at_points[1][0] < 1e-12
    x = np.linspace(0, 1, 80)[:, None]  # so close that variances are rounding errors
    assert Posterior.of(GaussianProcess.of("SE0", VALUES, 1e-14), x, x[:, 0]).variance(x).min() >= 0
    with pytest.raises(InputError, match="contradicts earlier ones"):
        posterior.observe(np.array([0.1]), 1.1)
    with pytest.raises(InputError, match="isn't positive definite"):
        Posterior.of(exact, np.full((2, 1), 0.1), np.array([1.0, 1.1]))
    with pytest.raises(InputError, match="no fixed points"):
        Posterior.unobserved(exact).at_points  # noqa: B018
