"""A newcomer: a fresh clone, a fresh home, the README's first commands, notebook 3.

    python tests/newcomer.py            # 10 minutes or more: everything is downloaded and compiled
    python tests/newcomer.py --tests    # and the test suite, as the README says

It has no data files. Commands are read off README.md, and the code off the notebook, so that
neither can say what doesn't work. The notebook's code as a plain script, in a folder of its own,
must print what the executed notebook prints.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]

#: Whose values a newcomer hasn't got; registries and proxies stay as they are.
OURS = (
    "KEM_",
    "PYTENSOR",
    "VIRTUAL_ENV",
    "UV_PROJECT",
    "UV_CACHE",
    "XDG_",
    "PYTHON",
    "MPL",
    "JUPYTER",
)

NOTEBOOKS = "notebooks/run.py"


def first_commands(readme: str) -> list[str]:
    """Return the commands of the README's first block."""
    return _commands(re.findall(r"```console\n(.*?)```", readme, flags=re.DOTALL)[0])


def notebooks_command(readme: str) -> str:
    """Return the README's command that executes the notebooks."""
    blocks = re.findall(r"```console\n(.*?)```", readme, flags=re.DOTALL)
    (command,) = (c for block in blocks for c in _commands(block) if NOTEBOOKS in c)
    return command


def _commands(block: str) -> list[str]:
    lines = (line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ "))
    return [line.split("  #")[0].strip() for line in lines]


def environment(home: Path, python: Path) -> dict[str, str]:
    """Return the environment of somebody who has nothing but a Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    for name, place in (
        ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
        ("UV_CONFIG_FILE", ".config/uv/uv.toml"),
    ):
        if (file := Path.home() / place).exists():
            kept.setdefault(name, str(file))
    return kept | {"HOME": str(home), "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}


def follow(folder: Path, tests: bool = False) -> None:
    """Do what the README and notebook 3 say, in an empty folder.

    Raises
    ------
    CalledProcessError
        If a command fails.
    SystemExit
        If script and notebook don't print the same.
    """
    clone, home, elsewhere = (folder / name for name in ("clone", "home", "elsewhere"))
    subprocess.run(["git", "clone", "--quiet", str(REPOSITORY), str(clone)], check=True)
    home.mkdir()
    elsewhere.mkdir()
    venv.create(folder / "python", with_pip=True)
    env = environment(home, folder / "python" / "bin")
    readme = (clone / "README.md").read_text(encoding="utf-8")
    for command in first_commands(readme):
        if tests or "pytest" not in command:
            _run(command, clone, env)
    _run(notebooks_command(readme), clone, env)
    out = _run(f"uv run python {NOTEBOOKS} 3 --small", clone, env)
    shown = out.partition(" s\n")[2].strip()
    code = _run(f"uv run python {NOTEBOOKS} 3 --small --code", clone, env)
    (elsewhere / "notebook_3.py").write_text(code, encoding="utf-8")
    script = f"uv run --project {clone} python notebook_3.py"
    printed = _run(script, elsewhere, env | {"MPLBACKEND": "agg"}).strip()
    if not shown or not printed.endswith(shown):
        raise SystemExit(f"The notebook printed\n{shown}\nand the script\n{printed}")
    sys.stdout.write(f"The notebook and its code as a script printed the same:\n{shown}\n")


def _run(command: str, folder: Path, env: Mapping[str, str]) -> str:
    sys.stdout.write(f"$ {command}\n")
    sys.stdout.flush()
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=dict(env),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def main() -> None:
    """Follow the README in a temporary folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tests", action="store_true", help="run the test suite as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        follow(Path(folder), asked.tests)


if __name__ == "__main__":
    main()
