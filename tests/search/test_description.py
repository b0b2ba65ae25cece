from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.search.result import describe, left_out_errors
from kem_pymc.search.run import search
from tests.refusals import refused
from tests.search.conftest import series


def test_components_of_a_known_series():
    """A trend and a rhythm, whose shares of the variance are known; the noise has sd 0.5."""
    x, y = series()
    found = search(x, y, budget=1, initial=["LIN0 + PER0"], progressbar=False)
    table = describe(found.selection, ["year"]).set_index("component")
    assert list(table.index) == ["LIN0", "PER0", "noise"]
    assert "straight line in year" in table.loc["LIN0", "description"]
    assert "rhythm in year (repeating every 1)" in table.loc["PER0", "description"]
    rhythm = np.var(5 * np.sin(2 * np.pi * x)) / np.var(y)
    assert table.loc["PER0", "share"] == pytest.approx(rhythm, abs=0.02)
    assert table.loc["noise", "share"] == pytest.approx(0.25 / np.var(y), abs=0.002)
    assert table["share"].sum() == pytest.approx(1.0)


def test_default_and_wrong_names(found):
    assert " in x" in describe(found.selection)["description"].str.cat()
    refused(lambda: describe(found.selection, ["a", "b"]), "names is 2", "input columns 1")


def test_left_out_errors_are_those_of_refits_without_each_point(found):
    """By predictions from all other points, at the same values."""
    selection = found.selection
    errors = left_out_errors(selection)
    low, high = selection.scaling.feature_low, selection.scaling.feature_high
    for i in (0, 7, len(errors) - 1):
        kept = np.arange(len(errors)) != i
        fewer = replace(selection, x=selection.x[kept], y=selection.y[kept])
        at = low + (high - low) * selection.x[[i]]
        expected = selection.scaling.mean_back(selection.y[i]) - fewer.predict(at, single=True).mean
        assert errors[i] == pytest.approx(float(expected[0]), rel=1e-6)
