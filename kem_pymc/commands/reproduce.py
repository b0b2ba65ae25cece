"""``kem reproduce``: reproduce the paper's figures and tables, from the data to the plots."""

import tomllib
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kem_pymc.commands import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from kem_pymc.experiments.piece import Piece
    from kem_pymc.experiments.settings import Settings
    from kem_pymc.experiments.store import Store
    from kem_pymc.workers import Workers

EXAMPLE = "Example: kem reproduce kem-fig4 --quick --out kem-out-fig4"

#: Argument that stands for all figures of the Kernel Evolution Model.
ALL = "kem-all"

#: Subfolder that marks a folder as an experiment, which can be continued.
RUNS = "runs"


def figure_names() -> list[str]:
    """Return the names of the figures.

    Only the settings are read, since shell completion waits for the result.
    """
    text = resources.files("kem_pymc.experiments").joinpath("settings.toml").read_text("utf-8")
    return [*tomllib.loads(text)["figures"], ALL]


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="kem-fig3 to kem-fig9, kem-table2, kem-types, kem-peers, kem-paper, "
            "kem-calibration, kem-parts, kem-ablation, kem-targets, kem-grid, kem-defaults, "
            "kem-choices, or kem-all.",
            autocompletion=figure_names,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Where results go; an experiment there goes on."),
    ],
    trials: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most so many; by default as in the paper."),
    ] = None,
    quick: options.Quick = False,
    settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other studies and methods; by default the package's."),
    ] = None,
    data_home: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Data files; by default KEM_DATA.")
    ] = None,
    cores: options.Pieces = None,
    cluster: options.ClusterAddress = None,
    seed: options.TrialSeed = 0,
) -> None:
    """Reproduce a figure or table of the paper: write its values, a picture, and a page of text.

    Values are written as a tidy CSV file. Trials whose results are already in the folder aren't
    run again, so an interrupted command can be continued. Studies whose data files are missing are
    left out, with a warning.
    """
    from kem_pymc.experiments import report, runner
    from kem_pymc.experiments import settings as given
    from kem_pymc.experiments.figures.output import Evidence
    from kem_pymc.experiments.store import Store
    from kem_pymc.workers import workers

    known = given.default() if settings is None else given.read(_text(settings))
    names = list(known.figures) if figure == ALL else [figure]
    unknown = [name for name in names if name not in known.figures or name not in report.MODULES]
    if unknown:
        raise InputError(
            f"There is no figure {unknown[0]!r}. Use one of {', '.join(report.MODULES)}, {ALL}."
        )
    check(out)
    scale: dict[str, Any] = {"trials": trials, "quick": quick, "seed": seed, "data_home": data_home}
    wanted = {name: runner.pieces_of(known, [known.figures[name]], **scale) for name in names}
    absent = _absent([piece for pieces in wanted.values() for piece in pieces])
    store = Store(out)
    with closing(workers(cores, cluster)) as crew, folders.alone(out):
        for name in names:
            pieces = [piece for piece in wanted[name] if piece.name not in absent]
            if wanted[name] and not pieces:
                continue
            run_all(pieces, store, crew)
            output = report.make(name, Evidence(known, pieces, store))
            left_out = [s for s in known.figures[name].studies if s in absent]
            output.notes += [f"Left out: {known.studies[s].title}, without data." for s in left_out]
            heading = _heading(known, pieces, store, quick)
            files = report.write(name, output, out, heading)
            show(output.tables)
            screen.say(f"{name}: {', '.join(str(file) for file in files)}")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"The settings {path} can't be read. Give a TOML file.") from error


def check(out: Path) -> None:
    """Check that an experiment may be written to a folder.

    Raises
    ------
    InputError
        If the path is a file, or a folder with contents that aren't an experiment.
    """
    if out.is_file():
        raise InputError(f"{out} is a file. Choose a folder with --out.")
    known = {folders.LOCK}  # left by a command that was killed early
    strange = out.is_dir() and {path.name for path in out.iterdir()} - known
    if strange and not (out / RUNS).is_dir():
        raise InputError(
            f"The folder {out} holds something else than an experiment. Choose another with --out."
        )


def _absent(pieces: "list[Piece]") -> list[str]:
    """Return the names of the studies whose data files are missing, with a warning for each."""
    from kem_pymc.datasets import DataFileNotFoundError

    absent: list[str] = []
    for piece in {(piece.name, piece.folds): piece for piece in pieces}.values():
        try:
            piece.users()
        except DataFileNotFoundError as error:
            if piece.name not in absent:
                screen.warn(f"{piece.study.title} is left out. {error}")
                absent.append(piece.name)
    return absent


def run_all(pieces: "list[Piece]", store: Any, crew: "Workers") -> None:
    """Run the tasks whose results are missing, with a progress bar.

    The bar shows the last task that was completed and the time left. Without a terminal, a line is
    printed every half minute, and one at the end.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from kem_pymc.evolution.progress import Lines, time_left
    from kem_pymc.experiments.runner import run_pieces

    if not pieces:
        return
    columns = (*(TextColumn("{task.description}"), BarColumn()), TimeElapsedColumn())
    quiet = not screen.console.is_terminal
    known = {id(piece) for piece in pieces if not store.missing(piece)}
    total = len(pieces) - len(known)
    if total:
        screen.say(_ahead(pieces, total))
    lines, began, done = Lines(screen.say), monotonic(), 0
    with Progress(*columns, console=screen.console, transient=True, disable=quiet) as progress:
        bar = progress.add_task("Compiling, then learning", total=total)

        def tell(piece: "Piece") -> None:
            nonlocal done
            if id(piece) in known:
                return
            done += 1
            so_far = time_left(done, total, monotonic() - began)
            what = f"{piece.study.title}, trial {piece.trial + 1}: {', '.join(piece.methods)}"
            progress.update(bar, advance=1, description=f"{so_far}. Done: {what}")
            if quiet and done == total:
                screen.say(f"{so_far}: {what}")
            elif quiet:
                lines.say(f"{so_far}. Done: {what}")

        run_pieces(pieces, store, crew, tell)


def _ahead(pieces: "list[Piece]", total: int) -> str:
    """Return a sentence on the number of tasks that are about to be run."""
    kept = f", {len(pieces) - total} more are there already" if total < len(pieces) else ""
    return (
        f"{total} times a group of methods learns and selects{kept}. The first takes longest, "
        "since it compiles; how long the others take is said when it is done."
    )


def _heading(settings: "Settings", pieces: "list[Piece]", store: "Store", quick: bool) -> list[str]:
    from importlib.metadata import version

    if not pieces:
        return [f"kem_pymc {version('kem-pymc')}."]
    trials: dict[str, int] = {}
    for piece in pieces:
        trials[piece.name] = max(trials.get(piece.name, 0), piece.trial + 1)
    counts = ", ".join(f"{settings.studies[name].title} {n}" for name, n in trials.items())
    lines = [
        f"Made by kem_pymc {', '.join(store.codes(pieces))}, seed {pieces[0].seed}.",
        f"Trials: {counts}. Intervals are 95 % over distinct users, trials averaged within them.",
        "Time steps count from 1, as in the paper; in the CSV file from 0.",
    ]
    if any(piece.cohort is not None or piece.study.judged == "next" for piece in pieces):
        lines.append("Trials on real data deal the same users anew.")
    if any(piece.folds for piece in pieces):
        lines.append("A trial is a part of the pilot users, held out.")
    if quick:
        lines.append("Quick: too little of everything to conclude from.")
    return [*lines, *chains_of(pieces, store)]


def chains_of(pieces: "list[Piece]", store: "Store") -> list[str]:
    """Return a line on the number of trainings whose chains disagree; empty if it is unknown."""
    from kem_pymc.diagnostics.convergence import RHAT

    r_hats = store.r_hats(pieces)
    if not r_hats:
        return []
    apart = sum(r_hat > RHAT for r_hat in r_hats)
    return [
        f"Chains disagree in {apart} of {len(r_hats)} lessons: R-hat of the number of clusters or "
        f"of the log joint density is above {RHAT}."
    ]


def show(tables: "dict[str, pd.DataFrame]") -> None:
    """Print the tables of a figure.

    A table that is too wide for the screen is split by study; parts that are still too wide are
    printed without intervals, in blocks of as many columns as fit.
    """
    shortened = False
    for title, table in tables.items():
        parts = {title: table}
        if table.index.nlevels > 1 and not _fits(table):
            studies = table.groupby(level=0, sort=False)
            parts = {f"{title}: {study}": part.droplevel(0) for study, part in studies}
        for heading, part in parts.items():
            screen.heading(heading)
            short = part
            if not _fits(part):
                short = part.map(lambda cell: str(cell).split(" ± ")[0])
                shortened |= not short.equals(part.map(str))
            for columns in _blocks(short):
                screen.console.print(_printable(columns))
    if shortened:
        screen.say("Intervals are in the files: a wider screen has room for them.")


def _blocks(table: "pd.DataFrame") -> Iterator["pd.DataFrame"]:
    """Yield blocks of as many columns as fit on the screen, at least one."""
    while table.shape[1]:
        widths = range(table.shape[1], 1, -1)
        width = next((w for w in widths if _fits(table.iloc[:, :w])), 1)
        yield table.iloc[:, :width]
        table = table.iloc[:, width:]


def _fits(table: "pd.DataFrame") -> bool:
    return screen.fits(_printable(table))


def _printable(table: "pd.DataFrame") -> "Table":
    flat = table.reset_index() if table.index.names != [None] else table
    names = [" ".join(map(str, c)).strip() if isinstance(c, tuple) else str(c) for c in flat]
    made = screen.table(*names)
    for row in flat.itertuples(index=False):
        made.add_row(*(str(value) for value in row))
    return made
