"""Steps on the kernel of one cluster."""

import math

import numpy as np

from kem_pymc.sampler.moves import local
from kem_pymc.sampler.moves.composition import Odds
from tests.sampler.moves.by_hand import seated

#: All different, so that a ratio that mixes them up is noticed.
ODDS = Odds(add=0.3, remove=0.2, swap=0.1, edge=0.45)


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
