import json

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.runs.folder import Plan, RunFolder

PLAN = Plan(draws=12, tune=8, chains=2, random_seed=1, chunk=4)

HYPERPARAMETERS = {"LIN0": ["LIN0.amplitude", "LIN0.shift"], "SE0": ["SE0.amplitude"]}

MODEL = {"data": "abc", "concentration": 1.0}


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "deep" / "run", PLAN, MODEL, HYPERPARAMETERS)


def test_what_is_written_is_read(run):
    back = RunFolder.open(run.path)
    assert back.plan == PLAN
    assert back.model == MODEL
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


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": 1, "plan": {}}'])
def test_damaged_descriptions(run, text):
    (run.path / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"run.json .* Restore the file"):
        RunFolder.open(run.path)


def test_another_format(run):
    data = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(data | {"schema_version": 2}))
    with pytest.raises(InputError, match="has format 2"):
        RunFolder.open(run.path)
