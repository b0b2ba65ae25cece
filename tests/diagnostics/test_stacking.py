import numpy as np
import pytest

from kem_pymc.diagnostics.stacking import log_score, stack, stacking_weights
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.from_posterior import spread_draws


@pytest.mark.parametrize("favoured", [(6, 4), (9, 1), (5, 5)])
@pytest.mark.parametrize("c", [1e-6, 0.1])
def test_two_chains_have_a_closed_form(favoured, c):
    """n1 points of density 1 under the first and c under the second, n2 the other way round.

    The derivative of n1 log(w + (1 - w) c) + n2 log(w c + 1 - w) is zero at the weight below.
    """
    n1, n2 = favoured
    density = np.array([[1.0, c]] * n1 + [[c, 1.0]] * n2)
    best = (n1 - n2 * c) / ((1 - c) * (n1 + n2))
    found = stacking_weights(np.log(density) - 700, prior=1.0)  # densities that underflow
    assert found == pytest.approx([best, 1 - best], abs=1e-6)


def test_a_chain_that_is_better_everywhere_gets_all():
    density = np.random.default_rng(0).normal(size=(30, 3))
    density[:, 1] = density.max(axis=1) + 1
    assert stacking_weights(density, prior=1.0) == pytest.approx([0, 1, 0], abs=1e-6)
    assert (stacking_weights(density) > 0).all()


def test_no_other_weights_score_more():
    density = np.random.default_rng(1).normal(scale=3, size=(12, 4))
    best = log_score(density, stacking_weights(density, prior=1.0))
    others = np.random.default_rng(2).dirichlet(np.ones(4), size=500)
    assert best >= max(log_score(density, w) for w in others) - 1e-6


def test_impossible_observations_prefer_no_chain():
    density = np.array([[0.0, -1.0], [-np.inf, -np.inf], [-1.0, 0.0], [0.0, -np.inf]])
    found = stacking_weights(density, prior=1.0)
    np.testing.assert_allclose(found, stacking_weights(density[[0, 2, 3]], prior=1.0))


@pytest.mark.integration
def test_stacking_a_posterior_prefers_what_predicts(sampled):
    model, idata = sampled
    spoilt = idata.copy()
    worse = idata["posterior"].to_dataset().copy(deep=True)
    worse["noise"][1] *= 1e4  # a chain that predicts everything and nothing
    spoilt["posterior"] = worse
    weights = stack(spoilt, model)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] > 0.9
    assert weights.attrs["log_score"] > weights.attrs["equal"]
    assert 0 <= weights.attrs["seen"] <= 1


def test_evolutions_follow_weights(sampled):
    _, idata = sampled
    one = Evolutions.from_posterior(idata, weights=[0, 1], max_draws=20)
    alone = Evolutions.from_posterior(idata.isel(chain=[1]), max_draws=20)
    assert one == alone
    equal = Evolutions.from_posterior(idata, weights=[1, 1])
    assert equal == Evolutions.from_posterior(idata)


def test_shares_are_rounded_by_largest_remainders():
    assert spread_draws(2, 10, 5, [0.5, 0.5]).tolist() == [1, 5, 8, 12, 17]
    assert np.bincount(spread_draws(3, 10, 10, [0.62, 0.26, 0.12]) // 10).tolist() == [6, 3, 1]
    assert spread_draws(2, 2, 4, [1, 0]).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [-1.0, 2.0], [np.nan, 1.0]])
def test_what_are_no_weights_is_refused(sampled, weights):
    with pytest.raises(InputError, match="weights"):
        Evolutions.from_posterior(sampled[1], weights=weights)
