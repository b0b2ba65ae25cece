"""The distribution of missing features given known ones, against scipy and large samples."""

import numpy as np
import pytest
from scipy import stats

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.feature_distribution import NODES, FeatureDistribution, Margin, check_missing
from tests.refusals import refused

NAN = np.nan


def cohort(x, features, levels=None, rows=5):
    """Return users with so many rows each, or of these numbers of rows."""
    ends = np.cumsum(np.full(len(x) // rows, rows) if np.ndim(rows) == 0 else rows)
    parts = np.split(np.asarray(x, float), ends[:-1])
    targets = tuple(np.zeros(len(part)) for part in parts)
    whole = tuple([len(part)] for part in parts)
    return Cohort(
        tuple(range(len(parts))), tuple(parts), targets, whole, features, levels=levels or {}
    )


def completed(learned, row, used):
    """Return the nodes (J, D) of one row."""
    rows, nodes = learned.completed(np.array([row], float), used)
    assert nodes.shape == (NODES, 1)
    return rows[nodes[:, 0]]


@pytest.fixture(scope="module")
def skewed():
    """A log-normal feature b, its cause a, and a number c that depends on both; 4,000 users."""
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal(np.zeros(3), CORRELATION, 20_000)
    x = np.column_stack(
        [10 + 2 * z[:, 0], np.exp(z[:, 1]), stats.gamma(2).ppf(stats.norm.cdf(z[:, 2]))]
    )
    return x, FeatureDistribution.learn(cohort(x, ("a", "b", "c")))


CORRELATION = np.array([[1, 0.7, 0.3], [0.7, 1, 0.5], [0.3, 0.5, 1]])


def test_missing_numbers_are_those_of_the_true_distribution(skewed):
    """Power: the marginal of b has the mean 1.65 and the median 1."""
    _, learned = skewed
    b = completed(learned, [13, NAN, 2.0], {1})[:, 1]
    z = np.array([1.5, stats.norm.ppf(stats.gamma(2).cdf(2.0))])
    gain = np.linalg.solve(CORRELATION[np.ix_([0, 2], [0, 2])], CORRELATION[[0, 2], 1])
    true = stats.lognorm(np.sqrt(1 - gain @ CORRELATION[[0, 2], 1]), scale=np.exp(gain @ z))
    assert b.mean() == pytest.approx(true.mean(), rel=0.05)
    for p in (0.1, 0.5, 0.9):
        assert np.quantile(b, p) == pytest.approx(true.ppf(p), rel=0.08)


def test_several_missing_numbers_keep_their_correlation(skewed):
    """Against 200,000 draws of a conditional normal, by ranks that scipy computes."""
    x, learned = skewed
    rows = completed(learned, [12, NAN, NAN], {1, 2})
    scores = stats.norm.ppf((stats.rankdata(x, axis=0) - 0.5) / len(x))
    covariance = np.corrcoef(scores.T)
    known = np.interp(12, np.sort(x[:, 0]), np.sort(scores[:, 0])) * covariance[1:, 0]
    rest = covariance[1:, 1:] - np.outer(covariance[1:, 0], covariance[1:, 0])
    drawn = stats.norm.cdf(stats.multivariate_normal(known, rest).rvs(200_000, random_state=1))
    expected = np.column_stack([np.quantile(x[:, d], drawn[:, d - 1]) for d in (1, 2)])
    assert rows[:, 1:].mean(axis=0) == pytest.approx(expected.mean(axis=0), rel=0.05)
    assert rows[:, 1:].std(axis=0) == pytest.approx(expected.std(axis=0), rel=0.12)
    between = stats.spearmanr(rows[:, 1:]).statistic
    assert between == pytest.approx(stats.spearmanr(expected).statistic, abs=0.08)
    assert (rows[:, 0] == 12).all()


def test_what_is_not_used_stays_missing_and_complete_rows_stay_once(skewed):
    _, learned = skewed
    x = np.array([[10.0, 1, 1], [9, NAN, NAN], [8, 1, NAN]])
    rows, nodes = learned.completed(x, {0, 1})
    assert rows.shape == (2 + NODES, 3)
    assert np.isnan(rows[nodes[0], 2]).tolist() == [False, True, True]
    np.testing.assert_array_equal(rows[nodes[:, 0]], np.tile(x[0], (NODES, 1)))
    assert not np.isnan(rows[nodes[:, 1], 1]).any()
    same, none = learned.completed(x, {0})
    assert none is None
    np.testing.assert_array_equal(same, x)


def test_users_count_equally_and_levels_have_their_frequencies():
    """One user has 90 rows at b = 1, three have 10 rows each at b = 0."""
    x = np.repeat([[1.0], [0], [0], [0]], (90, 10, 10, 10), axis=0)
    for levels in ({"b": ("no", "yes")}, {}):  # a category, or a number with two values
        learned = FeatureDistribution.learn(cohort(x, ("b",), levels, (90, 10, 10, 10)))
        assert completed(learned, [NAN], {0}).mean() == pytest.approx(0.25, abs=0.5 / NODES)


def test_categories_depend_on_categories_and_on_numbers():
    """Arm 1 is at site 1, and its ages are higher by two standard deviations."""
    rng = np.random.default_rng(0)
    arm = rng.integers(2, size=2000)
    site = np.where(arm == 1, 1, rng.integers(3, size=2000))
    age = 50 + 20 * arm + 10 * rng.normal(size=2000)
    levels = {"arm": ("a", "b"), "site": ("x", "y", "z")}
    x = np.column_stack([arm, age, site])
    learned = FeatureDistribution.learn(cohort(x, ("arm", "age", "site"), levels))
    assert (completed(learned, [1, 60, NAN], {2})[:, 2] == 1).all()
    ages = completed(learned, [0, NAN, 0], {1})[:, 1]
    assert (ages.mean(), ages.std()) == pytest.approx((50, 10), rel=0.1)
    at = np.array([1 / 3, 1.0]) * stats.norm.pdf(62, [50, 70], 10)  # Bayes' theorem, at site 1
    arms = completed(learned, [NAN, 62, 1], {0})[:, 0]
    assert arms.mean() == pytest.approx(at[1] / at.sum(), abs=0.06)
    ages = completed(learned, [1, NAN, -1], {1})[:, 1]  # a site that no pilot user had
    assert (ages.mean(), ages.std()) == pytest.approx((70, 10), rel=0.1)


def test_a_distribution_survives_a_file_and_damage_is_refused(skewed):
    _, learned = skewed
    data = learned.to_dict()
    assert FeatureDistribution.from_dict(data, learned.features).to_dict() == data
    assert max(len(margin.values) for margin in learned.margins.values()) <= 64
    for change in (
        {"shares": [0.5]},
        {"means": [[0.0, 0.0]]},
        {"covariance": (-np.eye(3)).tolist()},
        {"margins": {}},
        {"time": "week"},
    ):
        refused(lambda c=change: FeatureDistribution.from_dict(data | c, learned.features), "again")


def test_rows_that_lack_the_time_or_have_no_distribution_are_refused(skewed):
    _, learned = skewed
    x = np.array([[1.0, 1, 1], [NAN, 1, 1]])
    check_missing(x, learned)
    check_missing(x[:1], None)
    refused(lambda: check_missing(x, None), "row 1", "from_posterior")
    timed = FeatureDistribution.from_dict(learned.to_dict() | {"time": "a"}, learned.features)
    refused(lambda: check_missing(x, timed), "The time, a, is missing in row 1")


def test_a_margin_of_many_values_keeps_mean_and_variance():
    x = stats.norm.ppf((np.arange(5000) + 0.5) / 5000)
    margin = Margin.of(x, np.full(5000, 1 / 5000))
    assert margin.shares @ margin.values == pytest.approx(0, abs=1e-9)
    assert margin.shares @ margin.values**2 == pytest.approx(x.var(), rel=2e-3)
