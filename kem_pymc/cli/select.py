"""``kem select``: select kernels for new users at every time step, from learned evolutions."""

import json
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kem_pymc._system.display import plural
from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.selection.online import Trajectories

EXAMPLE = (
    "Example: kem select --evolutions kem-fit/evolutions.json --data new.csv --user id --time week"
)

#: Maximum number of users named who don't follow what the others share.
NAMED = 10


def select(
    ctx: typer.Context,
    evolutions: Annotated[
        Path, typer.Option(metavar="FILE", help="Evolutions learned by `kem fit`: evolutions.json.")
    ],
    study: options.TestStudy = None,
    data: options.Data = None,
    user: options.User = None,
    time: options.Time = None,
    target: options.TestTarget = None,
    batch: options.Batch = None,
    skip_gaps: options.SkipGaps = False,
    missing: options.Missing = None,
    date_format: options.DateFormat = None,
    noise: options.Noise = None,
    size: options.Size = None,
    fit: Annotated[
        Literal["pilot", "map", "ml"],
        typer.Option(help="Priors of hyperparameters: from pilot users, of the study, or none."),
    ] = "pilot",
    criterion: Annotated[
        Literal["posterior", "bic", "aic", "laplace", "loo"],
        typer.Option(
            metavar="NAME",  # five names in a row would be broken in the middle of a word
            help="Criterion to select kernels by: posterior, bic, aic, laplace or loo.",
        ),
    ] = "posterior",
    average: options.AverageDraws = None,
    cores: options.Cores = None,
    cluster: options.ClusterAddress = None,
    out: options.OutFile = Path("selections.csv"),
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the predictions of each kernel, point by point; with --future or "
            "--horizon by default predictions.csv next to --out.",
        ),
    ] = None,
    future: options.Future = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Predict the next N time steps, also those after a user's last row, whose times "
            "continue with the user's median spacing. By default, the next one in the table.",
        ),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Select a kernel for every new user at every time step.

    The users come from a table (--data, --user, --time) or are the test users of a study file. If
    both are given, the study file provides base kernels and priors, and the users come from the
    table. The table needs the features of the pilot study under the same names; a date among them
    becomes days since the user's first row.

    Predictions (see --predictions) at a time step cover the user's points so far and those of the
    next time step, in order of arrival; at the last time step, also the points in --future, in
    which cells of features other than the time may be empty. With
    --horizon, they cover more time steps, also after a user's last row; this needs a table in which
    time is the only feature that changes within users. `kem report` plots the predictions.
    """
    import pandas as pd

    from kem_pymc._system.executors import make_executor
    from kem_pymc.cli.online import select_online
    from kem_pymc.cli.study import load_study
    from kem_pymc.cli.tables import Table
    from kem_pymc.evolutions.evolutions import DISAGREE, Evolutions
    from kem_pymc.selection.horizon import points_ahead
    from kem_pymc.selection.kem import KEMSelector
    from kem_pymc.selection.new_users import check_users
    from kem_pymc.selection.online import check_names
    from kem_pymc.selection.online import predictions as predicted

    if study is None and data is None:
        raise InputError(
            "No users are given. Give a table with --data, or a study file with test users."
        )
    if future is not None and data is None:
        raise InputError("--future gives points to predict for the users of a table. Add --data.")
    if predictions is None and (future, horizon) != (None, None):
        predictions = out.with_name("predictions.csv")
    if predictions is not None and predictions.resolve() == out.resolve():
        raise InputError(
            f"Selections and predictions would both be written to {out}. Choose another file with "
            "--out or --predictions."
        )
    study_file = None if study is None else load_study(study)  # may add kernels to evolutions'
    learned = Evolutions.load(evolutions)
    known = {"features": list(learned.features), "target": target or learned.target}
    table = Table.from_options(ctx.params | known)
    if data is not None:
        cohort = table.cohort(learned.levels, family=learned.scaling.family)
    else:
        options.only_with_table(ctx)
        if study_file is None or study_file.test is None:
            raise InputError(f"{study} defines no test users. Add test = a kem.Cohort of them.")
        cohort = study_file.test
    check_users(cohort, learned)
    if predictions is not None:
        check_names(cohort)
    disagreement = learned.settings.get(DISAGREE)
    if disagreement:
        from kem_pymc.diagnostics.diagnosis import REMEDY

        screen.warn(
            f"{disagreement} These selections average over all chains nevertheless. {REMEDY}"
        )
    coming = None
    if future is not None:
        coming = table.future(future, learned.levels, learned.distribution)
    elif horizon is not None:
        coming = points_ahead(cohort, horizon, batch)
    priors = None if study_file is None else study_file.model.priors
    selector = KEMSelector(learned, fit, criterion, priors=priors, average=average)
    settings = json.dumps({"fit": fit, "criterion": criterion, "average": average})
    second = nullcontext() if predictions is None else folders.result(predictions, overwrite)
    with (
        closing(make_executor(cores, cluster)) as executor,
        folders.result(out, overwrite) as file,
        second as beside,
    ):
        trajectories = select_online(selector, cohort, "Selecting", executor)
        rows: list[dict[str, Any]] = [
            {"user": label, "time_step": step, **selection.to_row(), "settings": settings}
            for label, selections in trajectories.items()
            for step, selection in enumerate(selections)
        ]
        folders.write_table(pd.DataFrame(rows), file)
        if beside is not None:
            sure = selector.calibration is not None
            points = predicted(trajectories, cohort, coming, horizon or 1, calibrated=sure)
            folders.write_table(points, beside)
    screen.paths(trajectories, learned.features)
    _print_remarks(trajectories, out)
    seconds = sum(row["run_time"] for row in rows)
    screen.info(f"{plural(len(rows), 'selection')} in {seconds:.1f} s, written to {out}")
    if predictions is not None:
        screen.info(f"Predictions are in {predictions}")
        uncalibrated = (
            "Intervals aren't calibrated: the evolutions weren't, or not for these options."
        )
        screen.info(f"{selector.calibration}." if sure else uncalibrated)


def _print_remarks(trajectories: "Trajectories", out: Path) -> None:
    """Print who doesn't follow what pilot users share, and how many kernels were kept."""
    from kem_pymc._system.display import some

    departed = [user for user, path in trajectories.items() if path[-1].departure > 0.5]
    if departed:
        screen.info(
            "The function that pilot users share has little weight in predictions for "
            f"{some(departed, NAMED)}, because their own data indicate that it doesn't apply."
        )
    messages = [selection.message for path in trajectories.values() for selection in path]
    if any(messages):
        screen.warn(
            f"{sum(map(bool, messages))} of {len(messages)} selections keep the previous kernel, "
            f"because no pilot user had it. They are marked in the column message of {out}."
        )
