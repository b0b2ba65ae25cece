"""A wheel has all that it needs: the README's Python runs without the repository beside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kem_pymc._system.jit.cache import cache_folder
from tests.newcomer import environment

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.newcomer


def test_the_readmes_python_runs_from_a_wheel(tmp_path):
    """The wheel is built from the sdist. Fails where a file or a dependency is in neither."""
    elsewhere, place = tmp_path / "elsewhere", tmp_path / "environment"
    elsewhere.mkdir()
    env = os.environ | {"UV_NO_PROGRESS": "1"}

    def run(*command, folder=elsewhere, env=env):
        return subprocess.run(
            list(map(str, command)), cwd=folder, env=env, check=True, capture_output=True, text=True
        ).stdout

    run("uv", "build", "--quiet", "--out-dir", tmp_path / "built", folder=ROOT)
    (sdist,) = (tmp_path / "built").glob("*.tar.gz")
    (wheel,) = (tmp_path / "built").glob("*.whl")
    assert sdist.name.removesuffix(".tar.gz") == "-".join(wheel.name.split("-")[:2])
    run("uv", "venv", "--quiet", "--python", sys.executable, place)
    run("uv", "pip", "install", "--quiet", "--python", place, wheel)

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL))
    program, shortened = re.subn(r"\b(draws|tune)=200\b", r"\1=20", program)
    assert shortened == 4
    (elsewhere / "readme.py").write_text(program, encoding="utf-8")
    compiled = {"KEM_CACHE": str(cache_folder())}  # if tests of the same code ran before
    alone = environment(tmp_path / "home", place / "bin") | compiled | {"MPLBACKEND": "agg"}
    printed = run(place / "bin" / "python", "readme.py", env=alone)
    assert re.search(r"^\w+ -> \w+\n\[", printed, re.MULTILINE), printed
    run(place / "bin" / "kem", "init", "study.py", env=alone)
    assert "kem.Cohort.from_frame" in (elsewhere / "study.py").read_text(encoding="utf-8")
