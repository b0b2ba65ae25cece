import numpy as np
import pytest

from kem_pymc.search.evaluation import Evaluator
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.periodogram import periods
from kem_pymc.search.points import scaled


def rhythm(period, n=400, seed=0):
    """A trend with a weak rhythm at irregular times in [0, 1]."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=n))
    return x, 8 * x**2 + 0.5 * np.sin(2 * np.pi * x / period) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("period", [0.4, 0.11, 0.013])
def test_the_highest_peak_is_the_period(period):
    found = periods(*rhythm(period), 5)
    # Frequencies are a quarter apart.
    assert 1 / found[0] == pytest.approx(1 / period, abs=0.25)
    assert len(found) == 5


def test_few_inputs_and_polynomials_have_none():
    x = np.repeat(np.arange(7) / 6, 10)
    assert not len(periods(x, np.sin(9 * x), 5))
    x = np.linspace(0, 1, 50)
    assert not len(periods(x, 1 + x - 3 * x**2, 5))


def test_a_fit_finds_a_period_far_below_its_prior():
    """Of 64 draws from the prior, one in a thousand has a period near enough to 0.013."""
    x, y, _ = scaled(*rhythm(0.013))
    found = Evaluator(x, y, Hyperpriors()).evaluate(Grammar().parse("PER0 + SE0"))
    names = [
        str(name)
        for name in Evaluator(x, y, Hyperpriors()).objective(found.expression).coordinates.names
    ]
    assert np.exp(found.values[names.index("log PER0.period")]) == pytest.approx(0.013, rel=0.01)
