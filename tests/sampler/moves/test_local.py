"""Steps on the kernel of one cluster."""

import math

import numpy as np

from kem_pymc.sampler.moves import local
from tests.sampler.moves.by_hand import ODDS, seated


def test_a_step_changes_the_composition_as_often_as_the_odds_say(engine, monkeypatch):
    """And nothing but the composition decides: the ratio of a change takes that for granted."""
    calls = []
    for name in ("change_composition", "random_walk"):
        monkeypatch.setattr(local, name, lambda *_, name=name: calls.append(name))
    n = 2000
    for own, share in (([], ODDS.edge), (["LIN0", "SE0"], 0.6), (engine.pool.names, ODDS.edge)):
        state = seated(engine, ["abc", "dd", "ddd"], {"a": own, "b": ["LIN0"], "c": [], "d": []})
        calls.clear()
        cluster = state.assignment[0]
        rng = np.random.default_rng(0)
        for _ in range(n):
            local.local_step.py_func(engine.model, state, cluster, False, ODDS, 0.0, rng)
        changes = calls.count("change_composition")
        assert len(calls) == n
        assert abs(changes - n * share) < 4.5 * math.sqrt(n * share * (1 - share))
