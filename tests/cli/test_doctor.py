"""``kem doctor`` reports each of the usual problems, and never fails itself."""

from importlib import metadata

import pytest

from kem_pymc._system.jit import cache
from kem_pymc.cli import doctor
from kem_pymc.errors import InputError
from tests.cli.conftest import fine, run


def test_every_check_works_here():
    output = " ".join(fine("doctor").split())
    assert all(f"{title}:" in output for title in doctor.CHECKS)
    assert f"pymc {metadata.version('pymc')}" in output
    assert "No problems found." in output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("It's broken. Mend it."), "Bad: It's broken. Mend it."),
        (ZeroDivisionError("by [zero]"), "Bad: ZeroDivisionError: by [zero]"),
    ],
)
def test_a_check_that_fails_ends_no_others(monkeypatch, error, message):
    def bad():
        raise error

    monkeypatch.setattr(doctor, "CHECKS", {"Bad": bad, "Good": lambda: "[bold]fine[/]"})
    result = run("doctor")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Good: [bold]fine[/]" in result.output
    assert "No problems found." not in result.output


@pytest.mark.parametrize(
    ("needed", "message"),
    [
        ("numpy<2", 'pip install "numpy<2"'),
        ("no-such-distribution>=1", "no-such-distribution"),
        ("no-such-distribution; extra == 'peers'", ""),
    ],
)
def test_versions(monkeypatch, needed, message):
    monkeypatch.setattr(metadata, "requires", lambda *_: [needed, "rich>=1"])
    monkeypatch.setattr(doctor, "CHECKS", {"Versions": doctor.versions})
    result = run("doctor")
    assert result.exit_code == int(bool(message))
    assert message in result.stderr


def test_a_folder_of_compiled_code_that_cannot_be_written_to(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path / "file" / "cache")
    with pytest.raises(InputError, match="Set KEM_CACHE"):
        doctor.code_cache()


def test_a_wrong_likelihood(monkeypatch):
    monkeypatch.setattr("kem_pymc.gp.objective.Objective.terms", lambda *_: (-1.0, 0.0))
    with pytest.raises(InputError, match="Delete the folder of compiled code"):
        doctor.draws()
