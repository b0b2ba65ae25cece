"""``kem compare``: compare KEM with its baselines on the user's own table."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from kem_pymc._system.display import plural
from kem_pymc.cli import folders, options, screen
from kem_pymc.cli.trials import RUNS, chains_of, run_all, write_page
from kem_pymc.errors import InputError

EXAMPLE = (
    "Example: kem compare --data trial.csv --user id --time week --target steps --out compared"
)

#: Explanation of the scores, for pages and screen.
UNITS = (
    "Scores are log predictive densities, log probabilities of counts and classes, of the points "
    "of the next time step, averaged over points, in nats per point; higher is better. They are "
    "those of the target itself, also where --transform transforms it. A gain of 0.1 nats per "
    "point means that the predictive density of a point is 1.1 times as large under KEM as under "
    "the other method. Intervals are 95 % intervals over distinct users, after averaging each "
    "user's trials."
)


def compare(
    ctx: typer.Context,
    data: Annotated[
        Path,
        typer.Option(metavar="FILE", help=options.TABLE, rich_help_panel="Table"),
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
    drop_short: options.DropShort = False,
    date_format: options.DateFormat = None,
    transform: options.Transform = None,
    family: options.Family = None,
    noise: options.Noise = None,
    size: options.Size = None,
    candidates: options.Candidates = None,
    base: options.Base = None,
    interactions: options.Interactions = False,
    trials: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random splits into pilot and test users.")
    ] = 10,
    quick: options.Quick = False,
    cores: options.Cores = None,
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
    from kem_pymc.cli.job import Job
    from kem_pymc.comparison.methods import METHODS
    from kem_pymc.comparison.output import Evidence
    from kem_pymc.comparison.pages import PAGES
    from kem_pymc.comparison.stored import code
    from kem_pymc.comparison.study import Study
    from kem_pymc.comparison.task import FULL, QUICK, tasks_of

    folders.check(out, True, RUNS)
    job = Job.from_options(ctx.params)
    cohort = job.cohort()
    if cohort.n_users < 2 or cohort.max_steps < 2:
        raise InputError(
            f"{data} has {plural(cohort.n_users, 'user')} and at most "
            f"{plural(cohort.max_steps, 'time step')}. "
            "Give at least 2 users and 2 time steps; --batch sets the points per time step."
        )
    screen.modelled(cohort, job.scaling(cohort))
    study = Study(
        name="table",
        title=data.stem,
        cohort=cohort,
        pool=tuple(job.pool(cohort).names),
        transform=job.transform,
    )
    tasks = tasks_of(study, METHODS, trials, QUICK if quick else FULL, seed)
    pilots, tests = (users.n_users for users in study.deal(0, seed))
    heading = [
        f"kem_pymc {code()}, seed {seed}: {cohort!r}.",
        f"{plural(1 + max(task.trial for task in tasks), 'random split')} into "
        f"{plural(pilots, 'pilot user')} and {plural(tests, 'test user')}.",
        *(["Quick: too few splits, users and draws for conclusions."] if quick else []),
        UNITS,
    ]
    for line in heading:
        screen.info(line)
    with closing(make_executor(cores, cluster)) as executor, folders.locked(out):
        heading += chains_of(run_all(tasks, out, executor))
        evidence = Evidence(tasks, out, {study.name: study})
        for name, make in PAGES.items():
            if (page := make(evidence)) is not None:
                write_page(name, page, out, heading)
