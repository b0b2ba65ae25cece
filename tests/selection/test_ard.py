"""The ARD baseline fits its fixed kernel as well as it can be fitted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from kem_pymc import priors
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import fit
from kem_pymc.gp.objective import Objective
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.selection.ard import ARDSelector, _starts
from tests.selection.pilots import evidence_at, user


def test_one_dimension_means_se0():
    selection = ARDSelector(1).select(*user(10))
    assert selection.label() == "SE0"
    assert [c.status for c in selection.considered] == ["fixed"]


def test_more_dimensions_have_a_lengthscale_each():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (30, 3))
    y = np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=30)
    selection = ARDSelector(3).select(x, y)
    assert selection.label() == "ARD"
    scales = [selection.hyperparameters[f"SE0 x SE1 x SE2.SE{d}.lengthscale"] for d in range(3)]
    assert scales[0] < scales[1] / 3
    assert scales[0] < scales[2] / 3


@pytest.mark.parametrize("n", [5, 15, 30])
def test_no_random_restart_finds_a_better_fit(n):
    x, y = user(n, seed=n)
    selector = ARDSelector(1)
    selection = selector.select(x, y)
    where = Coordinates(selector.pool, selection.composition)
    starts = np.random.default_rng(0).normal([1, 1, 0], 1.5, (60, 3))
    assert (
        selection.considered[0].log_likelihood >= fit(Objective(where, x, y), starts).height - 1e-3
    )


def test_map_adds_the_priors_without_a_parent():
    x, y = user(8)
    selection = ARDSelector(1, "map", priors=priors.synthetic()).select(x, y)
    logs = [math.log(v) for v in selection.hyperparameters.values()]
    normals = [norm(0, 2)] * 3
    values = np.array([*logs, math.log(selection.noise)])
    where = Coordinates(selection.pool, selection.composition)
    expected = evidence_at(where, x, y, values, normals)
    assert selection.considered[0].score == pytest.approx(expected, abs=1e-3)


def test_the_floor_is_that_of_the_priors():
    """Catches a floor of its own: methods would be compared under different caps."""
    x, y = user(12, noise=0.0)
    low = priors.synthetic().replace(noise_floor=1e-5)
    assert ARDSelector(1).select(x, y).noise >= 0.0099
    assert 0.99e-5 <= ARDSelector(1, priors=low).select(x, y).noise < 0.01


def test_awkward_data_are_fine():
    for x, y in [(np.ones(1), np.ones(1)), (np.ones(4), np.zeros(4)), (np.arange(4.0), np.ones(4))]:
        selection = ARDSelector(1).select(x, y)
        assert np.isfinite(selection.considered[0].score)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimension": 0}, r"dimension is 0\. Give"),
        ({"dimension": 1, "fit": "bic"}, r"no fit 'bic'\. Use one of pilot, map"),
        ({"dimension": 1, "fit": "map"}, r"fit='map' needs priors\. Add"),
        ({"dimension": 1, "fit": "pilot"}, "needs pilot users and priors"),
    ],
)
def test_unknown_options_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        ARDSelector(**arguments)


@pytest.mark.integration
def test_pilot_users_say_what_to_expect():
    """Three points say nothing of a lengthscale, but pilot users do."""
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(0, 20, (40, 1)) for _ in range(6)]
    targets = [3 * np.sin(x[:, 0] / 2) + 0.3 * rng.normal(size=40) for x in inputs]
    pilot = Cohort(range(6), inputs, targets, [np.array([40])] * 6, ["x"])
    table = priors.synthetic()
    selector = ARDSelector(1, "pilot", priors=table, pilot=pilot)
    alone = ARDSelector(1, "map", priors=table)
    single = [alone.select(x, y) for x, y in zip(inputs, targets, strict=True)]
    logs = np.log([[*s.hyperparameters.values(), s.noise] for s in single])
    mean, sd = logs.mean(axis=0), np.maximum(logs.std(axis=0), 0.1)
    x = np.array([1.0, 7.0, 13.0])
    selection = selector.select(x, np.sin(x / 2))
    found = np.log([*selection.hyperparameters.values(), selection.noise])
    assert (np.abs(found - mean) < 3 * sd).all()
    normals = [norm(*moments) for moments in zip(mean, sd, strict=True)]
    where = Coordinates(selector.pool, selection.composition)
    expected = evidence_at(where, x[:, None], np.sin(x / 2), found, normals)
    assert selection.considered[0].score == pytest.approx(expected, abs=1e-3)
    # The evidence is a mean of likelihoods.
    assert selection.considered[0].score < selection.considered[0].log_likelihood


def test_categories_have_no_lengthscale():
    """Fails where starts have one for every column of the table."""
    rng = np.random.default_rng(2)
    inputs = [np.column_stack([np.arange(6.0), np.full(6, u % 2)]) for u in range(4)]
    targets = [np.sin(x[:, 0]) + 0.1 * rng.normal(size=6) for x in inputs]
    ends, levels = [np.array([6])] * 4, {"arm": ("a", "b")}
    pilot = Cohort(range(4), inputs, targets, ends, ["week", "arm"], levels=levels)
    options = {"priors": priors.synthetic(), "scaling": Scaling.unit(pilot), "pilot": pilot}
    selection = ARDSelector(2, "pilot", **options).select(inputs[0], targets[0])
    assert {*selection.hyperparameters} == {"SE0.amplitude", "SE0.lengthscale"}


def test_pilot_users_are_fitted_beside_what_the_others_share():
    """Catches values of pilot users that explain once more what all users share."""
    rng = np.random.default_rng(4)
    table, names = priors.synthetic(), tuple(range(4))
    inputs = [rng.uniform(size=(n, 2)) for n in (7, 4, 9, 6)]
    targets = [np.sin(5 * x[:, 0]) + rng.normal() + 0.2 * rng.normal(size=len(x)) for x in inputs]
    ends = [np.array([len(y)]) for y in targets]
    pilot = Cohort(names, inputs, targets, ends, ["age", "dose"])
    part = learn_shared(pilot, "linear")
    selector = ARDSelector(2, "pilot", priors=table, pilot=pilot, shared=part)
    for i, x, y in zip(names, inputs, targets, strict=True):
        others = replace(part, process=part.function(i))
        single = ARDSelector(2, "map", priors=table, shared=others).select(x, y)
        found = np.log([*single.hyperparameters.values(), single.noise])
        assert np.abs(selector._summary.starts - found).max(axis=1).min() < 1e-3


def test_searches_start_at_the_scale_of_the_data():
    """Catches starts whose variances don't add up to that of the targets, however large."""
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0, 4, (9, 2)), 300.0 * rng.normal(size=9)
    x[:, 1] = 7.0  # a feature without a range
    starts = np.array(_starts(x, y, 1e-4))
    np.testing.assert_allclose(np.exp(starts[:, 0]) + np.exp(starts[:, -1]), np.mean(y**2))
    lengths = np.exp(starts[:, 1:-1]) / [np.ptp(x[:, 0]), 1.0]
    np.testing.assert_allclose(lengths[:, 0], lengths[:, 1])
    pairs = set(zip(lengths[:, 0].round(9), (starts[:, -1] - starts[:, 0]).round(9), strict=True))
    assert len(pairs) == len(starts) > 1
    assert np.exp(_starts(x, np.zeros(9), 0.25)[0][0]) < 0.25
