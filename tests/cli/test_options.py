"""Options that commands share: what goes together, and how they are read."""

import pytest

from tests.cli.conftest import refused, run


def test_table_options_go_with_a_table(study):
    assert "--batch can only be used with --data" in refused(run("fit", study, "--batch", 3))
    message = refused(run("fit", study, "--feedback", "joint"))
    assert "--feedback can only be used with --data" in message
    assert "--skip-gaps can only be used with --data" in refused(run("fit", study, "--skip-gaps"))
    assert "either a study file or a table" in refused(run("fit", study, "--data", study))
    assert "either a study file or a table" in refused(run("fit"))


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        (("--tune", 0), "--tune"),
        (("--skip-gaps",), "--skip-gaps"),
        (("--out", "here"), "--out"),
        (("study.py",), "A study file"),
    ],
)
def test_options_that_a_run_has_already(tmp_path, option, shown):
    message = refused(run("fit", *option, "--resume", tmp_path))
    assert f"{shown} can't be used with --resume" in message
