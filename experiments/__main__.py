"""Reproduce a paper's figure: ``uv run python -m experiments kem-fig4 --quick --out quick``."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.cli.trials import RUNS, run_all, write_page
from kem_pymc.errors import InputError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: uv run python -m experiments kem-fig4 --quick --out quick")
def reproduce(
    figure: Annotated[
        str, typer.Argument(metavar="FIGURE", help="Name such as kem-fig4; `list` lists them.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for the results; an experiment in it is resumed."
        ),
    ] = Path("kem-out-experiments"),
    trials: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Largest number of trials, not the settings'."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="S", help="CPU time of each search (evocov)."),
    ] = None,
    quick: options.Quick = False,
    cores: options.Cores = None,
    seed: options.TrialSeed = 0,
) -> None:
    """Reproduce a figure or table of a paper: write its values, a picture, and a page of text.

    Trials whose results are already in the folder aren't run again, so an interrupted command can
    be continued. Data whose files are missing are left out, with a warning.
    """
    try:
        _reproduce(figure, out, trials, seconds, quick, cores, seed)
    except InputError as error:
        screen.error(str(error))
        raise typer.Exit(2) from error


def _reproduce(
    figure: str,
    out: Path,
    trials: int | None,
    seconds: float | None,
    quick: bool,
    cores: int | None,
    seed: int,
) -> None:
    from experiments import papers
    from experiments.results import Options, code
    from kem_pymc._system.executors import make_executor

    figures = papers.names()
    if figure == "list":
        screen.info("\n".join(figures))
        return
    if figure not in figures:
        raise InputError(f"There is no figure {figure!r}. Use one of {', '.join(figures)}.")
    if seconds is not None and not figure.startswith("evocov"):
        raise InputError(f"{figure} has no limit of time. Leave out --seconds.")
    folders.check(out, True, RUNS)
    chosen = Options(out, trials, seconds, quick, seed)
    with closing(make_executor(cores)) as executor, folders.locked(out):
        (out / RUNS).mkdir(exist_ok=True)

        def run(tasks: Sequence[Any]) -> pd.DataFrame:
            return run_all(tasks, out, executor)

        output = figures[figure](figure, chosen, run)
        heading = [f"Made by kem_pymc {code()}, seed {seed}."]
        if quick:
            heading.append("Quick: too few trials, users and draws for conclusions.")
        write_page(figure, output, out, heading)


if __name__ == "__main__":
    app(prog_name="python -m experiments")
