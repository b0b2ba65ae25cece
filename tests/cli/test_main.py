import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from kem_pymc.cli import init
from kem_pymc.cli import main as cli

COMMANDS = typer.main.get_command(cli.app).commands


def run(*arguments):
    return CliRunner().invoke(cli.app, arguments)


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"kem_pymc {version('kem-pymc')}\n"


@pytest.mark.parametrize("command", [(), *((c,) for c in COMMANDS)])
def test_help_has_an_example(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: kem {' '.join(command)}" in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_can_be_read(name):
    """Options, arguments and values of the example are the command's."""
    _, _, example = COMMANDS[name].epilog.partition("Example: ")
    kem, command, *words = shlex.split(example)
    assert (kem, command) == ("kem", name)
    with COMMANDS[name].make_context(name, words) as context:
        assert context.args == []


def test_help_names_the_commands():
    assert all(command in run().output for command in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_breaks_no_choice_in_the_middle_of_a_word(name):
    """Typer breaks a row of choices where its column ends."""
    command = [sys.executable, "-c", "from kem_pymc.cli.main import main; main()", name, "--help"]
    narrow = {**os.environ, "COLUMNS": "80"}
    text = subprocess.run(command, env=narrow, capture_output=True, encoding="utf-8").stdout
    assert "--help" in text
    assert not re.findall(r"[<[]\w+\|[\w|]*\w\s", text)


@pytest.mark.parametrize("name", ["fit", "compare"])
def test_help_says_what_happens_to_dates_and_by_default(name):
    helps = {parameter.name: parameter.help for parameter in COMMANDS[name].params}
    assert "days since the user's first row" in helps["features"]
    assert "not in dates, and not with --batch" in helps["skip_gaps"]
    assert "ARD is added" in helps["base"]
    assert "only LIN for features with two values" in helps["base"]


def test_help_imports_nothing_heavy():
    program = (
        "import sys\n"
        "import kem_pymc.cli.main\n"
        "heavy = {'pymc', 'pytensor', 'numba', 'numpy', 'pandas', 'xarray', 'matplotlib'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("arguments", [("fit", "--drawz", "3"), ("sample",), ("select",)])
def test_wrong_usage(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_an_option_is_not_taken_for_the_value_of_another():
    result = run("select", "--data", "new.csv", "--future", "--out", "X")
    assert result.exit_code == 2
    assert "Option --future needs a value, but the option --out follows it." in result.stderr


@pytest.fixture
def broken(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a fault of ours.")

    monkeypatch.setattr(init, "files", fail)


@pytest.mark.usefixtures("broken")
def test_fault_of_ours():
    result = run("init", "study.py")
    assert result.exit_code == 1
    assert (
        "ZeroDivisionError: a fault of ours. To see the traceback, run: kem --debug"
        in result.stderr
    )
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("broken")
def test_debug_shows_the_traceback():
    result = run("--debug", "init", "study.py")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "Report it with the traceback above." in result.stderr


def test_debug_of_input_errors():
    result = run("--debug", "init", "study")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr


def test_messages_are_not_read_as_markup(tmp_path):
    result = run("init", str(tmp_path / "[bold]"))
    assert "[bold]" in result.stderr


def test_interruption(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(init, "files", interrupted)
    result = run("init", "study.py")
    assert result.exit_code == 130
    assert "Interrupted before the command was complete." in result.stderr


def test_terminal_without_unicode(tmp_path):
    program = "from kem_pymc.cli.main import main; main()"
    command = [sys.executable, "-c", program, "init", str(tmp_path / "→.txt")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "?.txt isn't the name" in done.stderr
