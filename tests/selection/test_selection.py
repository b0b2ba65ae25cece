"""What a selection offers: predictions in the user's units, tables, text."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kem_pymc.bandits import ComposedProcess, Weighted
from kem_pymc.data.transforms import Transform
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Posterior
from kem_pymc.selection.ard import ARDSelector
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scored_kernel import Draw
from tests.selection.pilots import user
from tests.shown import printed, read
from tests.statistical.geweke import SharedFunction


@pytest.fixture
def drawn(undecided):
    """The same with two draws of the second kernel's values."""
    first, second = undecided.considered
    draws = (
        Draw({**second.hyperparameters, "LIN0.amplitude": 0.2}, 0.3, 0.25),
        Draw(second.hyperparameters, 0.1, 0.75),
    )
    return replace(undecided, considered=(first, replace(second, draws=draws)))


def alone(selection, composition, draw):
    """Return the selection of one kernel with given values."""
    row = next(c for c in selection.considered if c.composition == composition)
    row = replace(row, hyperparameters=draw.hyperparameters, noise=draw.noise, weight=1.0, draws=())
    return replace(selection, considered=(row,))


@pytest.fixture
def undecided(selection):
    """A selection with weight on two kernels."""
    weights = [replace(c, weight=w) for c, w in zip(selection.considered, (0.6, 0.4), strict=True)]
    return replace(selection, considered=tuple(weights))


def test_predictions_average_over_what_was_considered(undecided):
    x, y = np.linspace(0, 140, 11), np.linspace(80, 400, 11)
    first, second = (replace(undecided, considered=(c,)).predict(x) for c in undecided.considered)
    mixed, single = undecided.predict(x), undecided.predict(x, single=True)
    np.testing.assert_allclose(mixed.mean, 0.6 * first.mean + 0.4 * second.mean)
    np.testing.assert_array_equal(single.mean, first.mean)
    densities = [np.exp(p.log_predictive_density(y)) for p in (first, second)]
    expected = np.log(0.6 * densities[0] + 0.4 * densities[1])
    np.testing.assert_allclose(undecided.log_predictive_density(x, y), expected)
    share = mixed.components["PER0"].mean
    np.testing.assert_allclose(share, 0.6 * first.components["PER0"].mean, atol=1e-12)
    total = mixed.offset + sum(c.mean for c in mixed.components.values())
    np.testing.assert_allclose(total, mixed.mean)
    assert (mixed.offset, set(mixed.components)) == (100, {"LIN0", "PER0"})


def test_draws_of_values_are_averaged_over(drawn):
    x, y = np.linspace(0, 140, 11), np.linspace(80, 400, 11)
    first, second = drawn.considered
    parts = [(first.fitted, 0.6), *((draw, 0.4 * draw.weight) for draw in second.draws)]
    kernels = [first.composition, second.composition, second.composition]
    alones = [alone(drawn, c, draw) for c, (draw, _) in zip(kernels, parts, strict=True)]
    weights = [weight for _, weight in parts]
    densities = [np.exp(a.log_predictive_density(x, y)) for a in alones]
    expected = np.log(np.tensordot(weights, densities, 1))
    np.testing.assert_allclose(drawn.log_predictive_density(x, y), expected)
    np.testing.assert_array_equal(drawn.predict(x, single=True).mean, alones[0].predict(x).mean)
    named = json.loads(drawn.to_row()["averaged"])
    assert [part["weight"] for part in named] == pytest.approx(weights)
    assert named[1]["hyperparameters"]["LIN0.amplitude"] == 0.2


def test_what_users_share_is_a_component(selection):
    sharing = replace(selection, shared=SharedFunction())
    x = np.linspace(0, 140, 11)
    prediction = sharing.predict(x)
    assert "shared" in prediction.components
    total = prediction.offset + sum(c.mean for c in prediction.components.values())
    np.testing.assert_allclose(total, prediction.mean)
    assert np.abs(prediction.mean - selection.predict(x).mean).max() > 1


def test_predictions_come_near_new_data(selection):
    x, y = user(300, seed=9)
    prediction = selection.predict(7 * x, include_noise=True)
    z = (100 + 50 * y - prediction.mean) / prediction.sd
    assert np.abs(z).mean() < 1.2
    assert 0.85 < np.mean(np.abs(z) < 1.96) <= 1


def test_factors_are_not_sent(selection):
    selection.predict([1.0])
    back = pickle.loads(pickle.dumps(selection))
    assert not back._conditioned
    np.testing.assert_array_equal(back.predict([1.0]).mean, selection.predict([1.0]).mean)


@pytest.mark.parametrize("x_new", [[[1.0, 2.0]], [np.nan], ["a"], 3.0, [[[1.0]]]])
def test_unusable_new_inputs_are_refused(selection, x_new):
    with pytest.raises(InputError, match=r"The inputs .*\. (Give|Fill)"):
        selection.predict(x_new)


def test_row_goes_into_a_table(selection, tmp_path):
    row = selection.to_row()
    pd.DataFrame([row, row]).to_parquet(tmp_path / "selections.parquet")
    read = pd.read_parquet(tmp_path / "selections.parquet").iloc[0]
    assert read["composition"] == "LIN0 + PER0"
    assert read["n_points"] == 25
    assert json.loads(read["hyperparameters"]) == selection.hyperparameters
    considered = json.loads(read["considered"])
    assert {name: c["bic"] for name, c in considered.items()} == {
        str(c.composition): c.bic for c in selection.considered
    }


def test_it_shows_itself(selection):
    assert repr(selection) == "Selection(LIN0 + PER0, from 25 points; also considered LIN0)"
    frame = selection.to_frame()
    assert list(frame["composition"]) == ["LIN0 + PER0", "LIN0"]
    text, (considered, values) = read(replace(selection, message="<b>Look.</b>"))
    assert "LIN0 + PER0 from 25 points" in text
    assert f"{selection.noise_in_target_units**0.5:.4g} (target's unit)" in text
    assert "<b>Look.</b>" in text
    assert considered["status"].tolist() == list(frame["status"])
    np.testing.assert_allclose(considered["BIC"].astype(float), frame["bic"], atol=0.05)
    np.testing.assert_allclose(considered["weight"].astype(float), frame["weight"], atol=0.005)
    named = dict(values.itertuples(index=False))
    assert set(named) == {*selection.hyperparameters, "noise variance"}
    for name, value in selection.hyperparameters.items():
        assert float(named[name]) == pytest.approx(value, rel=1e-3)
    assert "current" in printed(selection)


def test_a_lone_fixed_kernel_shows_itself():
    assert "nothing else" in repr(ARDSelector(1).select(*user(6)))


@pytest.fixture(scope="module")
def pair(learned):
    """The same selection, of log y as it is and of y through the transform."""
    through = replace(learned, scaling=replace(learned.scaling, transform=Transform("log")))
    x, y = user(12)
    plain = KEMSelector(learned).select(x, y / 10)
    return plain, KEMSelector(through).select(x, np.exp(y / 10))


class TestTransformedTargets:
    """A target that is modelled through its logarithm."""

    def test_the_same_is_selected(self, pair):
        plain, through = pair
        assert through.composition == plain.composition
        assert through.noise == pytest.approx(plain.noise, rel=1e-9)

    def test_quantiles_and_densities_are_those_of_the_logarithm(self, pair):
        x = np.array([3.0, 25.0])
        plain, through = (own.predict(x, include_noise=True) for own in pair)
        for share in (0.025, 0.5, 0.9):
            expected = np.exp(plain.observation.quantile(share))
            np.testing.assert_allclose(through.observation.quantile(share), expected, rtol=1e-8)
        y = np.array([1.2, 0.7])
        expected = plain.log_predictive_density(np.log(y)) - np.log(y)
        np.testing.assert_allclose(through.log_predictive_density(y), expected, atol=1e-8)

    def test_a_target_without_a_logarithm_is_refused(self, pair):
        with pytest.raises(InputError, match="above 0"):
            pair[1].log_predictive_density([21.0], [0.0])


def test_components_are_processes_that_add_up(selection):
    """Given the targets, their sum predicts what the selection does, in the user's units."""
    kept = replace(selection, considered=(replace(selection.considered[0], weight=1.0),))
    components = kept.components
    assert list(components) == [own.label(1) for own in kept.composition.candidates]
    assert len(components) > 1
    composed = ComposedProcess(list(components.values()), Weighted(len(components)))
    posterior = Posterior.unobserved(composed)
    x, y = user(25)
    for own, value in zip(7 * x, 50 * y, strict=True):
        posterior = posterior.observe(own, value)
    new = np.linspace(0, 150, 9)[:, None]
    predicted = kept.predict(new, single=True)
    mean, variance = posterior.predict(new)
    np.testing.assert_allclose(mean + 100, predicted.mean, rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(variance), predicted.sd, rtol=1e-6)


def test_components_of_a_transformed_target_do_not_add_up(selection):
    scaling = replace(selection.scaling, transform=Transform("log", 0.0))
    with pytest.raises(InputError, match="transformed"):
        replace(selection, scaling=scaling).components  # noqa: B018
