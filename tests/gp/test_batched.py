"""Likelihoods of many users, or of many kernels, are those of each alone."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import kem_pymc as kem
from kem_pymc.errors import InputError
from kem_pymc.gp.batched import largest_likelihoods
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

VALUES = {
    "LIN0.amplitude": 0.7,
    "LIN0.shift": 0.4,
    "SE1.amplitude": 1.3,
    "SE1.lengthscale": 0.8,
}
NOISE = 0.3
POOL = CandidatePool(["LIN0", "PER1", "SE0", "SE1", "LIN0 x PER1"], 2)


def cohort(count):
    """Users with different numbers of points and time steps."""
    rng = np.random.default_rng(5)
    ends = [np.cumsum(rng.integers(1, 4, rng.integers(1, 5))) for _ in range(count)]
    inputs = [rng.normal(size=(own[-1], 2)) for own in ends]
    targets = [rng.normal(size=own[-1]) for own in ends]
    return kem.Cohort(range(count), inputs, targets, ends, ["a", "b"])


def test_users_have_the_plain_likelihoods():
    users = cohort(8)
    found = kem.gp.log_likelihoods(users, "LIN0 + SE1", VALUES, NOISE)
    for row, x, y, ends in zip(found, users.inputs, users.targets, users.ends, strict=True):
        a, b = x.T
        covariance = 0.7 * np.outer(a - 0.4, a - 0.4) + NOISE * np.eye(len(x))
        covariance += 1.3 * np.exp(-((b[:, None] - b) ** 2) / (2 * 0.8**2))
        plain = [multivariate_normal.logpdf(y[:n], cov=covariance[:n, :n]) for n in ends]
        np.testing.assert_allclose(row[: len(ends)], plain, rtol=1e-10)
        assert np.isnan(row[len(ends) :]).all()


@pytest.mark.parametrize(
    ("text", "changes", "noise", "message"),
    [
        ("LIN0 + SE1", {"SE1.lengthscale": -1}, 1.0, r"SE1\.lengthscale"),
        ("LIN0 + SE1", {}, 0.0, "noise"),
        ("LIN0 + SE2", {}, 1.0, r"SE2 uses input dimension 2, but .* is 2\. Use"),
    ],
)
def test_what_is_refused(text, changes, noise, message):
    with pytest.raises(InputError, match=message):
        kem.gp.log_likelihoods(cohort(2), text, VALUES | changes, noise)


def test_every_composition_has_the_largest_of_its_likelihoods():
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0, 3, (12, 2)), rng.normal(size=12)
    names = ["SE0 + SE1", "WHITE", "LIN0", "LIN0 x PER1 + SE0"]
    rivals = []
    for sets, name in zip((3, 1, 2, 4), names, strict=True):
        where = Coordinates(POOL, Composition.parse(name))
        rivals.append((where, rng.normal(0, 0.5, (sets, len(where)))))
    alone = [[Objective(c, x, y).terms(v)[0] for v in values] for c, values in rivals]
    found = largest_likelihoods(rivals, x, y, 0.01)
    np.testing.assert_allclose(found, [max(each) for each in alone], rtol=1e-10)
    assert any(max(each) != each[0] for each in alone)


def test_noise_below_the_floor_of_a_fit_is_raised_to_it():
    where = Coordinates(POOL, Composition())
    y = np.array([0.0, 0.001, -0.002])
    low, floor = (
        largest_likelihoods([(where, np.array([[v]]))], np.zeros((3, 2)), y, 0.01)
        for v in (-20.0, math.log(0.01))
    )
    assert low == floor


def test_values_beyond_all_bounds_have_no_likelihood():
    where = Coordinates(POOL, Composition.parse("SE0"))
    found = largest_likelihoods(
        [(where, np.array([[1e3, 0.0, 0.0]]))], np.ones((2, 2)), np.ones(2), 0.01
    )
    assert found == -np.inf
