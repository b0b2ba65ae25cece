"""Whether users share something is seen from how well others predict them."""

from contextlib import contextmanager

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.population import shared_part
from kem_pymc.population.model import PopulationModel
from kem_pymc.population.shared_part import choices, learn_shared, personal_terms


def make_cohort(curve, level=0.5, users=12, points=10, seed=0):
    """Return users with a common curve, a level of their own and noise of sd 0.3."""
    rng = np.random.default_rng(seed)
    inputs = [np.sort(rng.uniform(size=(points, 1)), axis=0) for _ in range(users)]
    targets = [
        curve(x[:, 0], rng) + level * rng.normal() + 0.3 * rng.normal(size=points) for x in inputs
    ]
    return Cohort(
        users=tuple(range(users)),
        inputs=tuple(inputs),
        targets=tuple(targets),
        ends=tuple(np.array([points // 2, points]) for _ in range(users)),
        features=("day",),
    )


def alone(x, rng):
    """A line with another slope for every user."""
    return rng.normal(0, 3) * (x - 0.5)


def line(x, _):
    return 4 * x


def wave(x, _):
    return 2 * np.sin(7 * x)


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (line, "Users share a level and the effect of day."),
        (wave, "Users share a level, the effect of day and a smooth function of day."),
        (alone, "Users share no function that improves predictions for other users."),
    ],
)
def test_what_is_shared_is_found(curve, expected):
    part = learn_shared(make_cohort(curve))
    assert str(part) == expected, part.scores
    assert part.nothing == (curve is alone)


def test_a_mean_process_is_without_its_user():
    cohort = make_cohort(line)
    part = learn_shared(cohort, "linear")
    x, others = cohort.inputs[3], make_cohort(line)._take([u for u in range(12) if u != 3])
    found, expected = part.function(3), learn_shared(others, "linear").process
    assert not np.allclose(found.mean(x), part.process.mean(x), atol=1e-3)
    sd = np.sqrt(expected.covariance(x, x).diagonal())
    assert (np.abs(found.mean(x) - expected.mean(x)) < 0.1 * sd).all()
    np.testing.assert_allclose(found.covariance(x, x).diagonal() ** 0.5, sd, rtol=0.15)
    residuals = [y - part.function(u).mean(x) for u, x, y in zip(*data(cohort), strict=True)]
    total = np.mean(np.square(np.concatenate(residuals)))
    within = sum(r.var() * len(r) for r in residuals) / sum(len(r) - 1 for r in residuals)
    assert part.unexplained == pytest.approx((total, within))
    with pytest.raises(InputError, match="wasn't learned from user 99"):
        part.function(99)


def data(cohort):
    return cohort.users, cohort.inputs, cohort.targets


def test_a_smooth_function_of_two_features_finds_which_matters():
    """Fails where lengthscales aren't searched for, or those of features are swapped."""
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(size=(15, 2)) for _ in range(8)]
    targets = [np.sin(8 * x[:, 1]) + 0.3 * rng.normal() + 0.1 * rng.normal(size=15) for x in inputs]
    ends = (np.array([15]),) * 8
    cohort = Cohort(tuple(range(8)), tuple(inputs), tuple(targets), ends, ("a", "b"))
    part = learn_shared(cohort, "smooth")
    lengthscales = part.process.smooths["s(a, b)"].lengthscales
    model = part.posterior.model
    given = PopulationModel(cohort, ["s(a, b)"], ["level"], lengthscales={"s(a, b)": lengthscales})
    np.testing.assert_array_equal(given.lengthscales["s(a, b)"], lengthscales)
    assert model.without("personal s(a, b)").lengthscales.keys() == {"s(a, b)"}
    with pytest.raises(InputError, match=r"lengthscales= has 's\(a\)' with shape \(1,\)"):
        PopulationModel(cohort, ["s(a, b)"], lengthscales={"s(a)": [1.0]})
    assert lengthscales[0] > 3
    assert 0.2 < lengthscales[1] < 0.8
    noise = (
        part.posterior.weights @ part.posterior.draws["noise.sd"] * part.posterior.model.target_sd
    )
    assert noise == pytest.approx(0.1, rel=0.25)
    x = rng.uniform(0.1, 0.9, (50, 2))
    assert np.std(part.process.mean(x) - np.sin(8 * x[:, 1])) < 0.1


def test_terms_suit_the_features():
    """Constant features have personal lines, categories of groups their own curves.

    A function of all features has numbers with few values and changing categories of two levels.
    """
    rng = np.random.default_rng(0)
    few = np.column_stack([np.arange(6.0) // 2, np.arange(6.0) % 2])
    inputs = tuple(
        np.column_stack([np.arange(6.0), np.full(6, u % 2), rng.normal(size=6), np.full(6, u), few])
        for u in range(6)
    )
    targets, ends = tuple(rng.normal(size=(6, 6))), (np.array([6]),) * 6
    names = ("day", "arm", "mood", "base", "dose", "weekend")
    levels = {"arm": ("a", "b"), "weekend": ("no", "yes")}
    cohort = Cohort(tuple(range(6)), inputs, targets, ends, names, levels=levels, time="day")
    groups = ("day:arm", "s(day):arm")
    found = choices(cohort)
    assert found["linear"] == names
    assert found["additive"] == (*names, "s(day)", "s(mood)", "s(base)", *groups)
    assert found["smooth"] == ("arm", "s(day, mood, base, dose, weekend)", *groups)
    assert personal_terms(cohort) == ("level", "weekend", "s(day, mood)")
    fewer = Cohort(tuple(range(6)), tuple(x[:, :4] for x in inputs), targets, ends, names[:4])
    assert personal_terms(fewer) == ("level", "day", "mood", "base", "s(day, mood)")


def test_one_user_shares_nothing():
    one = make_cohort(alone, users=1)
    assert learn_shared(one).nothing
    with pytest.raises(InputError, match="Give at least two pilot users, or shared='auto'"):
        learn_shared(one, "linear")


def test_learning_reports_every_user_of_every_choice(monkeypatch):
    """Catches minutes of silence with thousands of users, where nothing says how many are left."""
    reports = []

    @contextmanager
    def waiting(what):
        yield lambda done, total: reports.append((what, done, total))

    monkeypatch.setattr(shared_part, "waiting", waiting)
    cohort = make_cohort(line, users=4)
    count = (len(choices(cohort)) + 1) * 4
    learn_shared(cohort, progress=False)
    assert not reports
    learn_shared(cohort)
    assert reports == [("Learning what users share", done, count) for done in range(count)]


def test_what_cannot_be_shared_is_refused():
    cohort = make_cohort(alone)
    with pytest.raises(InputError, match="no feature 'night'"):
        learn_shared(cohort, "night")
    with pytest.raises(InputError, match="shared is 3"):
        learn_shared(cohort, 3)
