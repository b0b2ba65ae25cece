import numpy as np
import pytest

from kem_pymc.search.description import describe
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
    refused(lambda: describe(found.selection, ["a", "b"]), "2 names", "1 input columns")
