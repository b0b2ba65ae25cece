"""What each figure or table of the papers runs, and what it makes of the results."""

from collections.abc import Callable

import pandas as pd

from experiments.bandits import decisions, games
from experiments.bandits import figures as bandit_figures
from experiments.data.series import TSDL, series
from experiments.data.single import single
from experiments.evocov import extrapolations
from experiments.evocov import figures as evocov_figures
from experiments.kem import trials
from experiments.kem.figures import FIGURES
from experiments.lifelong import figures as lifelong_figures
from experiments.lifelong import sequences
from experiments.results import Options, Run, present
from experiments.search import figures as search_figures
from experiments.search import searches
from experiments.settings import default
from kem_pymc.cli.screen import warn
from kem_pymc.cli.trials import chains_of
from kem_pymc.comparison.output import Output

type Reproduce = Callable[[str, Options, Run], Output]


def names() -> dict[str, Reproduce]:
    """Return the function that reproduces each figure, by the figure's name."""
    defaults = default()
    kinds: list[tuple[object, Reproduce]] = [
        (FIGURES, kem),
        (defaults.searches, search),
        (defaults.extrapolations, evocov),
        (defaults.sequences, lifelong),
        (defaults.decisions, bandits),
    ]
    return {name: make for figures, make in kinds for name in figures}  # type: ignore[attr-defined]


def kem(name: str, options: Options, run: Run) -> Output:
    """Reproduce a figure of the Kernel Evolution Model."""
    settings = trials.settings()
    tasks = settings.tasks(name, options)
    titles = {task.study.name: task.study.title for task in tasks}
    there = present(titles, lambda study: settings.studies[study].deal(0, options.seed), warn)
    tasks = [task for task in tasks if task.study.name in there]
    selections = run(tasks) if tasks else pd.DataFrame()
    output = FIGURES[name](settings.evidence(tasks, options.out))
    if tasks:
        counts = selections.groupby("study", sort=False)["trial"].nunique()
        texts = ", ".join(f"{titles[str(study)]} {count}" for study, count in counts.items())
        output.notes += [
            f"Trials: {texts}. Intervals are 95 % intervals over distinct users, after averaging "
            "each user's trials. Trials on real data are random splits of the same users. Time "
            "steps count from 1, as in the paper; in the CSV file from 0.",
            *chains_of(selections),
        ]
    absent = [title for study, title in titles.items() if study not in there]
    output.notes += [f"Left out: {title}, without data files." for title in absent]
    return output


def search(name: str, options: Options, run: Run) -> Output:
    """Reproduce a figure that compares searches for the kernels of single data sets."""
    settings = default().searches[name]
    there = present(settings.data, single, warn)
    tasks = [task for task in searches.tasks_of(settings, options) if task.data in there]
    paths = run(tasks)
    return search_figures.make(settings, paths, run(searches.oracles_of(paths, options.seed)))


def evocov(name: str, options: Options, run: Run) -> Output:
    """Reproduce a table that compares extrapolations by evolved kernels."""
    settings = default()
    table = settings.extrapolations[name]
    there = present({data: TSDL.get(data, data) for data in table.names}, series, warn)
    tasks = extrapolations.tasks_of(table, settings.extrapolators, options)
    tasks = [task for task in tasks if task.data in there]
    if first := extrapolations.compositions_of(tasks, table, options.quick):
        tasks = extrapolations.with_originals(tasks, run(first))
    output = evocov_figures.make(name, run(tasks))
    output.notes.append(extrapolations.limits(tasks))
    return output


def lifelong(name: str, options: Options, run: Run) -> Output:
    """Reproduce a figure that compares optimisers on sequences of functions."""
    tasks = sequences.tasks_of(
        default().sequences[name], trials=options.trials, quick=options.quick, seed=options.seed
    )
    return lifelong_figures.make(name, run(tasks))


def bandits(name: str, options: Options, run: Run) -> Output:
    """Reproduce a figure of decomposed regression or of bandits; figure 1 has no trials."""
    tasks = decisions.tasks_of(default().decisions[name], options)
    titles = {task.problem: bandit_figures.TITLES[task.problem] for task in tasks}
    there = present(titles, games.read, warn)
    tasks = [task for task in tasks if task.problem in there]
    return bandit_figures.make(name, run(tasks) if tasks else pd.DataFrame())
