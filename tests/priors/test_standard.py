"""Standard tables of priors against the paper's numbers."""

import numpy as np
import pytest
from scipy import stats

from kem_pymc import priors as prior_tables
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from tests.priors.compiled import log_densities, place


@pytest.mark.parametrize(
    ("table", "lengthscale", "period"),
    [
        (prior_tables.synthetic, (0, 2), (np.log(5), 0.25)),
        (prior_tables.paper, (np.log(0.2), 0.5), (np.log(0.2), 0.25)),
    ],
)
def test_tables_are_the_papers(pool, table, lengthscale, period):
    compiled_priors = table().compile(pool)
    v = np.array([-0.7, 0.4, 1.9])
    expected = {
        "SE0.lengthscale": stats.norm(*lengthscale),
        "LIN0 x PER0.PER0.period": stats.norm(*period),
        "SE0.amplitude": stats.norm(0, 2),
        "LIN0.shift": stats.norm(0, 0.1),
    }
    for name, distribution in expected.items():
        entry = compiled_priors.entry[place(pool, name)]
        density = log_densities(compiled_priors, entry, v, np.zeros(3, dtype=bool))[0]
        np.testing.assert_allclose(density, distribution.logpdf(v), atol=1e-10)
    for size, (mu, sigma) in enumerate([(2, 0.5), (1, 1), (0, 2), (0, 2)]):
        parent = np.arange(3) < size
        noise, slope = log_densities(compiled_priors, 0, v, parent)[2:]
        np.testing.assert_allclose(noise, stats.norm(mu, sigma).logpdf(v), atol=1e-10)
        np.testing.assert_allclose(slope, -(v - mu) / sigma**2, atol=1e-9)
    np.testing.assert_array_equal(compiled_priors.stay, 0.9)
    np.testing.assert_array_equal(compiled_priors.enter, [0.1, 0.1, 0.02])


@pytest.mark.parametrize("unexplained", [1.0, 0.25])
def test_defaults_scale_with_what_is_to_be_explained(pool, unexplained):
    """Noise and amplitudes do, nothing else; one candidate enters on average."""
    table = prior_tables.default(pool, unexplained)
    v = np.array([-2.0, 0.3])
    shift = np.log(unexplained)
    expected = {
        "SE0.amplitude": stats.norm(-0.7 + shift, 1.5),
        "SE0.lengthscale": stats.norm(np.log(0.4), 0.7),
        "LIN0 x PER0.PER0.period": stats.norm(np.log(0.2), 0.25),
        "LIN0.shift": stats.norm(0.5, 0.5),
    }
    compiled_priors = table.compile(pool)
    for name, distribution in expected.items():
        entry = compiled_priors.entry[place(pool, name)]
        density = log_densities(compiled_priors, entry, v, np.zeros(3, dtype=bool))[0]
        np.testing.assert_allclose(density, distribution.logpdf(v), atol=1e-6)
    for parent in (np.zeros(3, dtype=bool), np.ones(3, dtype=bool)):
        noise = log_densities(compiled_priors, 0, v, parent)[2]
        np.testing.assert_allclose(noise, stats.norm(-1.5 + shift, 1.2).logpdf(v), atol=1e-6)
    assert compiled_priors.enter.sum() == pytest.approx(1)
    assert (table.noise_floor, table.scaling) == (1e-3, "unit")


def test_a_lone_candidate_enters_half_of_the_time():
    pool = CandidatePool(["SE0"])
    assert prior_tables.default(pool).entering(pool.candidates[0]) == pytest.approx(0.5)
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match=r"isn't a valid variance\. Give a positive number"):
            prior_tables.default(pool, wrong)
