"""The request to kem fit: its candidates, and the file that it is kept in."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from kem_pymc.cli.job import (
    Job,
    check_free,
    clear_run,
    find_run,
    pool_of,
    remove_run,
    run_folder,
    scaling_of,
    table_of,
    with_target,
)
from kem_pymc.data.cohort import Cohort
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.sampler.moves.sweep import CUT, JOINT
from tests.cli.conftest import table
from tests.refusals import refused


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
    asked = {"candidates": None, "base": None, "interactions": False} | options
    found = [name.replace(" ", "") for name in pool_of(cohort, **asked).names]
    assert sorted(found) == sorted(names.split())


def test_by_default_one_feature_with_two_values_has_lin_alone():
    frame = table().assign(mood=np.arange(18) % 2)
    cohort = Cohort.from_frame(frame, user="id", time="week", target="steps", features="mood")
    assert pool_of(cohort, None, None, False).names == ["CONST", "LIN0"]


JOB = Job(
    study=None,
    data="trial.csv",
    columns={
        **{"user": "id", "time": "week", "target": "steps"},
        **{"features": None, "batch": None, "skip_gaps": False},
    },
    model_of={
        **{"candidates": None, "base": None, "interactions": False},
        **{"priors": None, "shared": "none"},
    },
    feedback=None,
    sampler={"draws": 7, "tune": None, "chains": None, "random_seed": None, "cores": None},
    out="r",
    directory="/",
    command="kem fit",
)


def test_a_job_is_read_as_it_was_written(tmp_path):
    (tmp_path / "mine.py").write_text("model = 1")
    job = replace(JOB, study=str(tmp_path / "mine.py"), data=None, feedback="joint")
    job.save(tmp_path / "a" / "r.run")
    assert Job.load(tmp_path / "a" / "r.run") == job
    assert (tmp_path / "a" / "r.run" / "study.py").read_text() == "model = 1"
    refused(lambda: Job.load(tmp_path), "fit.json can't be read")
    written = tmp_path / "a" / "r.run" / "fit.json"
    written.write_text(written.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    refused(lambda: Job.load(tmp_path / "a" / "r.run"), "has format 2, not 1")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampler": JOB.sampler | {"draws": 0}}, "entry sampler.draws:"),
        ({"sampler": JOB.sampler | {"draws": "7"}}, "entry sampler.draws:"),
        ({"columns": JOB.columns | {"missing": "guess"}}, "entry columns.missing:"),
        ({"model_of": JOB.model_of | {"priors": "mine"}}, "entry model_of.priors:"),
        ({"feedback": "both"}, "entry feedback:"),
        ({"more": 1}, "entry more:"),
        ({"out": ""}, "entry out:"),
        ({"study": "study.py"}, "both a study file and a table, or neither"),
        ({"data": None}, "both a study file and a table, or neither"),
        ({"directory": "a\0b"}, "a path contains a null character"),
    ],
)
def test_the_entry_at_fault_is_named(tmp_path, change, words):
    data = {"schema_version": 1, **asdict(JOB)}
    del data["likelihood"]  # files of earlier versions lack it
    (tmp_path / "fit.json").write_text(json.dumps(data))
    assert Job.load(tmp_path) == JOB
    (tmp_path / "fit.json").write_text(json.dumps(data | change))
    refused(lambda: Job.load(tmp_path), "fit.json isn't a valid file", words)


def test_a_folder_is_found_free_or_in_the_way(tmp_path):
    """Fails where files that no command wrote are deleted, or another folder is taken for a run."""
    run = run_folder(tmp_path / "r")
    check_free(run, overwrite=False)
    refused(lambda: find_run(tmp_path / "r"), "no unfinished run")
    JOB.save(run)
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
    assert not JOB.may_replace(tmp_path)
    (tmp_path / "settings.json").write_text('{"command": "kem fit"}')
    assert not JOB.may_replace(tmp_path)  # without evolutions they aren't results
    (tmp_path / "evolutions.json").touch()
    assert JOB.may_replace(tmp_path)
    other = replace(JOB, command="kem fit --draws 3")
    assert not other.may_replace(tmp_path)
    assert replace(other, command="kem fit --overwrite").may_replace(tmp_path)


def test_numbers_of_the_sampler_come_from_the_command_line_first(study, tmp_path):
    """Then from the study file, then from the defaults; a file that is gone is named."""
    study.write_text(study.read_text() + "sampler = {'draws': 9, 'tune': 4}\n")
    job = replace(JOB, study=str(study), data=None, directory=str(tmp_path))
    assert job.build()[1] == {"draws": 7, "tune": 4, "chains": 4, "random_seed": 0}
    gone = replace(job, directory=str(tmp_path / "gone"))
    refused(gone.build, "gone, in which the run was started, doesn't exist")


def test_transforms_go_with_priors_for_scaled_targets(cohort):
    refused(
        lambda: scaling_of(cohort, "synthetic", table_of("synthetic"), "log"),
        "--priors synthetic are for untransformed targets",
    )
    positive = replace(cohort, targets=tuple(np.exp(y) for y in cohort.targets))
    assert scaling_of(positive, None, table_of(None), "log").transform.name == "log"
    assert scaling_of(positive, "unit", table_of("unit"), None) is None


def test_another_likelihood_keeps_the_schedule_of_a_model(cohort, pool, request):
    own, priors = CUT._replace(n_mh=3), request.getfixturevalue("table")
    model = EvolutionModel(cohort, pool, priors, schedule=own)
    found = with_target(model, None, "sequential")
    assert found.likelihood == "sequential"
    assert found.engine.schedule == own
    assert with_target(model, "joint", None).engine.schedule == JOINT
    assert with_target(model, "cut", "cumulative") is model
