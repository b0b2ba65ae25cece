"""The tiny study's table of priors with population parameters in it."""

import pymc as pm
import pytest

from kem_pymc.priors.population import population_parameter

MEDIAN = population_parameter("median", pm.Normal.dist(0.3, 0.8))
SPREAD = population_parameter("spread", pm.HalfNormal.dist(0.5))
LEVEL = population_parameter("level", pm.Normal.dist(-1, 0.6))


def noise(parent):
    """Learned, and less below larger parents."""
    return pm.LogNormal.dist(LEVEL - 0.2 * parent.size, 0.7)


@pytest.fixture(scope="session")
def hierarchical(table):
    return table.replace(lengthscale=pm.LogNormal.dist(MEDIAN, SPREAD), noise=noise)
