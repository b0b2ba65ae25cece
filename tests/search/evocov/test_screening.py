"""The first search on some of many points."""

import json
import math

import numpy as np
import pytest

from kem_pymc.search.evocov import run
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.run import MANY, POINTS, screening
from kem_pymc.search.evocov.strategies import finalists
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.record import EVALUATIONS, Record
from tests.search.conftest import paths
from tests.search.evocov.conftest import quiet, rhythm

N = MANY + 10
X, Y = rhythm(N)
OPTIONS = {"evaluations": 4}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(run, "KERNELS", 160)


def test_some_of_many_points():
    fitter = Fitter(X[:, None], Y, 1, 3)
    coarse = screening(fitter)
    places = np.searchsorted(X, coarse.x[:, 0])
    assert len(set(places)) == POINTS
    np.testing.assert_array_equal(coarse.y, Y[places])
    assert len(set(np.diff(places))) > 1  # not regular
    assert screening(Fitter(X[:MANY, None], Y[:MANY], 1)) is None


def test_finalists_are_different_kernels():
    texts = ["hp(h0)", "hp(h0)", "dot_prod(euc(x), h0, h1)", "sqrt(hp(h0))"]
    bics = [2.0, 1.0, 3.0, math.inf]
    fitted = [
        Individual(Tree.parse(text), np.array([1.0, 1.0]), 0.0, bic, {})
        for text, bic in zip(texts, bics, strict=True)
    ]
    assert finalists(fitted, 2) == [fitted[1], fitted[2]]


def test_a_search_on_all_points_begins_with_the_best_ones(tmp_path):
    found = quiet(X, Y, budget=160, out=tmp_path, **OPTIONS)
    assert len(found.screened) == 160
    assert len(found.evaluations) == 160
    first = [own.tree for own in finalists(found.screened)]
    assert [own.tree for own in found.evaluations[: len(first)]] == first
    assert found.outcomes.total() == sum(
        own.gradients for own in (*found.screened, *found.evaluations)
    )
    assert found.path["elapsed"].iloc[0] > found.screened[-1].elapsed
    assert 0 < found.overhead < 1
    assert "160 kernels on some of the points" in found._repr_html_()
    # Whatever a search of fewer kernels had written is used.
    lines = (tmp_path / "screening.jsonl").read_text().splitlines()
    assert len(lines) == 160
    (tmp_path / EVALUATIONS).write_text(
        "".join(line + "\n" for line in (tmp_path / EVALUATIONS).read_text().splitlines()[:100])
    )
    again = quiet(X, Y, budget=160, out=tmp_path, **OPTIONS)
    assert paths(again).equals(paths(found))


def test_an_interruption_of_the_first_search_loses_one_generation(tmp_path, monkeypatch):
    add = Record.add

    def interrupt(record, evaluations):
        add(record, evaluations)
        raise KeyboardInterrupt

    whole = quiet(X, Y, budget=8, **OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(Record, "add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            quiet(X, Y, budget=8, out=tmp_path, **OPTIONS)
    lines = (tmp_path / "screening.jsonl").read_text().splitlines()
    assert len(lines) == 141
    assert "hyperparameters" in json.loads(lines[0])["fitted"]
    assert paths(quiet(X, Y, budget=8, out=tmp_path, **OPTIONS)).equals(paths(whole))
