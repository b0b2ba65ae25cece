import ast
from pathlib import Path

import pytest
import typer

import kem_pymc
from kem_pymc.cli.main import app
from kem_pymc.cli.wording import ARGUMENT, CALL, at_command_line
from tests.cli.conftest import COLUMNS, refused, run, table

PACKAGE = Path(kem_pymc.__file__).parent

#: Arguments without an option, of functions that no command calls with what people gave: the
#: command line gives them values of its own, or only study files and programs call them.
PYTHON_ALONE = {
    *("dimension", "enter", "feature", "gaps", "grid", "truth", "level", "max_draws"),
    *("max_edges", "max_nodes", "minimum", "minimum_probability", "pilot"),
    *("probability", "runs", "scope", "steps", "unexplained", "unshared", "judged"),
}


def options() -> set[str]:
    commands = typer.main.get_command(app).commands.values()
    return {name for c in commands for parameter in c.params for name in parameter.opts}


def text_of(node: ast.AST) -> str:
    """Return a text in which whatever is filled in is 1."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "1"


def refusals() -> list[str]:
    """Return the texts of all InputErrors that name an argument of Python."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError":
                found += [text_of(argument) for argument in node.args]
    return [text for text in found if ARGUMENT.search(CALL.sub("", text))]


def left(message: str) -> set[str]:
    """Return the arguments that a message names at the command line, code apart."""
    reworded = CALL.sub("", at_command_line(message, options()))
    return {found["name"] for found in ARGUMENT.finditer(reworded)}


def test_no_other_arguments_are_left():
    assert any("gaps='skip'" in text for text in refusals())
    assert set().union(*map(left, refusals())) == PYTHON_ALONE


@pytest.mark.parametrize("message", refusals())
def test_no_message_names_an_argument_where_there_is_an_option(message):
    assert left(message) <= PYTHON_ALONE


@pytest.mark.parametrize(
    ("message", "reworded"),
    [
        ("Allow gaps with gaps='skip' (--skip-gaps).", "Allow gaps with --skip-gaps."),
        ("Leave it out (features=, --features), or", "Leave it out (--features), or"),
        ("New users (scope='new', `kem select`) may", "New users (`kem select`) may"),
        ("likelihood='x' or runs=-1.", "--likelihood x or runs=-1."),
        ("batch=-1 is none.", "--batch -1 is none."),
        ("Sample f(cohort, shared=None).", "Sample f(cohort, shared=None)."),
        ("unshared= or shared=None", "unshared= or --shared none"),
    ],
)
def test_arguments_become_options(message, reworded):
    assert at_command_line(message, {"--features", "--batch", "--likelihood"}) == reworded


def test_commands_say_options_and_study_files_arguments(tmp_path):
    path, study = tmp_path / "trial.csv", tmp_path / "study.py"
    table().query("week != 1 or id != 0").to_csv(path, index=False)
    message = refused(run("fit", "--data", path, *COLUMNS, "--out", tmp_path / "out"))
    assert message.endswith("allow gaps with --skip-gaps.")
    study.write_text(
        "import pandas as pd, kem_pymc as kem\n"
        f"table = pd.read_csv({str(path)!r})\n"
        "kem.Cohort.from_frame(table, user='id', time='week', target='steps')\n"
    )
    assert "gaps='skip'" in refused(run("fit", study, "--out", tmp_path / "out"))
