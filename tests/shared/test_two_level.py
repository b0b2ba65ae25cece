"""The two-level model against dense algebra on all users' rows at once."""

from itertools import pairwise

import numpy as np
import pytest

from kem_pymc.gp.mean_process import MeanProcess
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel
from tests.gp.problems import composition_covariance
from tests.shared.two_levels import NOISE, OWN, PERSONAL, SHARED, VALUES


def dense(users):
    """Return the covariance of all rows, and the rows of each user."""
    inputs, targets = users
    x = np.concatenate(inputs)
    total = composition_covariance(SHARED, VALUES, x, x) + NOISE * np.eye(len(x))
    ends = np.cumsum([0, *map(len, targets)])
    spans = [slice(a, b) for a, b in pairwise(ends)]
    for span in spans:
        total[span, span] += composition_covariance(PERSONAL, OWN, x[span], x[span])
    return total, spans


@pytest.mark.parametrize("user", range(4))
def test_leaving_a_user_out_equals_the_block_formulas(model, users, user):
    # C = ([S^-1]_uu)^-1 - K_u - noise I and m = y_u - ([S^-1]_uu)^-1 [S^-1 y]_u, from one factor
    inputs, targets = users
    total, spans = dense(users)
    inverse = np.linalg.inv(total)
    span, x = spans[user], inputs[user]
    block = np.linalg.inv(inverse[span, span])
    own = composition_covariance(PERSONAL, OWN, x, x) + NOISE * np.eye(len(x))
    mean = targets[user] - block @ (inverse @ np.concatenate(targets))[span]
    left_out = SharedPosterior.of(model, inputs, targets).without(user)
    sd = np.sqrt(np.diag(block))
    assert np.abs((left_out.mean(x) - mean) / sd).max() < 0.01
    assert np.abs(left_out.covariance(x, x) - (block - own)).max() < 0.01 * block.max()


def test_predictions_for_a_new_user_are_within_a_hundredth_of_an_sd(model, users):
    inputs, targets = users
    new = np.random.default_rng(9).uniform(0.1, 0.9, (20, 2))
    total, _ = dense(users)
    cross = composition_covariance(SHARED, VALUES, new, np.concatenate(inputs))
    mean = cross @ np.linalg.solve(total, np.concatenate(targets))
    covariance = composition_covariance(SHARED, VALUES, new, new)
    covariance -= cross @ np.linalg.solve(total, cross.T)
    process = SharedPosterior.of(model, inputs, targets).process
    sd = np.sqrt(np.diag(covariance) + NOISE)
    assert np.abs((process.mean(new) - mean) / sd).max() < 0.01
    found = np.sqrt(np.diag(process.covariance(new, new)) + NOISE)
    np.testing.assert_allclose(found, sd, rtol=0.01)


def test_plain_data_make_the_same_process(model, users):
    process = SharedPosterior.of(model, *users).process
    again = MeanProcess.from_dict(process.to_dict(), 2)
    x = users[0][2]
    np.testing.assert_array_equal(again.mean(x), process.mean(x))
    np.testing.assert_array_equal(again.covariance(x, x), process.covariance(x, x))
    assert TwoLevel.from_dict(model.to_dict(), 2).to_dict() == model.to_dict()
