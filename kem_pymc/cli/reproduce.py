"""``kem reproduce``: reproduce the paper's figures and tables, from the data to the plots."""

import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from kem_pymc._system.executors import Executor
    from kem_pymc.experiments.extrapolations import CompositionTask, ExtrapolationTask
    from kem_pymc.experiments.figures.output import Output
    from kem_pymc.experiments.results import StoredTask
    from kem_pymc.experiments.searches import SearchTask
    from kem_pymc.experiments.sequences import SequenceTask
    from kem_pymc.experiments.settings import Decisions, Searches, Sequences, Settings
    from kem_pymc.experiments.store import Store
    from kem_pymc.experiments.task import Task

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
    known = tomllib.loads(text)
    kinds = ("figures", "searches", "extrapolations", "sequences", "decisions")
    return [*(name for kind in kinds for name in known[kind]), ALL]


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="kem-fig3 to kem-fig9, kem-table2, kem-types, kem-peers, kem-paper, kem-searches, "
            "kem-calibration, kem-parts, kem-ablation, kem-targets, kem-grid, kem-defaults, "
            "kem-choices, kem-all, boms-fig2, evocov-table4 to evocov-table8, lbo-fig2, "
            "lbo-fig3, lbo-fig5, or dgpucb-fig1 to dgpucb-fig4.",
            autocompletion=figure_names,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for the results; an experiment in it is resumed."
        ),
    ],
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Maximum number of trials; by default as in the paper."
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of models (boms) or kernels (evocov, instead of a time) of each search, "
            "or of evaluations of each function (lbo).",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="S", help="CPU time of each search (evocov)."),
    ] = None,
    quick: options.Quick = False,
    settings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="TOML file of studies and methods; by default the package's."
        ),
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of data files; by default KEM_DATA."),
    ] = None,
    cores: options.Tasks = None,
    cluster: options.ClusterAddress = None,
    seed: options.TrialSeed = 0,
) -> None:
    """Reproduce a figure or table of the paper: write its values, a picture, and a page of text.

    Values are written as a tidy CSV file. Trials whose results are already in the folder aren't
    run again, so an interrupted command can be continued. Studies whose data files are missing are
    left out, with a warning.
    """
    from kem_pymc._system.executors import make_executor
    from kem_pymc.experiments import report, runner
    from kem_pymc.experiments import settings as given
    from kem_pymc.experiments.figures.output import Evidence
    from kem_pymc.experiments.store import Store

    known = given.default() if settings is None else given.read(_text(settings))
    scale: dict[str, Any] = {"trials": trials, "quick": quick, "seed": seed, "data_home": data_home}
    if seconds is not None and figure not in known.extrapolations:
        raise InputError(f"{figure} has no limit of time. Leave out --seconds.")
    if figure in known.searches:
        with closing(make_executor(cores, cluster)) as executor:
            scale["budget"] = budget
            search_figure(figure, known.searches[figure], out, executor, scale)
        return
    if figure in known.extrapolations:
        with closing(make_executor(cores, cluster)) as executor:
            scale |= {"kernels": budget, "seconds": seconds}
            extrapolation_table(figure, known, out, executor, scale)
        return
    if figure in known.sequences:
        with closing(make_executor(cores, cluster)) as executor:
            scale["evaluations"] = budget
            del scale["data_home"]
            sequence_figure(figure, known.sequences[figure], out, executor, scale)
        return
    if budget is not None:
        raise InputError(f"{figure} has no budget. Leave out --budget.")
    if figure in known.decisions:
        with closing(make_executor(cores, cluster)) as executor:
            decision_figure(figure, known.decisions[figure], out, executor, scale)
        return
    names = list(known.figures) if figure == ALL else [figure]
    unknown = [name for name in names if name not in known.figures or name not in report.MODULES]
    if unknown:
        others = [*report.MODULES, *known.searches, *known.extrapolations, *known.sequences]
        others += known.decisions
        raise InputError(
            f"There is no figure {unknown[0]!r}. Use one of {', '.join(others)}, {ALL}."
        )
    check(out)
    wanted = {name: runner.tasks_of(known, [known.figures[name]], **scale) for name in names}
    absent = _absent([task for tasks in wanted.values() for task in tasks])
    store = Store(out)
    with closing(make_executor(cores, cluster)) as executor, folders.alone(out):
        for name in names:
            tasks = [task for task in wanted[name] if task.name not in absent]
            if wanted[name] and not tasks:
                continue
            run_all(tasks, store, executor)
            output = report.make(name, Evidence(known, tasks, store))
            left_out = [s for s in known.figures[name].studies if s in absent]
            output.notes += [
                f"Left out: {known.studies[s].title}, without data files." for s in left_out
            ]
            _write_figure(name, output, out, _heading(known, tasks, store, quick))


def search_figure(
    name: str, searches: "Searches", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a figure that compares searches for the kernels of single data sets."""
    from kem_pymc.datasets import single
    from kem_pymc.experiments import searches as trials
    from kem_pymc.experiments.code import code
    from kem_pymc.experiments.figures.searches import make

    check(out)
    present = _present(searches.data, lambda data: single(data, scale["data_home"]))
    tasks = [task for task in trials.tasks_of(searches, **scale) if task.data in present]
    if not tasks:
        return

    def described(task: "SearchTask") -> str:
        return f"{searches.data[task.data]}, trial {task.trial + 1}: {task.method}"

    with folders.alone(out):
        paths = _run_stored("searching", tasks, out, executor, described)
        heading = [
            f"Made by kem_pymc {code()}, seed {scale['seed']}: "
            f"{1 + max(task.trial for task in tasks)} trials, {tasks[0].budget} models each."
        ]
        _write_figure(name, make(searches, paths), out, heading)


def extrapolation_table(
    name: str, settings: "Settings", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a table that compares extrapolations by evolved kernels."""
    from kem_pymc.datasets.series import TSDL, series
    from kem_pymc.experiments import extrapolations as trials
    from kem_pymc.experiments.code import code
    from kem_pymc.experiments.figures.extrapolations import make

    check(out)
    table, home = settings.extrapolations[name], scale["data_home"]
    titles = {data: TSDL.get(data, data) for data in table.names}
    present = _present(titles, lambda data: series(data, home))
    tasks = trials.tasks_of(table, settings.extrapolators, **scale)
    tasks = [task for task in tasks if task.data in present]
    if not tasks:
        return
    first = trials.compositions_of(tasks, table, scale["quick"])

    def composed(task: "CompositionTask") -> str:
        return f"{titles[task.data]}: composition"

    def described(task: "ExtrapolationTask") -> str:
        return f"{titles[task.data]}, trial {task.trial + 1}: {task.method}"

    with folders.alone(out):
        if first:
            found = _run_stored("searching", first, out, executor, composed)
            tasks = trials.with_originals(tasks, found)
        paths = _run_stored("evolving kernels", tasks, out, executor, described)
        heading = [f"Made by kem_pymc {code()}, seed {scale['seed']}. {trials.limits(tasks)}"]
        _write_figure(name, make(name, paths, home), out, heading)


def sequence_figure(
    name: str, sequences: "Sequences", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a figure that compares optimisers on sequences of functions."""
    from kem_pymc.experiments import sequences as trials
    from kem_pymc.experiments.code import code
    from kem_pymc.experiments.figures.sequences import make

    check(out)
    tasks = trials.tasks_of(sequences, **scale)

    def described(task: "SequenceTask") -> str:
        sequence = task.sequence
        return f"{sequence.key} {sequence.setting:g}, trial {task.trial + 1}: {task.title}"

    with folders.alone(out):
        rows = _run_stored("optimising", tasks, out, executor, described)
        heading = [f"Made by kem_pymc {code()}, seed {scale['seed']}."]
        _write_figure(name, make(name, rows), out, heading)


def decision_figure(
    name: str, decisions: "Decisions", out: Path, executor: "Executor", scale: dict[str, Any]
) -> None:
    """Reproduce a figure of decomposed regression or of bandits."""
    import pandas as pd

    from kem_pymc.experiments import decisions as trials
    from kem_pymc.experiments.code import code
    from kem_pymc.experiments.figures.decisions import TITLES, make

    check(out)
    tasks = trials.tasks_of(decisions, **scale)

    def described(task: Any) -> str:
        return f"{TITLES[task.problem]}, trial {task.trial + 1}"

    with folders.alone(out):
        rows = pd.DataFrame()
        if tasks:
            rows = _run_stored("playing", tasks, out, executor, described)
        heading = [f"Made by kem_pymc {code()}, seed {scale['seed']}."]
        _write_figure(name, make(name, rows), out, heading)


def _present(titles: dict[str, str], load: Callable[[str], Any]) -> list[str]:
    """Return the names of the data whose files are there, with a warning for each other one."""
    from kem_pymc.datasets import DataFileNotFoundError

    present = []
    for name, title in titles.items():
        try:
            load(name)
        except DataFileNotFoundError as error:
            screen.warn(f"{title} is left out. {error}")
        else:
            present.append(name)
    return present


def _run_stored[T: "StoredTask"](
    what: str,
    tasks: list[T],
    out: Path,
    executor: "Executor",
    described: Callable[[T], str],
) -> "pd.DataFrame":
    """Run the tasks whose results aren't stored, with progress, and return all results."""
    from kem_pymc.experiments.results import run_tasks

    known = {id(task) for task in tasks if task.place(out).is_file()}
    with progress(f"Compiling, then {what}", len(tasks) - len(known)) as done:

        def callback(task: T) -> None:
            if id(task) not in known:
                done(described(task))

        return run_tasks(tasks, out, executor, callback)


def _write_figure(name: str, output: "Output", out: Path, heading: list[str]) -> None:
    from kem_pymc.experiments import report

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
            f"The folder {out} isn't empty and doesn't contain an experiment. "
            "Choose another with --out."
        )


def _absent(tasks: "list[Task]") -> list[str]:
    """Return the names of the studies whose data files are missing, with a warning for each."""
    from kem_pymc.datasets import DataFileNotFoundError

    absent: list[str] = []
    for task in {(task.name, task.folds): task for task in tasks}.values():
        try:
            task.users()
        except DataFileNotFoundError as error:
            if task.name not in absent:
                screen.warn(f"{task.study.title} is left out. {error}")
                absent.append(task.name)
    return absent


def run_all(tasks: "list[Task]", store: Any, executor: "Executor") -> None:
    """Run the tasks whose results are missing, with a progress bar."""
    from kem_pymc.experiments.runner import run_tasks

    if not tasks:
        return
    known = {id(task) for task in tasks if not store.missing(task)}
    total = len(tasks) - len(known)
    if total:
        screen.say(_ahead(tasks, total))
    with progress("Compiling, then learning", total) as done:

        def callback(task: "Task") -> None:
            if id(task) not in known:
                done(f"{task.study.title}, trial {task.trial + 1}: {', '.join(task.methods)}")

        run_tasks(tasks, store, executor, callback)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with the description of every task that is done.

    A progress bar shows the last task that was done and the time left. Without a terminal, a line
    is printed every half minute, and one at the end.

    Parameters
    ----------
    title : str
        Description before the first task is done.
    total : int
        Number of tasks.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from kem_pymc.runs.progress import Lines, time_left

    columns = (*(TextColumn("{task.description}"), BarColumn()), TimeElapsedColumn())
    quiet = not screen.console.is_terminal
    lines, began, count = Lines(screen.say), monotonic(), 0
    with Progress(*columns, console=screen.console, transient=True, disable=quiet) as bars:
        bar = bars.add_task(title, total=total)

        def done(what: str) -> None:
            nonlocal count
            count += 1
            so_far = time_left(count, total, monotonic() - began)
            bars.update(bar, advance=1, description=f"{so_far}. Done: {what}")
            if quiet and count == total:
                screen.say(f"{so_far}: {what}")
            elif quiet:
                lines.say(f"{so_far}. Done: {what}")

        yield done


def _ahead(tasks: "list[Task]", total: int) -> str:
    """Return a sentence on the number of tasks that are about to be run."""
    kept = f" ({len(tasks) - total} more are already complete)" if total < len(tasks) else ""
    return (
        f"Number of tasks: {total}{kept}. In each task, a group of methods learns and selects. The "
        "first task takes longest, since it compiles; the time that the others take is estimated "
        "after it."
    )


def _heading(settings: "Settings", tasks: "list[Task]", store: "Store", quick: bool) -> list[str]:
    from importlib.metadata import version

    if not tasks:
        return [f"kem_pymc {version('kem-pymc')}."]
    trials: dict[str, int] = {}
    for task in tasks:
        trials[task.name] = max(trials.get(task.name, 0), task.trial + 1)
    counts = ", ".join(f"{settings.studies[name].title} {n}" for name, n in trials.items())
    lines = [
        f"Made by kem_pymc {', '.join(store.codes(tasks))}, seed {tasks[0].seed}.",
        f"Trials: {counts}. Intervals are 95 % intervals over distinct users, "
        "after averaging each user's trials.",
        "Time steps count from 1, as in the paper; in the CSV file from 0.",
    ]
    if any(task.cohort is not None or task.study.judged == "next" for task in tasks):
        lines.append("Trials on real data are random splits of the same users.")
    if any(task.folds for task in tasks):
        lines.append("In each trial, a different part of the pilot users is held out.")
    if quick:
        lines.append("Quick: too few trials, users and draws for conclusions.")
    return [*lines, *chains_of(tasks, store)]


def chains_of(tasks: "list[Task]", store: "Store") -> list[str]:
    """Return a line on the number of trainings whose chains disagree; empty if it is unknown."""
    from kem_pymc.diagnostics.convergence import RHAT

    r_hats = store.r_hats(tasks)
    if not r_hats:
        return []
    apart = sum(r_hat > RHAT for r_hat in r_hats)
    return [
        f"Chains disagree in {apart} of {len(r_hats)} trainings: R-hat of the number of clusters "
        f"or of the log joint density is above {RHAT}."
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
        screen.say("Intervals are in the files; they don't fit on this screen.")


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
