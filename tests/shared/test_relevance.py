"""Total effects of features against closed forms."""

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.gp.mean_process import SharedKernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.shared.relevance import relevance_by_feature
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel

TOTAL = 4.0

SHARED = {
    **{"CONST.amplitude": 2.0, "LIN0.amplitude": 1.5, "LIN0.shift": 0.3},
    **{"LIN1.amplitude": 0.5, "LIN1.shift": 0.0},
}
PERSONAL = {
    **{"CONST.amplitude": 5.0, "LIN1.amplitude": 0.7, "LIN1.shift": 0.4},
    **{"SE2.amplitude": 3.0, "SE2.lengthscale": 0.8},
}


@pytest.fixture(scope="module")
def cohort():
    """Two users with 200 rows: two features between 0 and 1, one that is 0 as often as 1."""
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.uniform(size=(200, 2)), np.arange(200) % 2])
    y = 3 * rows[:, 0] - rows[:, 1] + 0.1 * rng.normal(size=200)
    return Cohort(
        users=("a", "b"),
        inputs=(rows[:80], rows[80:]),
        targets=(y[:80], y[80:]),
        ends=(np.array([80]), np.array([120])),
        features=("day", "age", "group"),
    )


@pytest.fixture(scope="module")
def posterior(cohort):
    kernel = SharedKernel(Composition.parse("CONST + LIN0 + LIN1"), SHARED, 3, np.empty((0, 3)))
    model = TwoLevel(kernel, Composition.parse("CONST + LIN1 + SE2"), PERSONAL, 0.01)
    return SharedPosterior.of(model, cohort.inputs, cohort.targets)


@pytest.fixture(scope="module")
def found(posterior, cohort):
    return relevance_by_feature(posterior, cohort, TOTAL, np.random.default_rng(0))


def test_lines_have_the_variance_of_slope_times_feature(found, posterior, cohort):
    """Catches a missing half, a slope that isn't squared, and a level that counts."""
    rows = np.concatenate(cohort.inputs)
    scale = np.sqrt([SHARED["LIN0.amplitude"], SHARED["LIN1.amplitude"]])
    slopes = scale * posterior.process.weights[1:]
    expected = slopes**2 * rows.var(axis=0)[:2] / TOTAL
    # A permutation's sample correlation is 0 +- 1 / sqrt(200), their mean +- .03.
    np.testing.assert_allclose(found["shared"][:2], expected, rtol=0.1)


def test_users_own_functions_have_their_prior_variance(found, cohort):
    """Catches covariances of other pairs than of a row with itself permuted."""
    rows = np.concatenate(cohort.inputs)
    line = PERSONAL["LIN1.amplitude"] * rows[:, 1].var()
    # Half of the rows get the group's other value, at which the covariance is so much smaller.
    lengthscale = PERSONAL["SE2.lengthscale"]
    step = 0.5 * PERSONAL["SE2.amplitude"] * (1 - np.exp(-0.5 / lengthscale**2))
    np.testing.assert_allclose(found["personal"][1:], np.array([line, step]) / TOTAL, rtol=0.1)


def test_a_feature_that_plays_no_part_has_none(found):
    """Catches a permutation of whole rows instead of one column."""
    assert found["shared"][2] == 0
    assert found["personal"][0] == 0


def test_many_rows_are_as_relevant_as_some(posterior, cohort):
    """Catches rows left out in another way than at random."""
    many = Cohort(
        users=cohort.users,
        inputs=tuple(np.repeat(x[np.argsort(x[:, 0])], 20, axis=0) for x in cohort.inputs),
        targets=tuple(np.repeat(y, 20) for y in cohort.targets),
        ends=tuple(20 * e for e in cohort.ends),
        features=cohort.features,
    )
    few, all_rows = (
        relevance_by_feature(posterior, c, TOTAL, np.random.default_rng(1)) for c in (cohort, many)
    )
    np.testing.assert_allclose(all_rows["shared"], few["shared"], rtol=0.25, atol=1e-12)
