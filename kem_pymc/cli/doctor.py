"""``kem doctor``: check the installation and the machine, and report problems."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kem_pymc.cli import screen

if TYPE_CHECKING:
    from kem_pymc.cli.checkup.finding import Check, Finding

EXAMPLE = "Example: kem doctor --no-engine"


def doctor(
    engine: Annotated[
        bool,
        typer.Option(
            "--engine/--no-engine",
            help="Compute a likelihood and compare it with the formula; the first time takes a "
            "minute or more.",
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all findings as JSON, for bug reports.")
    ] = False,
) -> None:
    """Check for common problems: versions, threads, caches, data, and whether the engine works.

    The exit code is 1 if a problem keeps kem_pymc from working, otherwise 0.
    """
    findings = []
    for finding in _findings(engine):
        findings.append(finding)
        if not as_json:
            _show(finding)
    problems = [problem for finding in findings for problem in finding.problems]
    failed = any(problem.fails for problem in problems)
    if as_json:
        result = {"fine": not failed, "findings": [asdict(finding) for finding in findings]}
        typer.echo(json.dumps(result, indent=2))
    elif problems:
        screen.info(f"\n{len(problems)} problem{'s' * (len(problems) > 1)} found, marked with !.")
    else:
        screen.info("\nNo problems found.")
    raise typer.Exit(int(failed))


def checks(engine: bool) -> "dict[str, Check]":
    """Return the checks by title, the slow ones last."""
    from kem_pymc.cli.checkup import engine as computing
    from kem_pymc.cli.checkup import files, hardware, software

    found: dict[str, Check] = {
        "Versions": software.versions,
        "Installation": software.installation,
        "Machine": hardware.cores,
        "Terminal": hardware.terminal,
        "Disk": hardware.disk,
        "Numba": software.numba,
        "Threads of linear algebra": hardware.threads,
        "Compiled code": files.code_cache,
        "Data": files.data,
        "PyTensor": software.pytensor,
    }
    return found | ({"Engine": computing.engine} if engine else {})


def _findings(engine: bool) -> "Iterator[Finding]":
    from kem_pymc.cli.checkup.finding import examined

    for title, check in checks(engine).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the checks report these problems themselves
            yield examined(title, check)


def _show(finding: "Finding") -> None:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    for name, value in finding.facts.items():
        made.add_row(Text(f"  {name}"), Text(value))
    screen.heading(finding.title)
    screen.console.print(made)
    for problem in finding.problems:
        colour = "red" if problem.fails else "yellow"
        line = Text.assemble(("! ", f"bold {colour}"), f"{problem.what} {problem.remedy}")
        screen.console.print(line)
