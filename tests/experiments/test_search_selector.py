import numpy as np
import pytest

from experiments.kem.search_selector import SearchSelector
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.composition import Composition
from tests.refusals import refused
from tests.search.conftest import series

X, Y = series(24)
SCALING = Scaling(np.array([1990.0]), np.array([1993.0]), 115.0, 10.0)


def selector(**options):
    return SearchSelector(1, scaling=SCALING, **({"budget": 4} | options))


def test_predictions_are_in_the_users_units():
    selected = selector(budget=6).select(X, Y)
    predicted = selected.predict(X)
    assert np.sqrt(np.mean((predicted.mean - Y) ** 2)) < 2


@pytest.mark.parametrize("method", ["cks", "boms"])
def test_the_last_kernel_is_evaluated_first(method):
    chosen = selector(budget=1, method=method)
    for previous in ("LIN0 x PER0", Composition.parse("LIN0 x PER0")):
        assert str(chosen.select(X, Y, previous).composition) == "CONST + LIN0 x PER0"
    first = selector(method=method).select(X[:12], Y[:12])
    second = selector(method=method, budget=1).select(X, Y, first)
    assert second.composition == first.composition


def test_a_first_time_step_may_have_one_point():
    selected = selector(budget=2).select(X[:1], Y[:1])
    predicted = selected.predict(X[:3], include_noise=True)
    assert np.isfinite(predicted.mean).all()
    assert predicted.sd[2] > predicted.sd[0]


def test_features_may_be_left_out():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(15, 3))
    chosen = SearchSelector(3, dimensions=[0, 2], budget=5)
    assert 1 not in chosen.select(x, np.sin(5 * x[:, 1])).composition.dimensions


def test_refusals():
    refused(lambda: selector(method="gpss"), "'gpss'")
    refused(lambda: selector(budget=0), "budget is 0")
    refused(lambda: SearchSelector(2, dimensions=[2]), "dimensions (2,)", "0 to 1")
    refused(lambda: SearchSelector(2, dimensions=[]), "dimensions ()")
    refused(lambda: selector().select(X, Y, 3), "previous is a int")
    refused(lambda: selector().select(X, Y, "CAT0"), "CAT0")
    refused(lambda: selector().select([], []), "at least one point")
