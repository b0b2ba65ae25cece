import math

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.prose import named
from kem_pymc.plots import components
from kem_pymc.search.result import SearchResult
from tests.search.conftest import evaluated


def test_path(found):
    table = found.path
    assert list(table["best_per_point"]) == list(table["score_per_point"].cummax())
    assert str(found.best) == table["model"][table["score"].idxmax()]
    np.testing.assert_allclose(table["score_per_point"], table["score"] / 40)
    assert 0 <= found.overhead < 1
    assert found.seconds == table["elapsed"].iloc[-1]


def test_of_several_constants_the_best_is_what_models_are_compared_with():
    """Searches that share a budget evaluate one each, with scores that differ a little."""
    two = evaluated("WHITE", 1.0), evaluated("WHITE", 1.5)
    result = SearchResult(two, "cks", Scaling.identity(1), 0, None)
    assert result.verdict == "Nothing found: a constant plus noise is the most probable model."


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


def test_the_picture_of_components_has_the_weight_of_the_model_that_it_names(found):
    """Of all models that were evaluated and all optima: less than half of it is that of the best.

    A weight among the rows that predictions average over, or of one optimum, would differ.
    """
    title, weight = components(found.selection)[0].get_title().split("\nweight ")
    modes = {e.model: [mode.score for mode in e.modes] for e in found.evaluations}
    scores = {model: np.exp(parts).sum() for model, parts in modes.items()}
    expected = scores[str(found.best)] / sum(scores.values())
    assert expected < 0.95
    assert weight == f"{100 * expected:.0f} %"
    assert title.replace("\xa0", " ") == f"{named(found.selection.composition, ['x'])}, 40 points"
