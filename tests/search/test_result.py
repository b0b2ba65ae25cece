import math

import numpy as np
import pytest


def test_path(found):
    table = found.path
    assert list(table["best_per_point"]) == list(table["score_per_point"].cummax())
    assert str(found.best) == table["model"][table["score"].idxmax()]
    np.testing.assert_allclose(table["score_per_point"], table["score"] / 40)
    assert 0 <= found.overhead < 1
    assert found.seconds == table["elapsed"].iloc[-1]


def test_selection_averages_over_models_by_score(found):
    rows = found.selection.considered
    scores = np.array([e.score for e in found.evaluations])
    total = np.exp(scores - scores.max()).sum()
    for row in rows:  # one for each mode of a model
        assert row.weight == pytest.approx(math.exp(row.score - scores.max()) / total)
    weights = {str(row.composition): 0.0 for row in rows}
    for row in rows:
        weights[str(row.composition)] += row.weight
    assert min(weights.values()) >= 0.01
    assert sum(row.weight for row in rows) > 0.9
    assert str(found.selection.composition) == f"CONST + {found.best}"
