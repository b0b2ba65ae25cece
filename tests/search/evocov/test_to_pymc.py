"""Evolved kernels in other PyMC models: the same likelihood and predictions, and gradients."""

import numpy as np
import pymc as pm
import pytest
from pytensor import config

from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.objective import TreeObjective
from kem_pymc.search.evocov.result import predict
from kem_pymc.search.evocov.tree import Tree
from tests.refusals import refused

WAVES = Tree.parse(
    "add(multiply(hp(h0), exp(multiply(-0.5, sq_dist(spectral(x, h1), h2)))), "
    "dot_prod(euc(x), h3, h4))"
)
NATURAL = np.array([1.3, 6.0, 0.8, -0.4, 2.0, 0.05])


@pytest.mark.parametrize("tree", [WAVES, Tree.parse("hp(h0)")])
def test_likelihood_and_predictions_are_the_same(tree):
    """Fails where a hyperparameter is at another place, or the variances aren't the diagonal."""
    rng = np.random.default_rng(3)
    x, y, new = rng.uniform(size=(14, 2)), rng.normal(size=14), rng.uniform(size=(3, 2))
    names = tree.hyperparameters
    natural = np.append(NATURAL[: len(names)], NATURAL[-1])
    with config.change_flags(mode="FAST_COMPILE"), pm.Model() as model:
        values = {name: pm.Flat(name) for name in names}
        process = pm.gp.Marginal(cov_func=tree.to_pymc(values, 2))
        process.marginal_likelihood("y", x, y, sigma=np.sqrt(natural[-1]), jitter=0.0)
        at = dict(zip(names, natural, strict=False))
        logp, slope = model.compile_logp(sum=True)(at), model.compile_dlogp()(at)
        mean, variance = process.predict(new, point=at, diag=True, pred_noise=True, jitter=0.0)
    positive = np.array([*tree.positive, True])
    coordinates = coordinates_of(natural, positive)
    height, gradient, _ = TreeObjective(tree, x, y).evaluate(coordinates)
    assert logp == pytest.approx(height, rel=1e-10)
    per_coordinate = np.where(positive[:-1], natural[:-1], 1.0)
    np.testing.assert_allclose(slope * per_coordinate, gradient[:-1], rtol=1e-8)
    ours = predict(Individual(tree, natural, height, 0.0, {}), x, y, new, include_noise=True)
    np.testing.assert_allclose(mean, ours.mean, rtol=1e-8)
    np.testing.assert_allclose(variance, ours.sd**2, rtol=1e-8)


def test_every_hyperparameter_has_a_value():
    refused(lambda: WAVES.to_pymc({"h0": 1.0}, 1), "h1 has no value", "h0, h1, h2, h3, h4")
