"""Predictions of evolved kernels beside PyMC's."""

import numpy as np
import pymc as pm
import pytest

from kem_pymc.errors import InputError
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.selection import predict
from kem_pymc.search.evocov.tree import Tree
from tests.search.evocov.trees import SE


def fitted(text, *natural):
    return Individual(Tree.parse(text), np.array(natural), 0.0, 0.0, {})


@pytest.mark.parametrize("include_noise", [False, True])
def test_is_that_of_pymc(include_noise):
    rng = np.random.default_rng(0)
    x, x_new = rng.uniform(size=(20, 2)), rng.uniform(size=(7, 2))
    y = np.sin(5 * x[:, 0]) + x[:, 1]
    found = predict(fitted(SE, 1.3, 0.4, 0.05), x, y, x_new, include_noise)
    with pm.Model():
        gp = pm.gp.Marginal(cov_func=1.3**2 * pm.gp.cov.ExpQuad(2, ls=0.4))
        gp.marginal_likelihood("y", x, y, sigma=0.05**0.5, jitter=0.0)
        mean, variance = gp.predict(
            x_new, point={}, diag=True, pred_noise=include_noise, jitter=0.0
        )
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(found.sd**2, variance, rtol=1e-7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exp(exp(exp(dot_prod(euc(x), h1, h0))))", "overflow"),
        ("multiply(sq_dist(euc(x), h0), hp(h1))", "isn't positive definite"),
    ],
)
def test_refuses_kernels_that_fail_on_the_data(text, message):
    """Far from the data a kernel may overflow that could be fitted."""
    x = np.linspace(0, 1, 10)[:, None]
    with pytest.raises(InputError, match=message):
        predict(fitted(text, 1.0, 1.0, 0.1), x, x[:, 0], np.array([[50.0]]))
