"""Values of a candidate that enters: drawn with the density that is said."""

import numpy as np
import pytest
from scipy import stats

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves.births import draw_birth, log_birth
from tests.sampler.moves.by_hand import included, places, prior, seated, unit
from tests.sampler.moves.by_hand import log_birth as log_birth_by_hand

#: Two clusters outside the component have the product; a and e are the component.
LABELS = ["abc", "ad", "ebc"]
OTHERS = {"b": ["LIN0 x PER0"], "c": ["SE0", "LIN0 x PER0"], "d": []}


@pytest.fixture(scope="module")
def engine(cohort, table):
    """Candidates of which a factor may have several relatives."""
    pool = CandidatePool(["LIN0", "SE0", "LIN0 x PER0", "LIN0 x SE0"])
    return Engine(cohort, pool, table, 1.3, 1.0)


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("candidate", ["LIN0", "SE0", "LIN0 x PER0"])
@pytest.mark.parametrize("own", [[], ["LIN0"], ["LIN0", "LIN0 x SE0"], ["LIN0 x PER0"]])
def test_densities_are_those_by_hand(engine, candidate, own, first):
    """A share, a scale or a source that is another, or no mean over sources, would show."""
    own = [name for name in own if name != candidate]
    state = seated(engine, LABELS, {"a": own, "e": own, **OTHERS}, seed=2)
    clusters = state.assignment[[0, 5]]
    changed = np.isin(np.arange(len(state.free)), clusters)
    c = engine.pool.names.index(candidate)
    row = 0 if first else 1
    others = np.unique(state.assignment[[1, 2, 4]])
    sources = [state.theta_unconstrained[s] for s in others if state.included[s, c]]
    rng = np.random.default_rng(4)
    for near in (False, True):
        theta = state.theta_unconstrained[clusters]
        theta = theta + rng.normal(0, 0.7, theta.shape)
        if near and sources:
            theta[row] = sources[-1] + 0.05  # where copies have most of the density
        values = [*sources] if first else [*sources, theta[0]]
        before = included(engine.pool, *own)
        by_hand = log_birth_by_hand(engine, c, before, values, theta[row])
        ours = log_birth(engine.model, state, c, before, changed, 0, theta, row)
        assert ours == pytest.approx(by_hand, abs=1e-8)


@compiled
def _births(model, state, candidate, own, changed, theta, rng, n):
    out = np.empty((n, theta.shape[1]))
    for i in range(n):
        draw_birth(model, state, candidate, own, changed, 0, theta, 1, rng)
        out[i] = theta[1]
    return out


@pytest.mark.parametrize("own", [[], ["LIN0"]], ids=["alone", "with a relative"])
def test_draws_have_the_distribution_by_hand(engine, own):
    """Of a shift: a share off by .02, or a scale by a quarter, would be noticed."""
    state = seated(engine, LABELS, {"a": own, "e": own, **OTHERS}, seed=2)
    clusters = state.assignment[[0, 5]]
    changed = np.isin(np.arange(len(state.free)), clusters)
    theta = state.theta_unconstrained[clusters].copy()
    rng = np.random.default_rng(0)
    own = included(engine.pool, *own)
    p = places(engine, 2)[1]
    draws = _births(engine.model, state, 2, own, changed, theta, rng, 100_000)[:, p]
    sources = [state.theta_unconstrained[s][p] for s in state.assignment[[1, 2]]] + [theta[0, p]]
    one, lin = unit(engine, p), places(engine, 0)[1]

    def cdf(x):
        related = 0.35 if own.any() else 0.0
        copies = [stats.norm(s, k * one).cdf(x) for s in sources for k in (0.1, 0.5)]
        total = 0.35 * np.mean(copies, axis=0)
        if related:
            total = total + related * stats.norm(theta[1, lin], 0.3 * one).cdf(x)
        return total + (0.65 - related) * prior(engine, p).cdf(x)

    assert stats.kstest(draws, cdf).pvalue > 1e-3
