"""Study files: what they define, and what is refused."""

import sys

import pytest

from kem_pymc.cli.study import load_study
from kem_pymc.errors import InputError
from tests.cli.conftest import STUDY, fine, refused, run


def with_line(study, line):
    study.write_text(STUDY + line)
    return study


def test_model_alone_is_enough(study):
    found = load_study(study)
    assert found.model.cohort.n_users == 3
    assert found.test is None
    assert found.sampler == {}


@pytest.mark.integration
def test_sampler_and_command_line(study, tmp_path):
    with_line(study, 'sampler = {"draws": 7, "tune": 1, "chains": 1}\n')
    text = fine("fit", study, "--draws", 5, "--out", tmp_path / "r")
    assert "Sampling 1 x 1 tuning draws and 1 x 5 posterior draws" in text
    assert (tmp_path / "r" / "study.py").read_text() == study.read_text()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("model = None", "defines no model"),
        ("del model", "defines no model"),
        ("test = 3", "isn't a cohort"),
        ("sampler = 100", "dict"),
        ('sampler = {"samples": 10}', "samples"),
        ("1 / 0", "fails in line 5: ZeroDivisionError"),
        ("kem.datasets.Synthetic()", "fails in line 5: AttributeError"),
        ("model = (", "isn't valid Python in line 5"),
        ('kem.CandidatePool(["COS0"])', "'COS0' is not a base kernel"),
        ('kem.datasets.find_file("no.csv", source="R")', "There is no file"),
    ],
)
def test_what_is_wrong(study, line, complaint, tmp_path):
    message = refused(run("fit", with_line(study, line), "--out", tmp_path / "r"))
    assert complaint in message


def test_missing_and_other_files(tmp_path):
    assert "kem init study.py" in refused(run("fit", tmp_path / "study.py"))
    assert "isn't a Python file" in refused(run("fit", tmp_path / "trial.csv"))


def test_no_test_users(study, evolutions):
    message = refused(run("select", study, "--evolutions", evolutions))
    assert "defines no test users" in message


def test_test_users_of_another_study(study, evolutions):
    with_line(study, "test = cohort\n")
    message = refused(run("select", study, "--evolutions", evolutions))
    assert "The new users' features are x" in message
    message = refused(run("select", study, "--evolutions", evolutions, "--batch", 5))
    assert "can only be used with --data" in message


def test_study_file_is_not_registered_and_imports_what_is_beside_it(study, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (study.parent / "beside_the_study.py").write_text("sampler = {'draws': 7}\n")
    with_line(study, "from beside_the_study import sampler")
    assert load_study(study).sampler == load_study(study).sampler == {"draws": 7}
    assert sys.path.count(str(study.parent)) == 1
    assert "study" not in sys.modules
    del sys.modules["beside_the_study"]


def test_errors_of_the_library_are_passed_on(study):
    with pytest.raises(InputError, match="candidate pool is empty"):
        load_study(with_line(study, "kem.CandidatePool([])"))
