"""A mean process that is given by functions is kept, in files too, without them."""

import numpy as np
import pymc as pm
import pytest

from kem_pymc.errors import InputError
from kem_pymc.population.fixed_mean import FixedMean
from kem_pymc.population.mean_process import MeanProcess
from kem_pymc.population.shared_part import learn_shared
from tests.population.test_shared_part import make_cohort, wave

COHORT = make_cohort(wave)
X = np.linspace(0.05, 0.95, 7)[:, None]


def test_functions_of_pymc_are_met_to_a_hundredth():
    """Their mean and covariance at new inputs, within the tolerance that is promised."""
    mean = pm.gp.mean.Linear(coeffs=np.array([3.0]), intercept=-1.0)
    cov = 0.5**2 * pm.gp.cov.ExpQuad(1, ls=0.3)
    part = learn_shared(COHORT, FixedMean(mean, cov))
    again = MeanProcess.from_dict(part.process.to_dict())
    for process in (part.process, part.function(3), again):
        np.testing.assert_allclose(process.mean(X), 3 * X[:, 0] - 1, atol=0.01)
        exact = cov(X, X).eval()
        np.testing.assert_allclose(process.covariance(X, X), exact, atol=0.01)


def test_a_mean_alone_is_certain():
    part = learn_shared(COHORT, FixedMean(lambda x: np.sin(7 * x[:, 0])))
    np.testing.assert_allclose(part.process.mean(X), np.sin(7 * X[:, 0]), atol=0.01)
    assert np.abs(part.process.covariance(X, X)).max() < 1e-3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (FixedMean(lambda x: np.sin(400 * x[:, 0])), "changes too quickly"),
        (FixedMean(lambda x: x), r"mean has shape \(\d+, 1\)"),
        (FixedMean(None, lambda x, z: np.full((len(x), len(z)), np.nan)), "isn't finite"),
    ],
)
def test_functions_that_cannot_be_kept_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        learn_shared(COHORT, given)
