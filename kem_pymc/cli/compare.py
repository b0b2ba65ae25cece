"""``kem compare``: compare KEM with its baselines on the user's own table."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.cli.trials import chains_of, check, run_all, write_page
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.comparison.study import Study

EXAMPLE = (
    "Example: kem compare --data trial.csv --user id --time week --target steps --out compared"
)

#: File that lists the pilot users and the test users of each trial.
ROLES = "users.csv"

#: Explanation of the scores, for pages and screen.
UNITS = (
    "Scores are log predictive densities of the points of the next time step, averaged over "
    "points, in nats per point; higher is better. A gain of 0.1 nats per point means that the "
    "predictive density of a point is 1.1 times as large under KEM as under the other method."
)


def compare(
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help=options.TABLE,
            rich_help_panel="Table",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for the results; a comparison in it is resumed."
        ),
    ],
    user: options.User = None,
    time: options.Time = None,
    target: options.Target = None,
    features: options.Features = None,
    categorical: options.Categorical = None,
    batch: options.Batch = None,
    skip_gaps: options.SkipGaps = False,
    missing: options.Missing = None,
    transform: options.Transform = None,
    candidates: options.Candidates = None,
    base: options.Base = None,
    interactions: options.Interactions = False,
    priors: options.PriorTable = None,
    trials: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random splits into pilot and test users.")
    ] = 10,
    quick: options.Quick = False,
    cores: options.Processes = None,
    cluster: options.ClusterAddress = None,
    seed: options.TrialSeed = 0,
) -> None:
    """Compare KEM with its baselines on your own users, as the paper does on its data sets.

    In each trial, a random half of the users are pilot users. Kernels are selected for the other
    users at every time step, and each selection is scored on the points of the next time step. If
    there are enough trials and users to tell, the output states whether KEM predicts worse than
    another method.
    """
    from kem_pymc._system.executors import make_executor
    from kem_pymc.cli.job import pool_of, scaling_of, table_of
    from kem_pymc.cli.tables import read_cohort
    from kem_pymc.comparison.methods import METHODS
    from kem_pymc.comparison.output import Evidence
    from kem_pymc.comparison.pages import PAGES
    from kem_pymc.comparison.stored import code
    from kem_pymc.comparison.study import Study
    from kem_pymc.comparison.task import FULL, QUICK, tasks_of

    check(out)
    columns: dict[str, Any] = {"user": user, "time": time, "target": target, "batch": batch}
    named: dict[str, Any] = {
        "features": options.listed(features),
        "categorical": options.listed(categorical),
    }
    cohort = read_cohort(
        data, **columns, **named, skip_gaps=skip_gaps, missing=missing, scope="pilot"
    )
    if cohort.n_users < 2 or cohort.max_steps < 2:
        raise InputError(
            f"{data} has {cohort.n_users} users and at most {cohort.max_steps} time steps. "
            "Give at least 2 users and 2 time steps; --batch sets the points per time step."
        )
    scaling = scaling_of(cohort, priors, table_of(priors), transform)
    pool = pool_of(cohort, options.listed(candidates), options.listed(base), interactions)
    study = Study(
        name="table",
        title=data.stem,
        cohort=cohort,
        pool=tuple(pool.names),
        priors=priors or "default",
        transform=transform,
    )
    tasks = tasks_of(study, METHODS, trials, QUICK if quick else FULL, seed)
    pilots, tests = (own.n_users for own in study.deal(0, seed))
    shortened = _shortened(trials)
    screen.info(f"{cohort!r}; in each trial {pilots} pilot users and {tests} test users.")
    screen.modelled(cohort, scaling)
    if quick:
        screen.info(shortened)
    with closing(make_executor(cores, cluster)) as executor, folders.locked(out):
        selections = run_all(tasks, out, executor)
        done = max(task.trial for task in tasks) + 1
        heading = [
            f"kem_pymc {code()}, seed {seed}: {cohort!r}.",
            f"{done} random splits into {pilots} pilot and {tests} test users, listed in {ROLES}. "
            "Intervals are 95 % intervals over distinct users, after averaging each user's trials.",
            UNITS,
            *([] if transform is None else [_transformed(transform, cohort.target)]),
            *([shortened] if quick else []),
            *chains_of(selections),
        ]
        for line in heading[1:]:
            screen.info(line)
        _write_roles(study, range(done), seed, out / ROLES)
        evidence = Evidence(tasks, out, {study.name: study})
        for name, make in PAGES.items():
            write_page(name, make(evidence), out, heading)


def _transformed(name: str, target: str) -> str:
    """Return a paragraph on the transform of the target and on the unit of the scores."""
    return (
        f"The modelled quantity is {name} of {target}, with parameters learned from the pilot "
        f"users of each split. Scores are those of {target} in its original unit, so they can be "
        "compared with scores for another transform, or without one."
    )


def _shortened(trials: int) -> str:
    """Return a paragraph on the numbers that `--quick` reduces."""
    from kem_pymc.comparison.task import FULL, QUICK

    draws, usual = QUICK.sampling["cut"], FULL.sampling["cut"]
    return (
        f"Quick: at most {QUICK.trials} random splits instead of {trials}, {QUICK.test_users} test "
        f"users in each, {draws.chains} x {draws.draws} draws instead of "
        f"{usual.chains} x {usual.draws}. These numbers are too small for conclusions."
    )


def _write_roles(study: "Study", trials: Iterable[int], seed: int, file: Path) -> None:
    """Write a CSV file of the role (pilot or test) of each user in each trial."""
    import pandas as pd

    from kem_pymc._system.spreadsheet import escape

    rows = [
        {"trial": trial, "user": user, "role": role}
        for trial in trials
        for role, cohort in study.deal(trial, seed)._asdict().items()
        for user in cohort.users
    ]
    escape(pd.DataFrame(rows)).to_csv(file, index=False)
    screen.info(f"Pilot and test users of each trial: {file}")
