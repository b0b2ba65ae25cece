"""What the README shows works: its Python runs, its commands and their options exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pymc as pm
import pytest
import typer

from kem_pymc.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    lines = (
        line.split("#")[0].strip("$ ")
        for block in blocks("console")
        for line in [*block.splitlines()]
    )
    return [line[line.index("kem ") :] for line in lines if re.search(r"\bkem ", line)]


@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_python_of_the_readme_runs_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = pm.sample

    def few_draws(**options: Any) -> Any:
        few = {"draws": 5, "tune": 5, "chains": 1, "cores": 1, "progressbar": False}
        return sample(**(options | few), random_seed=0)

    monkeypatch.setattr(pm, "sample", few_draws)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    assert len(blocks("python")) >= 2
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "evolutions.json").exists()


@pytest.mark.parametrize("line", commands())
def test_commands_of_the_readme_exist(line: str) -> None:
    _, *words = shlex.split(line)
    command = typer.main.get_command(app)
    if not words[0].startswith("-"):
        command = command.commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
