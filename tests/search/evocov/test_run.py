import numpy as np
import pytest

from kem_pymc.search import search
from kem_pymc.search.record import EVALUATIONS, Record
from tests.refusals import refused
from tests.search.conftest import paths
from tests.search.evocov.conftest import quiet, rhythm

X, Y = rhythm()


def test_search_is_evolve(evolved):
    found = search(X, Y, "evocov", budget=40, seed=0, cores=1, progressbar=False)
    # Other numbers of evaluations, the same first random kernels: there is no room for others.
    assert list(found.path["model"]) == list(evolved.path["model"][:40])


def test_a_search_is_continued_within_a_generation(evolved, tmp_path):
    quiet(X, Y, budget=200, evaluations=20, out=tmp_path)
    lines = (tmp_path / EVALUATIONS).read_text().splitlines()
    assert len(lines) == 200
    again = quiet(X, Y, budget=300, evaluations=20, out=tmp_path)
    assert paths(again).equals(paths(evolved))
    assert (tmp_path / EVALUATIONS).read_text().splitlines()[:200] == lines
    assert again.path["elapsed"].is_monotonic_increasing
    refused(lambda: quiet(X, Y, evaluations=21, out=tmp_path), "different evaluations")
    (tmp_path / EVALUATIONS).write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    refused(lambda: quiet(X, Y, evaluations=20, out=tmp_path), "would evaluate")


def test_generations_are_written_before_the_next_one(tmp_path, monkeypatch):
    """An interruption loses one generation at most."""
    added = []
    add = Record.add

    def interrupt(record, evaluations):
        if added:
            raise KeyboardInterrupt
        added.append(len(evaluations))
        add(record, evaluations)

    monkeypatch.setattr(Record, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        quiet(X, Y, budget=300, evaluations=5, out=tmp_path)
    assert added == [141]
    assert len((tmp_path / EVALUATIONS).read_text().splitlines()) == 141


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X[:9], Y[:9]), ("points is 9", "at least 10")),
        ((np.append(X, X[:2]), np.append(Y, Y[:2])), ("2 of 32 rows", "repeated", "Average")),
    ],
)
def test_data_that_is_refused(data, words):
    refused(lambda: quiet(*data), *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0}, ("budget is 0",)),
        ({"evaluations": 0}, ("evaluations is 0",)),
        ({"budget": 12.5}, ("budget is 12.5", "whole number")),
        ({"seed": -1}, ("seed is -1",)),
        ({"seed": 1.5}, ("seed is 1.5",)),
    ],
)
def test_options_that_are_refused(options, words):
    refused(lambda: quiet(X, Y, **options), *words)


def test_options_of_compositions_are_refused():
    refused(lambda: search(X, Y, "evocov", changes=True, starts=5), "no changes, starts")
