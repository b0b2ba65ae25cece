import json

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.runs.folder import Plan, Run

PLAN = Plan(draws=12, tune=8, chains=2, random_seed=1, chunk=4)

HYPERPARAMETERS = {"LIN0": ["LIN0.amplitude", "LIN0.shift"], "SE0": ["SE0.amplitude"]}

MODEL = {"data": "abc", "concentration": 1.0}


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "deep" / "run", PLAN, MODEL, HYPERPARAMETERS)


def test_what_is_written_is_read(run):
    back = Run.open(run.path)
    assert back == run
    np.testing.assert_array_equal(back.counts, [2, 1])
    assert back.length(1) == 0


def test_generators_depend_on_the_seed_alone():
    first, second = PLAN.generators()
    again, _ = PLAN.generators()
    assert first.random() == again.random() != second.random()


def test_one_process_at_a_time(run):
    pytest.importorskip("fcntl")
    with run.locked(), pytest.raises(InputError, match="in use by another process"), run.locked():
        pass
    with run.locked():
        pass


def test_a_change_is_reported(run):
    run.check(MODEL)
    with pytest.raises(InputError, match=r"in concentration \(was 1.0, is 2.0\)"):
        run.check(MODEL | {"concentration": 2.0})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *((text, r"run.json .*\. Restore the file") for text in ("", "{", "[]", "{}")),
        ({"plan": {}}, "its entry plan.draws: "),
        ({"more": 1}, "its entry more: "),
        ({"plan": {**vars(PLAN), "chains": 0}}, "run.json isn't a valid file of a run"),
        ({"plan": {**vars(PLAN), "draws": 1.5}}, "its entry plan.draws: "),
        ({"schema_version": "\ud800"}, "format '.ud800', not 1"),
        ({"schema_version": 2, "model": {"versions": {"kem-pymc": "7.1"}}}, "format 2.*it .7.1"),
    ],
)
def test_files_that_are_damaged_or_of_another_version(run, change, words):
    file = run.path / "run.json"
    if isinstance(change, dict):
        change = json.dumps(json.loads(file.read_text()) | change)
    file.write_text(change)
    with pytest.raises(InputError, match=words):
        Run.open(run.path)
