"""Kernels of new clusters as copies of another: drawn with the density that is said, by hand."""

import numpy as np
import pytest
from scipy import stats

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.copies import Spread, draw_copy, log_copy, same_origins
from tests.sampler.moves import by_hand
from tests.sampler.moves.by_hand import NOISE, included, places, prior, unit

SPREAD = Spread(prior=0.25, fine=0.15, coarse=0.6)


def test_values_of_candidates_that_are_in_have_themselves_as_origins(engine):
    own = included(engine.pool, "SE0", "LIN0 x PER0")
    assert same_origins(engine.study, own).tolist() == [-1, -1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("parent", [[], ["SE0"], ["SE0", "LIN0"]])
@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0])
def test_densities_are_those_by_hand(engine, parent, scale):
    """Near the original, further away and where the prior is; two values change places."""
    rng = np.random.default_rng(1)
    origins = np.array([-1, -1, 5, 3, -1, -1, 6, 7])
    source, source_noise = rng.normal(size=8), rng.normal()
    values = source[origins] + scale * rng.normal(size=8)
    log_noise = source_noise + scale * rng.normal()
    parent = included(engine.pool, *parent)
    expected = by_hand.log_copy(
        engine,
        SPREAD,
        {p: o for p, o in enumerate(origins) if o >= 0},
        parent,
        values,
        log_noise,
        source,
        source_noise,
    )
    ours = log_copy(engine.study, SPREAD, origins, parent, values, log_noise, source, source_noise)
    assert ours == pytest.approx(expected, abs=1e-8)


@compiled
def _copies(study, spread, origins, parent, source, source_noise, rng, n):
    out = np.full((n, source.shape[0] + 1), np.nan)
    for i in range(n):
        out[i, -1] = draw_copy(
            study, spread, origins, parent, out[i, :-1], source, source_noise, rng
        )
    return out


def test_draws_have_the_distribution_by_hand(engine):
    """A share that is off by .02, a scale by 10 %, or values that don't share it, would show."""
    study = engine.study
    own, parent = included(engine.pool, "LIN0 x PER0"), included(engine.pool, "SE0")
    source, source_noise = np.linspace(-1, 1, 8), 0.4
    origins = same_origins(study, own)
    rng = np.random.default_rng(0)
    draws = _copies(study, SPREAD, origins, parent, source, source_noise, rng, 100_000)
    assert np.isnan(draws[:, :4]).all()  # values of candidates that aren't in stay

    def cdf(x, base, around, width):
        copies = [stats.norm(around, width * s).cdf(x) for s in SPREAD[1:]]
        return SPREAD.prior * base.cdf(x) + (1 - SPREAD.prior) * np.mean(copies, axis=0)

    for p in places(engine, 2):
        expected = (prior(engine, p), source[p], unit(engine, p))
        assert stats.kstest(draws[:, p], lambda x, e=expected: cdf(x, *e)).pvalue > 1e-3
    expected = (stats.norm(*NOISE[1]), source_noise, 1.0)
    assert stats.kstest(draws[:, -1], lambda x: cdf(x, *expected)).pvalue > 1e-3

    # Jumps of one draw have one scale: their products have the moments of the mixture.
    jumps = np.abs(draws - np.append(source, source_noise))
    near = (jumps[:, [4, -1]] < 3 * SPREAD.fine).mean(axis=0)
    both = (jumps[:, [4, -1]] < 3 * SPREAD.fine).all(axis=1).mean()
    inside = [2 * stats.norm.cdf(3 * SPREAD.fine / s) - 1 for s in SPREAD[1:]]
    low = np.diff(prior(engine, 4).cdf(source[4] + 3 * SPREAD.fine * np.array([-1, 1])))[0]
    least = np.diff(stats.norm(*NOISE[1]).cdf(0.4 + 3 * SPREAD.fine * np.array([-1, 1])))[0]
    expected = SPREAD.prior * low * least
    expected += 0.5 * (1 - SPREAD.prior) * (inside[0] ** 2 + inside[1] ** 2)
    assert abs(both - expected) < 4.5 * np.sqrt(expected / 100_000)
    assert both > near.prod() + 0.05
