"""Whether users share something is seen from how well others predict them."""

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets import synthetic
from kem_pymc.errors import InputError
from kem_pymc.shared import learn_shared


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


@pytest.mark.integration
@pytest.mark.parametrize(
    ("curve", "expected"),
    [(line, "CONST + LIN0"), (wave, "CONST + LIN0 + SE0"), (alone, "WHITE")],
)
def test_what_is_shared_is_found(curve, expected):
    part = learn_shared(make_cohort(curve))
    assert str(part.model.kernel.composition) == expected, part.scores


def test_what_varies_fast_is_not_noise():
    """Catches a fit that begins with long lengthscales alone: it finds noise of 75 here, not .5."""
    cohort = synthetic(users=10, time_steps=6, seed=0, study="complex")
    part = learn_shared(cohort, "nothing")
    assert part.model.noise == pytest.approx(0.5, rel=0.3)


def test_rows_of_no_user_in_particular_have_nothing_personal():
    """Catches a personal part that takes a share of what all users have in common."""
    cohort = make_cohort(wave, level=0.0, users=6)
    part, pooled = (learn_shared(cohort, name) for name in ("smooth", "pooled"))
    assert part.model.noise == pytest.approx(0.3**2, rel=0.4)
    assert abs(pooled.scores["pooled"].sum() - part.scores["smooth"].sum()) < 5
    assert not pooled.model.personal.candidates
    scores = [learn_shared(make_cohort(wave), name).scores for name in ("smooth", "pooled")]
    assert scores[1]["pooled"].sum() < scores[0]["smooth"].sum() - 5


@pytest.fixture(scope="module")
def part():
    return learn_shared(make_cohort(line), "linear")


def test_a_mean_process_is_without_its_user(part):
    x = make_cohort(line).inputs[3]
    assert not np.allclose(part.function(3).mean(x), part.process.mean(x))
    np.testing.assert_array_equal(part.function(3).mean(x), part.posterior.without(3).mean(x))
    assert (part.function(3).covariance(x, x) - part.process.covariance(x, x)).diagonal().min() > 0


def test_words_say_what_is_shared(part):
    assert part.describe(["day"]) == "Users share a constant level plus a straight line in day."


def test_one_user_shares_nothing():
    one = make_cohort(alone, users=1)
    assert learn_shared(one).nothing
    with pytest.raises(InputError, match=r"can't be learned from one user\. Give at least two"):
        learn_shared(one, "linear")


def test_what_cannot_be_shared_is_refused():
    cohort = make_cohort(alone)
    with pytest.raises(InputError, match="dimension"):
        learn_shared(cohort, "SE1")
    with pytest.raises(InputError, match="shared is a int"):
        learn_shared(cohort, 3)
