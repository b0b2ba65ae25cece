"""The command: it reproduces figures and tables of the papers, from the data to the plots."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.stored import (
    decision_figure,
    extrapolation_table,
    search_figure,
    sequence_figure,
)
from kem_pymc.cli import folders, options, screen
from kem_pymc.cli.trials import chains_of, check, run_all, write_figure
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from experiments.settings import Settings
    from kem_pymc.comparison.store import Store
    from kem_pymc.comparison.task import Task

EXAMPLE = "Example: uv run python -m experiments kem-fig4 --quick --out quick"

#: Argument that stands for all figures of the Kernel Evolution Model.
ALL = "kem-all"


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="kem-fig3 to kem-fig9, kem-table2, kem-types, kem-peers, kem-paper, kem-searches, "
            "kem-calibration, kem-parts, kem-ablation, kem-targets, kem-grid, kem-defaults, "
            "kem-choices, kem-all, boms-fig2, evocov-table4 to evocov-table8, lbo-fig2, "
            "lbo-fig3, lbo-fig5, or dgpucb-fig1 to dgpucb-fig4.",
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
            "--trials",
            "--repeats",
            min=1,
            metavar="N",
            help="Maximum number of trials; by default that of the settings.",
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
            metavar="FILE",
            help="TOML file of settings, such as studies and methods, in place of the package's.",
        ),
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of data files; by default KEM_DATA."),
    ] = None,
    cores: options.Processes = None,
    cluster: options.ClusterAddress = None,
    seed: options.TrialSeed = 0,
) -> None:
    """Reproduce a figure or table of the paper: write its values, a picture, and a page of text.

    Values are written as a tidy CSV file. Trials whose results are already in the folder aren't
    run again, so an interrupted command can be continued. Data whose files are missing are left
    out, with a warning.
    """
    from experiments import settings as given
    from experiments.kem import figures
    from kem_pymc._system.executors import make_executor
    from kem_pymc.comparison import runner
    from kem_pymc.comparison.output import Evidence
    from kem_pymc.comparison.store import Store

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
    unknown = [name for name in names if name not in known.figures or name not in figures.MODULES]
    if unknown:
        others = [*figures.MODULES, *known.searches, *known.extrapolations, *known.sequences]
        others += known.decisions
        raise InputError(
            f"There is no figure {unknown[0]!r}. Use one of {', '.join(others)}, {ALL}."
        )
    check(out)
    wanted = {name: runner.tasks_of(known, [known.figures[name]], **scale) for name in names}
    everything = [task for tasks in wanted.values() for task in tasks]
    absent = _absent(everything)
    if everything and all(task.name in absent for task in everything):
        raise InputError(f"All studies of {figure} need data files that are missing.")
    store = Store(out)
    with closing(make_executor(cores, cluster)) as executor, folders.locked(out):
        for name in names:
            tasks = [task for task in wanted[name] if task.name not in absent]
            if wanted[name] and not tasks:
                continue
            run_all(tasks, store, executor)
            output = figures.make(name, Evidence(known, tasks, store))
            left_out = [s for s in known.figures[name].studies if s in absent]
            output.notes += [
                f"Left out: {known.studies[s].title}, without data files." for s in left_out
            ]
            write_figure(name, output, out, _heading(known, tasks, store, quick))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"The settings {path} can't be read. Give a TOML file.") from error


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
