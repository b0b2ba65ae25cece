"""Completion of the command, as shells ask for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KEM = str(Path(sys.executable).with_name("kem"))


def ask(shell, line, program=(KEM,)):
    """Return what completes a line, asked for as a shell does."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "_KEM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run([*program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def completed(line):
    return ask("bash", line).split()


def test_commands():
    assert completed("kem d") == ["diagnose", "doctor"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kem doctor --", {"--engine", "--no-engine", "--json", "--help"}),
        ("kem fit --fe", {"--feedback", "--features"}),
        ("kem fit --feedback ", {"cut", "joint"}),
        ("kem fit --feedback j", {"joint"}),
        ("kem select --criterion ", {"posterior", "bic", "aic", "laplace", "loo"}),
        ("kem compare --qu", {"--quick"}),
        ("kem --show-completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_options_and_values(line, expected):
    assert set(completed(line)) == expected


@pytest.mark.parametrize(
    "line", ["kem fit --data ", "kem fit mod", "kem init ", "kem compare --out o"]
)
def test_files_are_left_to_the_shell(line):
    assert completed(line) == []  # and then "complete -o default" offers files
    assert ask("zsh", line).strip() == "_files"
    assert ask("fish", line).strip() == ""


def test_other_shells_see_help_as_well():
    assert '"doctor":"Check for' in ask("zsh", "kem doc")
    assert ask("fish", "kem doc").startswith("doctor\tCheck for")


def test_a_shell_doesnt_wait():
    program = (
        "import sys\n"
        "from kem_pymc.cli.main import main\n"
        "sys.argv[0] = 'kem'\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'pymc', 'numba', 'numpy', 'pandas', 'xarray', 'scipy', 'matplotlib'}\n"
        "    print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    out = ask("bash", "kem select --criterion b", (sys.executable, "-c", program))
    assert "bic" in out
    assert "heavy: []" in out


def test_bash_itself(tmp_path):
    (tmp_path / "trial.csv").touch()
    script = f"""
        PATH={Path(KEM).parent}:$PATH
        source <(kem --show-completion bash)
        COMP_WORDS=(kem d) COMP_CWORD=1
        _kem_completion kem
        printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p kem
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    *commands, rule = done.stdout.splitlines()
    assert commands == ["diagnose", "doctor"], done.stderr
    assert rule == "complete -o default -F _kem_completion kem"


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/kem.sh"),
        ("zsh", ".zfunc/_kem"),
        ("fish", ".config/fish/completions/kem.fish"),
    ],
)
def test_installed_where_the_shell_looks(shell, file, tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([KEM, "--install-completion", shell], env=environment)
    assert done.returncode == 0
    assert "_KEM_COMPLETE" in (tmp_path / file).read_text()


def test_the_shell_has_to_be_named():
    done = subprocess.run([KEM, "--show-completion"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
