import numpy as np
import pytest

from kem_pymc.search.evocov.run import evolve


def rhythm(n=30):
    """Return a rhythm around 100 with noise: x (n,), y (n,)."""
    x = 1990 + np.arange(n) / 10
    return x, 100 + 5 * np.sin(2 * np.pi * x) + np.random.default_rng(1).normal(0, 0.5, n)


def quiet(*data, start="random", **options):
    return evolve(*data, progressbar=False, cores=1, start=start, **options)


@pytest.fixture(scope="session")
def evolved():
    """A short search on the rhythm, two generations and a part of the third."""
    return quiet(*rhythm(), budget=300, evaluations=20)
