"""Online selection along hand-made evolutions: compositions considered, scores, messages."""

import math
import pickle

import numpy as np
import pytest
from scipy.stats import norm

from kem_pymc import plots, priors
from kem_pymc.errors import InputError, SelectionWarning
from kem_pymc.gp.calibration import NORMAL, Calibration
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.selection.kem import KEMSelector
from tests.gp.problems import composition_covariance
from tests.refusals import refused
from tests.selection.pilots import POOL, evidence_at, names, pilot_cluster, row, user, with_clusters


def test_first_step_considers_the_children_of_white_alone(learned):
    selection = KEMSelector(learned).select(*user(5))
    assert names(selection) == {"LIN0", "SE0"}
    assert {c.status for c in selection.considered} == {"child"}
    assert row(selection, "LIN0").probability == pytest.approx(6 / 10)
    assert selection.message == ""


def test_targets_with_huge_noise_might_as_well_be_missing(learned, in_other_units):
    """Fails where a selector or a prediction doesn't know the noise, or has it in another unit."""
    selector, (x, y) = KEMSelector(in_other_units(learned)), user(12)
    x, y = 7 * x, 100 + 50 * y
    at = np.linspace(0, 140, 5)
    noise = np.where(np.arange(12) < 9, 0.0, 1e6)
    far = y + np.where(noise > 0, 1000.0, 0.0)
    few = selector.select(x[:9], y[:9])
    found = selector.select(x, far, noise=noise)
    assert names(found) == names(few)
    for one, other in zip(found.considered, few.considered, strict=True):
        assert one.weight == pytest.approx(other.weight, abs=1e-4)
    predicted, expected = found.predict(at, True), few.predict(at, True)
    np.testing.assert_allclose(predicted.mean, expected.mean, rtol=1e-3)
    np.testing.assert_allclose(predicted.sd, expected.sd, rtol=1e-3)
    exact = selector.select(x, y, noise=np.zeros(12))
    assert exact.to_frame().equals(selector.select(x, y).to_frame())
    refused(lambda: selector.select(x, y, noise=[1.0]), "one standard deviation")


def test_before_any_data_a_new_user_is_predicted(learned, in_other_units):
    """Weights are the probabilities of first kernels, and quantiles those of draws from the priors.

    Catches evidence of no data that isn't one, and values that aren't those of pilot users: a
    spread that is a tenth too small moves the quantiles by more than the tolerance.
    """
    selection = KEMSelector(in_other_units(learned)).select(np.empty((0, 1)), [])
    weights = [row.weight for row in selection.considered]
    probabilities = np.array([row.probability for row in selection.considered])
    np.testing.assert_allclose(weights, probabilities / probabilities.sum(), rtol=1e-10)
    at = np.array([[7.0], [70.0]])
    prediction = selection.predict(at, include_noise=True)
    np.testing.assert_allclose(prediction.mean, 100)
    assert "0 points" in repr(selection)
    refused(lambda: plots.predictions(selection), "no points to draw")
    rng, draws = np.random.default_rng(0), []
    for child, weight in zip(learned.children("WHITE"), weights, strict=True):
        where = Coordinates(POOL, child.composition)
        spread = rng.normal(child.centre, child.spread, (int(4000 * weight), len(where)))
        for named, noise in where.all_named(spread):
            covariance = composition_covariance(child.composition, named, at / 7, at / 7)
            draws.append(np.sqrt(np.diag(covariance) + noise) * rng.normal(size=2))
    for p in (0.025, 0.25, 0.9):
        drawn = 100 + 50 * np.quantile(np.array(draws), p, axis=0)
        np.testing.assert_allclose(prediction.quantile(p), drawn, rtol=0.06, atol=3)


def test_later_steps_consider_the_current_composition_as_well(learned):
    selection = KEMSelector(learned).select(*user(10), previous="LIN0")
    assert names(selection) == {"LIN0", "LIN0 + PER0"}
    assert row(selection, "LIN0").status == "current"
    assert row(selection, "LIN0 + PER0").status == "child"
    assert row(selection, "LIN0").probability == pytest.approx(1 / 4)  # alpha / (alpha + 3)
    assert row(selection, "LIN0 + PER0").probability == pytest.approx(3 / 4)


def test_a_composition_that_is_its_own_child_keeps_that_probability(learned):
    selection = KEMSelector(learned).select(*user(10), previous="SE0")
    assert names(selection) == {"SE0"}
    assert row(selection, "SE0").probability == pytest.approx(4 / 5)


def test_a_leaf_stays_and_says_so(learned):
    with pytest.warns(SelectionWarning, match=r"No pilot user had LIN0 \+ PER0 .*is kept\. Give"):
        selection = KEMSelector(learned).select(*user(10), previous="LIN0 + PER0")
    assert names(selection) == {"LIN0 + PER0"}
    assert "is kept" in selection.message
    assert row(selection, "LIN0 + PER0").probability == 1
    # Its prior is what its clusters say as a child of LIN0.
    typical = learned.typical("LIN0 + PER0")
    where = Coordinates(POOL, selection.composition)
    values = where.from_named(selection.hyperparameters, selection.noise)
    normals = [norm(c, s) for c, s in zip(typical.centre, typical.spread, strict=True)]
    expected = evidence_at(where, *user(10), values, normals)
    assert selection.considered[0].score == pytest.approx(expected, abs=1e-3)


def test_a_composition_nobody_ever_had_keeps_near_the_users_own_values(learned):
    x, y = user(10)
    with pytest.warns(SelectionWarning):
        first = KEMSelector(learned).select(x, y, previous="SE0 x LIN0")
    with pytest.warns(SelectionWarning):
        second = KEMSelector(learned).select(x, y, previous=first)
    assert str(second.composition) == "LIN0 x SE0"
    score = row(second, "LIN0 x SE0").score
    assert score > row(first, "LIN0 x SE0").score  # its normals now sit where the fit was


def test_previous_may_be_a_selection_a_composition_or_a_name(learned):
    selector = KEMSelector(learned)
    data = user(10)
    last = selector.select(*user(5))
    assert str(last.composition) == "LIN0"
    chosen = [selector.select(*data, previous=p) for p in (last, last.composition, "LIN0")]
    assert len({names(c) == {"LIN0", "LIN0 + PER0"} for c in chosen}) == 1
    assert len({c.composition for c in chosen}) == 1


def test_improbable_children_are_left_out(learned):
    rare = with_clusters(learned, pilot_cluster(0, "LIN0", "LIN0 + SE0", 1, 1.0))
    data = user(10)
    assert "LIN0 + SE0" in names(KEMSelector(rare).select(*data, previous="LIN0"))
    strict = KEMSelector(rare, minimum_probability=0.2)
    assert "LIN0 + SE0" not in names(strict.select(*data, previous="LIN0"))
    strictest = KEMSelector(rare, minimum_probability=1.0)
    assert names(strictest.select(*data, previous="LIN0")) == {"LIN0", "LIN0 + PER0"}
    assert names(KEMSelector(rare, max_candidates=1).select(*user(5))) == {"LIN0"}


def test_pilot_values_hold_where_there_is_one_point(learned):
    selection = KEMSelector(learned).select(np.array([[4.0]]), np.array([0.1]))
    for child in learned.children("WHITE"):
        chosen = row(selection, str(child.composition))
        where = Coordinates(POOL, child.composition)
        values = where.from_named(chosen.hyperparameters, chosen.noise)
        assert np.all(np.abs(values - child.centre) < 2 * child.spread)


@pytest.mark.parametrize("average", [None, 2])
def test_units_do_not_matter(learned, in_other_units, average):
    x, y = user(20)
    plain = KEMSelector(learned, average=average).select(x, y, previous="LIN0")
    other = KEMSelector(in_other_units(learned), average=average)
    scaled = other.select(7 * x, 100 + 50 * y, previous="LIN0")
    assert scaled.composition == plain.composition
    assert scaled.noise == pytest.approx(plain.noise, rel=1e-6)
    assert scaled.noise_in_target_units == pytest.approx(2500 * plain.noise, rel=1e-6)
    x_new = np.linspace(0, 25, 9)
    here, there = plain.predict(x_new), scaled.predict(7 * x_new)
    np.testing.assert_allclose(there.mean, 100 + 50 * here.mean, rtol=1e-6)
    np.testing.assert_allclose(there.sd, 50 * here.sd, rtol=1e-6)
    y_new = np.ones(9)
    np.testing.assert_allclose(
        scaled.log_predictive_density(7 * x_new, 100 + 50 * y_new),
        plain.log_predictive_density(x_new, y_new) - math.log(50),
        rtol=1e-6,
    )


def test_averaging_over_draws_sums_what_scores_are_the_logs_of(learned):
    doubtful = with_clusters(learned, pilot_cluster(1, "WHITE", "SE0", 9, 1.0, 0.2))
    x, y = user(8)
    averaged = KEMSelector(doubtful, average=2).select(x, y)
    single = [KEMSelector(doubtful.single_draw(i)).select(x, y) for i in range(2)]
    evidence = {n: sum(math.exp(row(s, n).score) for s in single) for n in ("LIN0", "SE0")}
    for name in evidence:
        share = evidence[name] / sum(evidence.values())
        own = [r for r in averaged.considered if str(r.composition) == name]
        assert sum(r.weight for r in own) == pytest.approx(share)
        assert share != pytest.approx(np.mean([row(s, name).weight for s in single]), abs=1e-3)
        best = max((row(s, name) for s in single), key=lambda r: r.score)
        assert row(averaged, name).hyperparameters == best.hyperparameters
    assert str(averaged.composition) == max(evidence, key=evidence.get)
    once = KEMSelector(doubtful, average=1).select(x, y)
    assert once.considered[0].weight == row(single[1], str(once.composition)).weight


def test_draws_without_the_parent_have_no_say(learned):
    once = with_clusters(learned, pilot_cluster(1, "LIN0 + PER0", "SE0", 5, 1.0))
    averaged = KEMSelector(once, average=2).select(*user(10), previous="LIN0 + PER0")
    assert names(averaged) == {"SE0", "LIN0 + PER0"}
    assert row(averaged, "SE0").probability == pytest.approx(5 / 6)
    with pytest.warns(SelectionWarning):
        leaf = KEMSelector(learned, average=2).select(*user(10), previous="LIN0 + PER0")
    assert names(leaf) == {"LIN0 + PER0"}


@pytest.mark.parametrize("criterion", ["posterior", "bic", "laplace", "loo"])
def test_a_clear_wave_is_found_and_its_absence_too(learned, criterion):
    selector = KEMSelector(learned, criterion=criterion)
    waves = [selector.select(*user(60, s), previous="LIN0") for s in range(4)]
    lines = [
        selector.select(*user(60, s, periodic=0.0, noise=2.0), previous="LIN0") for s in range(5)
    ]
    assert [str(s.composition) for s in waves] == 4 * ["LIN0 + PER0"]
    assert [str(s.composition) for s in lines].count("LIN0") >= 4


def test_the_floor_comes_from_the_priors(learned):
    """Catches a floor that isn't the study's, for fits, pilot values or comparisons."""
    x, y = user(12, noise=0.0)
    low = priors.synthetic().replace(noise_floor=1e-5)
    stored = with_clusters(learned, priors=low.to_dict())
    usual, lower = (KEMSelector(e, "ml").select(x, y, previous="LIN0") for e in (learned, stored))
    given = KEMSelector(learned, "ml", priors=low).select(x, y, previous="LIN0")
    assert usual.noise == pytest.approx(0.01)
    assert lower.noise == pytest.approx(1e-5)
    assert given.considered == lower.considered


def test_map_needs_priors(learned):
    with pytest.raises(InputError, match=r"no priors for fit='map'\. Add"):
        KEMSelector(learned, "map")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "bayes"}, r"no fit 'bayes'\. Use one of pilot, map, ml\."),
        ({"criterion": "dic"}, r"There is no criterion 'dic'\. Use one of posterior, bic, aic"),
        ({"minimum_probability": 1.5}, r"isn't a probability\. Give a number from 0 to 1"),
        ({"max_candidates": 0}, r"max_candidates is 0\. Give"),
        ({"runs": 0}, r"runs is 0\. Give"),
        ({"average": 0}, r"average is 0\. Give"),
    ],
)
def test_unknown_options_are_refused(learned, options, message):
    with pytest.raises(InputError, match=message):
        KEMSelector(learned, **options)


@pytest.mark.parametrize(
    ("x", "y", "previous", "message"),
    [
        ([[1.0, 2.0]], [1.0], None, r"shape \(1, 2\)"),
        ([[1.0]], [1.0, 2.0], None, r"Give one target per row"),
        ([], [1.0], None, r"Give one target per row"),
        ([[np.nan]], [1.0], None, r"missing, infinite"),
        ([[1.0]], [np.inf], None, r"missing, infinite"),
        ([["a"]], [1.0], None, r"all numbers"),
        ([[1.0]], [1.0], "RQ0", r"RQ0 is not in the candidate pool"),
        ([[1.0]], [1.0], "nonsense", r"not a base kernel"),
        ([[1.0]], [1.0], "SE3", r"dimension 3, but the number of dimensions is 1"),
        ([[1.0]], [1.0], 7, r"previous is 7\. Give a Selection"),
    ],
)
def test_unusable_input_is_refused(learned, x, y, previous, message):
    with pytest.raises(InputError, match=message):
        KEMSelector(learned).select(x, y, previous=previous)


@pytest.mark.parametrize("way", ["pilot", "map"])
def test_selectors_can_be_sent_to_other_processes(learned, way):
    learned = with_clusters(learned, priors=priors.synthetic().to_dict())
    selector = KEMSelector(learned, way)
    x, y = user(12)
    here = selector.select(x, y)  # compiles what it needs
    there = pickle.loads(pickle.dumps(selector)).select(x, y)
    assert there.considered == here.considered


def test_a_selector_shows_its_settings(learned):
    assert repr(KEMSelector(learned)) == "KEMSelector(fit='pilot', criterion='posterior')"
    averaging = KEMSelector(learned, "ml", "bic", average=3)
    assert repr(averaging) == "KEMSelector(fit='ml', criterion='bic', average=3)"


def test_calibration_changes_quantiles_and_only_where_asked_for(learned):
    """Intervals reach twice as far, in probits; without a calibration, refused."""
    wide = with_clusters(learned, calibration=Calibration(tuple(2 * NORMAL), 30))
    x, y = user(6)
    plain, selection = (KEMSelector(e).select(x[:5], y[:5]) for e in (learned, wide))
    same, usual = selection.predict(x, True), plain.predict(x, True)
    found = selection.predict(x, True, calibrated=True)
    for p in (0.025, 0.5, 0.9):
        assert same.quantile(p).tolist() == usual.quantile(p).tolist()
        other = usual.quantile(norm.cdf(2 * norm.ppf(p)))
        assert found.quantile(p) == pytest.approx(other, abs=1e-8)
    assert found.sd.tolist() == usual.sd.tolist()
    for other in (plain, KEMSelector(wide, "ml").select(x, y)):
        with pytest.raises(InputError, match=r"Calibrate the evolutions with kem\.calibrate"):
            other.predict(x, calibrated=True)
