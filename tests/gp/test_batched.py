"""Log likelihoods of many users: the plain ones, whoever computes them, and never all at once."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import kem_pymc as kem
from kem_pymc.errors import InputError

VALUES = {
    "LIN0.amplitude": 0.7,
    "LIN0.shift": 0.4,
    "SE1.amplitude": 1.3,
    "SE1.lengthscale": 0.8,
}
NOISE = 0.3


def user(number):
    """A user whose number of points and time steps depends on the number."""
    rng = np.random.default_rng([5, number])
    ends = np.cumsum(rng.integers(1, 4, rng.integers(1, 5)))
    x = rng.normal(size=(ends[-1], 2))
    return x, rng.normal(size=len(x)), ends


def blocks(count, size, made=None):
    for block in range(count):
        if made is not None:
            made.append(block)
        users = range(block * size, (block + 1) * size)
        inputs, targets, ends = zip(*map(user, users), strict=True)
        yield kem.Cohort(users, inputs, targets, ends, ["a", "b"])


def plain(number):
    x, y, ends = user(number)
    a, b = x.T
    covariance = VALUES["LIN0.amplitude"] * np.outer(a - 0.4, a - 0.4)
    square = (b[:, None] - b) ** 2
    covariance += VALUES["SE1.amplitude"] * np.exp(-square / (2 * VALUES["SE1.lengthscale"] ** 2))
    covariance += NOISE * np.eye(len(x))
    return [multivariate_normal.logpdf(y[:n], cov=covariance[:n, :n]) for n in ends]


@pytest.mark.integration
def test_they_are_the_plain_ones_everywhere(executor):
    found = list(kem.gp.log_likelihoods(blocks(9, 5), "LIN0 + SE1", VALUES, NOISE, executor))
    assert [len(block) for block in found] == [5] * 9
    for number in range(45):
        row = found[number // 5][number % 5]
        expected = plain(number)
        np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-10)
        assert np.isnan(row[len(expected) :]).all()


@pytest.mark.integration
def test_no_more_blocks_are_made_than_are_worked_on(executor):
    made: list[int] = []
    under_way = []

    class Watched:
        width = executor.width

        def map_unordered(self, *arguments):
            for come, result in enumerate(executor.map_unordered(*arguments)):
                under_way.append(len(made) - come)
                yield result

    list(kem.gp.log_likelihoods(blocks(12, 2, made), "LIN0 + SE1", VALUES, NOISE, Watched()))
    assert made == list(range(12))
    assert max(under_way) == executor.width


def test_a_cohort_is_cut_into_blocks(monkeypatch):
    monkeypatch.setattr("kem_pymc.gp.batched.BLOCK", 3)
    whole = next(blocks(1, 8))
    found = list(kem.gp.log_likelihoods(whole, "LIN0 + SE1", VALUES, NOISE))
    assert [len(block) for block in found] == [3, 3, 2]
    for number, row in enumerate(row for block in found for row in block):
        np.testing.assert_allclose(row[~np.isnan(row)], plain(number), rtol=1e-10)


def test_no_users():
    assert list(kem.gp.log_likelihoods([], "LIN0 + SE1", VALUES, NOISE)) == []


def test_what_is_refused():
    with pytest.raises(InputError, match=r"SE1\.lengthscale"):
        list(
            kem.gp.log_likelihoods(blocks(1, 2), "LIN0 + SE1", VALUES | {"SE1.lengthscale": -1}, 1)
        )
    with pytest.raises(InputError, match="noise"):
        list(kem.gp.log_likelihoods(blocks(1, 2), "LIN0 + SE1", VALUES, 0.0))
    with pytest.raises(InputError, match=r"is a str\. Give a Cohort"):
        list(kem.gp.log_likelihoods(["LIN0"], "LIN0 + SE1", VALUES, NOISE))
    further = {name.replace("SE1", "SE2"): value for name, value in VALUES.items()}
    with pytest.raises(InputError, match=r"SE2 uses input dimension 2, but .* is 2\. Use"):
        list(kem.gp.log_likelihoods(blocks(1, 2), "LIN0 + SE2", further, NOISE))
