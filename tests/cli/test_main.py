import ast
import errno
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import kem_pymc
from kem_pymc.cli import init
from kem_pymc.cli import main as cli
from kem_pymc.errors import InputError
from tests.cli.conftest import COLUMNS, refused, table

#: What Ctrl-C becomes if compiled code is running.
IN_COMPILED_CODE = SystemError("returned a result with an exception set")
IN_COMPILED_CODE.__cause__ = KeyboardInterrupt()


def commands():
    """Return all commands by their names, with those of groups as in "trial add"."""
    found = {}
    for name, command in typer.main.get_command(cli.app).commands.items():
        within = getattr(command, "commands", {})
        found |= {name: command} | {f"{name} {other}": one for other, one in within.items()}
    return found


COMMANDS = commands()


def run(*arguments):
    return CliRunner().invoke(cli.app, arguments)


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.output == f"kem_pymc {version('kem-pymc')}\n"


@pytest.mark.parametrize("command", [(), *(tuple(c.split()) for c in COMMANDS)])
def test_help_has_an_example(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: kem {' '.join(command)}" in result.output


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "trial"])
def test_the_example_can_be_read(name):
    """Options, arguments and values of the example are the command's."""
    _, _, example = COMMANDS[name].epilog.partition("Example: ")
    assert example.startswith(f"kem {name}")
    words = shlex.split(example.removeprefix(f"kem {name}"))
    with COMMANDS[name].make_context(name, words) as context:
        assert context.args == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_breaks_no_choice_in_the_middle_of_a_word(name):
    """Typer breaks a row of choices where its column ends."""
    text = CliRunner(env={"COLUMNS": "80"}).invoke(cli.app, [*name.split(), "--help"]).output
    assert max(map(len, text.splitlines())) <= 80
    assert not re.findall(r"[<[][\w-]+\|[\w|-]*\w\s", text)


@pytest.mark.parametrize("arguments", [("fit", "--drawz", "3"), ("sample",), ("select",)])
def test_wrong_usage(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("options", "error", "code", "shown"),
    [
        (
            (),
            ZeroDivisionError("a fault of ours."),
            1,
            "ZeroDivisionError: a fault of ours. To see the traceback, run: kem --debug",
        ),
        (("--debug",), ZeroDivisionError("x"), 1, "Report it with the traceback above."),
        (
            (),
            OSError(errno.ENOSPC, "No space left"),
            1,
            "be written: [Errno 28] No space left. Make",
        ),
        ((), KeyboardInterrupt(), 130, "Interrupted before the command was complete."),
        ((), IN_COMPILED_CODE, 130, "Interrupted before the command was complete."),
        (("--debug",), InputError("[bold] data."), 2, "Error [bold] data."),
    ],
)
def test_errors_and_interruptions(monkeypatch, options, error, code, shown):
    def fail(*_):
        raise error

    monkeypatch.setattr(init, "files", fail)
    result = run(*options, "init", "study.py")
    assert result.exit_code == code
    assert shown in result.stderr
    assert ("Traceback" in result.stderr) == bool(options)


def test_folder_that_is_gone(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "doesn't exist any more" in refused(run("effects"))
    monkeypatch.chdir(tmp_path)


def test_terminal_without_unicode(tmp_path):
    program = "from kem_pymc.cli.main import main; main()"
    command = [sys.executable, "-c", program, "init", str(tmp_path / "→.txt")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "?.txt isn't the name" in done.stderr


@pytest.mark.parametrize(
    ("command", "argument", "option"),
    [
        ("fit", {"missing": "drop"}, "--missing drop"),
        ("fit", {"gaps": "skip"}, "--skip-gaps"),
        ("fit", {"shared": None}, "--shared none"),
        ("fit", {"overwrite": True}, "--overwrite"),
        ("fit", {"features": ...}, "--features"),
        ("fit", {"scope": "population"}, "kem effects"),
        ("fit", {"priors": ...}, "a study file"),
        ("search", {"gaps": "skip"}, "gaps='skip'"),  # no such option
        ("search", {"table": ...}, "table="),  # an argument
    ],
)
def test_errors_name_options(command, argument, option):
    error = InputError(f"{{odd}} data. Use {{{next(iter(argument))}}}.", **argument)
    assert error.worded(COMMANDS[command].as_option) == f"{{odd}} data. Use {option}."


def test_commands_name_options_and_study_files_arguments(tmp_path):
    path, study = tmp_path / "trial.csv", tmp_path / "study.py"
    table().query("week != 1 or id != 0").to_csv(path, index=False)
    message = refused(run("fit", "--data", str(path), *COLUMNS, "--out", str(tmp_path / "out")))
    assert "allow gaps with --skip-gaps." in message
    assert message.endswith('(More: "Gaps" in the documentation, under Messages.)')
    study.write_text(
        "import pandas as pd, kem_pymc as kem\n"
        f"table = pd.read_csv({str(path)!r})\n"
        "kem.Cohort.from_frame(table, user='id', time='week', target='steps')\n"
    )
    assert "gaps='skip'" in refused(run("fit", str(study), "--out", str(tmp_path / "out")))


def test_errors_of_the_library_name_no_options():
    """Where commands call the library, an argument that has an option is a placeholder."""
    options = {own.name for command in COMMANDS.values() for own in command.params}
    package = Path(kem_pymc.__file__).parent
    rooms = ("_system", "data", "diagnostics", "evolutions", "search", "selection", "shared")
    for path in (path for room in rooms for path in (package / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError":
                text = "".join(
                    part.value
                    for part in ast.walk(node.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
                text = re.sub(r"[\w.]+\([^()]*\)", "", text)  # whole calls are Python
                assert not re.search(r"--\w", text), (path, text)
                assert not options & set(re.findall(r"\b([a-z_]+)=", text)), (path, text)


def test_a_shell_completes_options_without_waiting_for_imports():
    program = (
        "import sys\n"
        "from kem_pymc.cli.main import main\n"
        "sys.argv[0] = 'kem'\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'pymc', 'pytensor', 'numba', 'numpy', 'pandas', 'matplotlib'}\n"
        "    print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    asked = {"_KEM_COMPLETE": "complete_bash", "COMP_WORDS": "kem fit --fe", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["--features", "--feedback", "heavy: []"], done.stderr


def test_ctrl_c_is_not_lost_in_callbacks():
    """Python ignores exceptions of weak references' callbacks, in which compilers spend time."""
    program = """
import signal, sys, time, typer
from kem_pymc.cli import main

class Callback:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@main.app.command()
def lose():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Callback()
    for _ in range(200):  # a long sleep would end first: Python doesn't wake it
        time.sleep(0.1)

sys.argv = ["kem", "lose"]
main.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "Interrupted before the command was complete." in done.stderr
    assert "ignored" not in done.stderr
