from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from kem_pymc.cli.main import app

#: As little sampling as gives a posterior; one process, so that nothing is compiled twice.
SMALL = ("--draws", "8", "--tune", "2", "--chains", "2", "--cores", "1")

#: How a table of this folder is described.
COLUMNS = ("--user", "id", "--time", "week", "--target", "steps")

#: What results of `fitted` were made from, beside that.
FITTED = ("--features", "sleep,mood", "--candidates", "LIN0, SE0, SE1")


def run(*arguments: object) -> Result:
    """Run ``kem`` in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fine(*arguments: object) -> str:
    """Run ``kem``, which must succeed, and return what it printed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(result: Result) -> str:
    """Return the message with which ``kem`` refused the user's input."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    start, _, message = result.stderr.strip().rpartition("Error ")
    assert all(" ..." in line for line in start.splitlines())  # progress, if it was slow
    assert "\n" not in message
    return message


def table(users: int = 3, weeks: int = 3, seed: int = 0) -> pd.DataFrame:
    """Return a table with two points per user and week; steps depend on sleep, not on mood."""
    rng = np.random.default_rng(seed)
    n = users * weeks * 2
    sleep = rng.uniform(4, 9, n)
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(users), weeks * 2),
            "week": np.tile(np.repeat(np.arange(weeks), 2), users),
            "steps": 1000 * np.sin(sleep) + rng.normal(0, 50, n),
            "sleep": sleep,
            "mood": rng.normal(size=n),
        }
    )


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """A table of pilot users."""
    path = tmp_path / "trial.csv"
    table().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of ``kem fit`` on such a table; beside them, what it printed."""
    folder = tmp_path_factory.mktemp("fitted")
    table().to_csv(folder / "trial.csv", index=False)
    data = ("--data", folder / "trial.csv", *COLUMNS, *FITTED)
    text = fine("fit", *data, *SMALL, "--out", folder / "results")
    (folder / "printed.txt").write_text(text, "utf-8")
    return folder / "results"


@pytest.fixture(scope="session")
def evolutions(fitted: Path) -> Path:
    return fitted / "evolutions.json"


STUDY = """
import kem_pymc as kem
cohort = kem.datasets.synthetic(users=3, time_steps=2, seed=0)
model = kem.EvolutionModel(cohort, kem.CandidatePool(["LIN0"]), kem.priors.synthetic())
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.py"
    path.write_text(STUDY)
    return path
