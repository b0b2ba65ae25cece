"""Every notebook runs, small, in a kernel of its own; a script of notebook 3 gives its result."""

import subprocess
import sys
from pathlib import Path

import pytest

from notebooks.run import NOTEBOOKS, Outcome, code, execute, read, warned
from tests.newcomer import first_commands, follow, notebooks_command

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """What was executed already."""
    return {}


def executed(path: Path, outcomes: dict[str, Outcome]) -> Outcome:
    if path.stem not in outcomes:
        outcomes[path.stem] = execute(path, small=True)
    return outcomes[path.stem]


def pictures(outcome: Outcome) -> int:
    outputs = (o for cell in outcome.notebook.cells for o in cell.get("outputs", []))
    return sum("image/png" in o.get("data", {}) for o in outputs)


def unseen(outcome: Outcome) -> list[str]:
    """Return what cells ended in that shows nothing but its type and address."""
    outputs = (o for cell in outcome.notebook.cells for o in cell.get("outputs", []))
    shown = (o["data"] for o in outputs if "data" in o)
    bare = (data["text/plain"] for data in shown if set(data) == {"text/plain"})
    return [text for text in bare if " at 0x" in text]


def test_there_are_eight():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{number}_" for number in range(1, 9)]


#: Notebooks that sample for a minute even when small, by their numbers.
LONG = ("4", "6", "8")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem[0] in LONG))
        for path in NOTEBOOKS
    ],
)
@pytest.mark.newcomer
def test_notebook_runs(path, outcomes):
    outcome = executed(path, outcomes)
    if outcome.skipped:
        assert "KEM_DATA" in outcome.skipped
        pytest.skip(outcome.skipped)
    assert not outcome.error
    assert outcome.result.strip()
    assert pictures(outcome) >= 2
    assert not unseen(outcome)
    # PyMC tells there what it samples; Python's warnings have a category. Few draws make Pareto k
    # large, of which ArviZ warns, as notebook 4 explains.
    message = [text for text in warned(outcome.notebook) if "Estimated shape parameter" not in text]
    assert not [text for text in message if "Warning: " in text]


def test_notebooks_are_kept_without_outputs():
    for path in NOTEBOOKS:
        assert not any(cell.get("outputs") for cell in read(path).cells)


HEAD = "# ---\n# jupyter:\n#   kem:\n#     small: {n: 0}\n# ---\n"
PARAMETERS = '# %% tags=["parameters"]\nn = 1\n'


def test_code_of_a_notebook_is_a_script_with_the_same_result(tmp_path):
    path = tmp_path / "7_tiny.py"
    cells = '# %% [markdown]\n# Look.\n\n# %%\n# %matplotlib inline\n\n# %%\nprint("n is", n)\n'
    path.write_text(f"{HEAD}\n{PARAMETERS}\n{cells}", encoding="utf-8")
    (tmp_path / "script.py").write_text(code(path, small=True), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == execute(path, small=True).result == "n is 0\n"


def test_failures_say_where_they_are(tmp_path):
    path = tmp_path / "7_broken.py"
    cells = "# %% [markdown]\n# Divide.\n\n# %%\n1 / n\n"
    path.write_text(f"{HEAD}\n{PARAMETERS}\n{cells}", encoding="utf-8")
    assert not execute(path).error
    error = execute(path, small=True).error
    assert error == "7_broken.py, code cell 3: ZeroDivisionError: division by zero"


def test_a_notebook_without_its_data_is_skipped(monkeypatch, tmp_path):
    monkeypatch.setenv("KEM_DATA", str(tmp_path))
    path = tmp_path / "7_without.py"
    cells = "# %%\nfrom models.loaders import energy\n\nenergy()\n"
    path.write_text(f"{HEAD}\n{PARAMETERS}\n{cells}", encoding="utf-8")
    outcome = execute(path)
    assert "energy_efficiency.csv" in outcome.skipped
    assert not outcome.error


def test_the_readme_has_what_a_newcomer_follows():
    assert first_commands(README)[0].startswith("pip install uv && uv run --no-dev kem quickstart")
    assert notebooks_command(README).startswith("uv run python notebooks/run.py")


@pytest.mark.slow
def test_a_newcomer_gets_there(tmp_path):
    follow(tmp_path)
