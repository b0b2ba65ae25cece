"""Noise that varies is found where it is, and nowhere else."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.population import variance_function
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.population.variance_function import (
    MEAN,
    Covariate,
    UserRows,
    VarianceFunction,
    choose,
)
from tests.population.test_shared_part import line, make_cohort


def simulated(rng, slope=0.0, users=20, points=8):
    """Return rows with a level of each user, and noise whose log variance has this slope."""
    values = rng.uniform(-1, 1, (users, points))
    root = np.ones((points, 1))
    rows = [
        UserRows(
            rng.normal() + 0.5 * np.exp(slope * z / 2) * rng.normal(size=points),
            root,
            np.zeros(points),
        )
        for z in values
    ]
    return rows, [
        Covariate("other", rng.normal(size=users * points)),
        Covariate("z", values.ravel()),
        Covariate("arm", np.repeat(np.arange(users) % 2, points) - 0.5, ("a", "b")),
    ]


def test_the_density_is_scipys_and_its_slopes_are_differences():
    """Catches a determinant or inverse that lacks known noise, or a root that isn't one."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(6, 2))
    error, known, logs = rng.normal(size=6), rng.uniform(0, 1, 6), rng.normal(size=6)
    rows = UserRows.of(error, half @ half.T, known)
    assert rows.root.shape == (6, 2)

    def by_hand(logs):
        return multivariate_normal(None, half @ half.T + np.diag(np.exp(logs) + known)).logpdf(
            error
        )

    height, slopes = rows.log_density(logs)
    assert height == pytest.approx(by_hand(logs), abs=1e-10)
    steps = 1e-5 * np.eye(6)
    numeric = [(by_hand(logs + s) - by_hand(logs - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(slopes, numeric, atol=1e-6)


def test_what_the_noise_depends_on_is_found():
    """In 20 tables of noise whose sds differ by a factor of 4.5; ranks are uniform here."""
    rng, slopes = np.random.default_rng(1), []
    for _ in range(20):
        found = choose(*simulated(rng, slope=1.5))
        assert found is not None
        assert found.name == "z"
        low, high = np.log(found(np.array([-1.0, 1.0])))
        slopes.append((high - low) / 2)
    # A slope has an sd of sqrt(2 / 140) / .58 = .21, and a prior that is .58 wide.
    assert np.mean(slopes) == pytest.approx(1.45, abs=0.15)


def test_noise_that_is_the_same_everywhere_stays_so():
    """With three candidates; the share of tables with a finding is at most .1 (40 tables)."""
    rng = np.random.default_rng(2)
    assert sum(choose(*simulated(rng)) is not None for _ in range(40)) <= 4


def test_gains_are_those_of_users_who_are_left_out():
    """One Newton step is near the weights that are learned without a user."""
    rows, candidates = simulated(np.random.default_rng(3), slope=1.5)
    kept, columns = candidates[1].columns()
    every = np.column_stack([np.ones(160), np.interp(candidates[1].values, kept, columns[:, 0])])
    _, found = variance_function._learned(rows, every)
    for u in (0, 7):
        others = np.delete(np.arange(160), np.s_[8 * u : 8 * u + 8])
        weights, _ = variance_function._learned([*rows[:u], *rows[u + 1 :]], every[others])
        expected, _ = rows[u].log_density(every[8 * u : 8 * u + 8] @ weights)
        assert found[u] == pytest.approx(expected, abs=0.02)


def test_factors_have_the_mean_one_and_stay_within_what_was_seen():
    rows, candidates = simulated(np.random.default_rng(4), slope=1.5)
    found = choose(rows, candidates[:2])
    values = candidates[1].values
    assert found(values).mean() == pytest.approx(1.0, abs=0.01)
    ends = found(np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(found(np.array([-9.0, 9.0])), ends)
    text = str(found)
    times = float(np.sqrt(ends[1] / ends[0]))
    assert text == (
        f"The noise depends on z: its sd is {times:.2g} times as large where that is largest as "
        "where it is smallest."
    )
    again = VarianceFunction.from_dict(found.to_dict())
    np.testing.assert_array_equal(again(values), found(values))
    groups = VarianceFunction("arm", np.array([-0.5, 0.5]), np.log([4.0, 0.25]), ("a", "b"))
    np.testing.assert_allclose(groups(np.array([0.5, -0.5, 1.5])), [0.25, 4.0, 1.0])
    assert str(groups).endswith("4 times as large for a as for b.")
    with pytest.raises(InputError, match="values in increasing order"):
        VarianceFunction("z", np.array([1.0, 0.0]), np.zeros(2))


def test_a_cohort_whose_noise_grows_with_its_mean():
    """From a cohort to what is known of new users; families have their own noise."""
    cohort = make_cohort(lambda x, rng: line(x, rng) + (1.5 * x - 0.3) * rng.normal(size=len(x)))
    part = learn_shared(cohort, "linear")
    found = part.process.variance_function
    assert found.name in ("day", MEAN)
    assert not part.nothing
    assert str(part).startswith("Users share a level and the effect of day. The noise depends on ")
    x = np.array([[0.05], [0.95]])
    low, high = part.process.noise_factors(x)
    assert high > 4 * low
    np.testing.assert_allclose(part.function(3).noise_factors(x), [low, high], rtol=0.2)
    assert learn_shared(make_cohort(line), "linear").process.noise_factors(x) is None


def test_the_noise_of_a_family_doesnt_vary():
    """Of binary targets, noise would seem to vary with the mean of other users, by 5.6 in sds."""
    rng = np.random.default_rng(2)
    odds = np.exp(1.4 + 0.8 * rng.normal(size=(25, 1)))
    inputs, targets = rng.uniform(size=(25, 4, 1)), rng.random((25, 4)) < odds / (1 + odds)
    cohort = Cohort(
        users=tuple(range(25)),
        inputs=tuple(inputs),
        targets=tuple(targets.astype(float)),
        ends=(np.array([4]),) * 25,
        features=("day",),
        family=Family.learn("binary", targets.astype(float)),
    )
    scaled = Scaling.unit(cohort).apply(cohort)
    assert learn_shared(scaled, "nothing").process.variance_function is None
