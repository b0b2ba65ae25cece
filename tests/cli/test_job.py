"""The request to kem fit: its candidates, and the file that it is kept in."""

import json

import numpy as np
import pytest

from kem_pymc.cli.job import Job, check_free, clear_run, find_run, remove_run, run_folder
from kem_pymc.data.cohort import Cohort
from tests.cli.conftest import table
from tests.refusals import refused


def job(**options):
    """Return a job for a table, from the working directory /."""
    usual = {"data": "trial.csv", "out": "r", "directory": "/", "command": "kem fit", "draws": 7}
    return Job(**usual | options)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, "CONST LIN0 PER0 SE0 LIN1 ARD"),
        ({"base": ["SE"]}, "SE0 SE1 ARD"),
        ({"candidates": ["PER1"]}, "PER1"),
        (
            {"interactions": True},
            "CONST LIN0 PER0 SE0 LIN1 LIN0xLIN0 LIN0xPER0 LIN0xSE0 LIN0xLIN1 PER0xPER0 PER0xSE0 "
            "LIN1xPER0 LIN1xSE0 ARD",
        ),
    ],
)
def test_features_with_two_values_have_lin_alone_by_default(options, names):
    frame = table().assign(mood=np.arange(18) % 2)
    columns = {"user": "id", "time": "week", "target": "steps", "features": ["sleep", "mood"]}
    cohort = Cohort.from_frame(frame, **columns)
    found = [name.replace(" ", "") for name in job(**options).pool(cohort).names]
    assert sorted(found) == sorted(names.split())


def test_a_job_is_read_as_it_was_written(tmp_path):
    run, study = tmp_path / "a" / "r.run", tmp_path / "mine.py"
    study.write_text("model = 1")
    own = job(study=study, data=None, feedback="joint", features="sleep, mood")
    assert own.features == ["sleep", "mood"]
    own.save(run)
    assert Job.load(run) == own
    assert (run / "study.py").read_text() == "model = 1"
    refused(lambda: Job.load(tmp_path), "fit.json can't be read")


def test_another_format_is_refused_with_the_version_that_wrote_it(tmp_path):
    for entries, words in (
        ({"schema_version": 3, "kem_pymc": "7.1"}, "kem_pymc that began it (7.1)."),
        ({"schema_version": 1, "columns": {}}, "kem_pymc that began it."),
        ({"schema_version": "\ud800", "kem_pymc": "\ud800"}, r"has format '\ud800', not 2."),
    ):
        (tmp_path / "fit.json").write_text(json.dumps(entries))
        refused(lambda: Job.load(tmp_path), words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"draws": 0}, "entry draws:"),
        ({"tune": -1}, "entry tune:"),
        ({"missing": "guess"}, "entry missing:"),
        ({"feedback": "both"}, "entry feedback:"),
        ({"features": 3}, "entry features:"),
        ({"more": 1}, "entry more:"),
    ],
)
def test_the_entry_at_fault_is_named(tmp_path, change, words):
    data = json.loads(job().model_dump_json())
    (tmp_path / "fit.json").write_text(json.dumps(data | change))
    refused(lambda: Job.load(tmp_path), "fit.json isn't a valid file", words)


def test_a_folder_is_found_free_or_in_the_way(tmp_path):
    """Fails where files that no command wrote are deleted, or another folder is taken for a run."""
    run = run_folder(tmp_path / "r")
    check_free(run, overwrite=False)
    refused(lambda: find_run(tmp_path / "r"), "no unfinished run")
    job().save(run)
    assert find_run(tmp_path / "r") == find_run(run) == run
    refused(lambda: check_free(run, overwrite=False), "contains an unfinished run", "--overwrite")
    check_free(run, overwrite=True)
    (run / "chain-0").mkdir()
    (run / "chain-0" / "draws-000001.npz").touch()
    (run / "notes.txt").touch()
    clear_run(run)
    assert [path.name for path in run.iterdir()] == ["notes.txt"]
    refused(lambda: check_free(run, overwrite=True), "isn't a run of kem fit")
    remove_run(run)
    assert (run / "notes.txt").exists()
    (run / "notes.txt").unlink()
    remove_run(run)
    assert not run.exists()


def test_results_of_the_same_command_may_be_replaced(tmp_path):
    assert not job().may_replace(tmp_path)
    (tmp_path / "settings.json").write_text('{"command": "kem fit"}')
    assert not job().may_replace(tmp_path)  # without evolutions they aren't results
    (tmp_path / "evolutions.json").touch()
    assert job().may_replace(tmp_path)
    assert not job(command="kem fit --draws 3").may_replace(tmp_path)
    assert job(command="kem fit --draws 3 --overwrite").may_replace(tmp_path)


def test_numbers_of_the_sampler_come_from_the_command_line_first(study, trial, tmp_path):
    """Then from the study file, then from the defaults; a file that is gone is named."""
    study.write_text(study.read_text() + "sampler = {'draws': 9, 'tune': 4}\n")
    own = {"study": "study.py", "data": None}  # from the folder in which the run was started
    _, sampler = job(**own, directory=str(tmp_path)).read()
    assert sampler == {"draws": 7, "tune": 4, "chains": 4, "random_seed": 0}
    columns = {"user": "id", "time": "week", "target": "steps", "shared": "none"}
    model, _ = job(**columns, data=trial, candidates=["LIN0"], feedback="joint").read()
    assert model.feedback == "joint"
    gone = job(**own, directory=str(tmp_path / "gone"))
    refused(gone.read, "gone, in which the run was started, doesn't exist")
