"""Searches that begin with compositions."""

import numpy as np
import pytest

from kem_pymc.search.evocov import run
from kem_pymc.search.evocov.conversion import trees_of
from kem_pymc.search.evocov.run import COMPOSED
from kem_pymc.search.evocov.strategies import finalists
from kem_pymc.search.record import EVALUATIONS
from kem_pymc.search.run import search
from tests.refusals import refused
from tests.search.conftest import paths
from tests.search.evocov.conftest import quiet, rhythm

X, Y = rhythm()
OPTIONS = {"start": "cks", "evaluations": 10}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(run, "COMPOSITIONS", 6)


def test_begins_with_the_kernels_of_a_compositional_search(tmp_path):
    """They count in the budget, and are those that the method "cks" finds by BIC."""
    found = quiet(X, Y, budget=150, out=tmp_path, **OPTIONS)
    assert len(found.compositions) + len(found.evaluations) == 150
    alone = search(X, Y, "cks", budget=6, criterion="bic", progressbar=False).evaluations[1:]
    assert [(str(e), e.score) for e in found.compositions] == [(str(e), e.score) for e in alone]
    trees = finalists(trees_of(alone, *found.data))
    assert [own.tree for own in found.evaluations[: len(trees)]] == [own.tree for own in trees]
    # The values of the composition are those from which its fit starts.
    for own, tree in zip(found.evaluations, trees, strict=False):
        assert own.bic <= tree.bic + 1e-9
    assert found.path["elapsed"].iloc[0] > found.compositions[-1].elapsed
    assert 0 < found.overhead < 1
    assert "best of 6 compositions" in found._repr_html_()
    # Interrupted in either part, it goes on as if it hadn't been.
    for file, kept in ((EVALUATIONS, 0), (COMPOSED, 4)):
        lines = (tmp_path / file).read_text().splitlines()
        (tmp_path / file).write_text("".join(f"{line}\n" for line in lines[:kept]))
        again = quiet(X, Y, budget=150, out=tmp_path, **OPTIONS)
        assert paths(again).equals(paths(found))
    refused(lambda: quiet(X, Y, budget=150, evaluations=10, out=tmp_path), "different start")


def test_some_of_many_points_are_for_compositions_too(monkeypatch):
    monkeypatch.setattr(run, "KERNELS", 20)
    x, y = rhythm(run.MANY + 10)
    found = quiet(x, y, budget=8, start="cks", evaluations=4)
    sizes = [len(found.compositions), len(found.screened), len(found.evaluations)]
    assert sizes == [6, 20, 2]
    coarse = run.screening(found.evaluator)
    trees = finalists(trees_of(found.compositions, coarse.x, coarse.y))
    assert [own.tree for own in found.screened[: len(trees)]] == [own.tree for own in trees]


def test_compositions_are_of_one_input_and_part_of_the_budget():
    refused(lambda: quiet(X, Y, budget=6, **OPTIONS), "the budget 6", "more than 6")
    both = np.column_stack([X, np.cos(X)])
    refused(lambda: quiet(both, Y, **OPTIONS), "inputs is 2", "start='random'")
    assert len(quiet(X, Y, budget=7, start=None, evaluations=1).compositions) == 6
    assert not quiet(both, Y, budget=7, start=None, evaluations=1).compositions
    refused(lambda: quiet(X, Y, start="boms"), "'boms'", "'random' or 'cks'")
