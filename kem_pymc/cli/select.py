"""``kem select``: select kernels for new users at every time step, from learned evolutions."""

import json
from collections.abc import Hashable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from kem_pymc.cli.study import Study
    from kem_pymc.data.cohort import Cohort
    from kem_pymc.evolutions.evolutions import Evolutions
    from kem_pymc.selection.online import Trajectories

EXAMPLE = (
    "Example: kem select --evolutions kem-fit/evolutions.json --data new.csv --user id --time week"
)

#: New users' values cause a warning if features are this many ranges of the pilot users' values
#: outside that range, or targets are this many standard deviations from the pilot users' mean.
FAR, FAR_TARGET = 3.0, 20.0

#: Default name of the file of predictions, next to the file of selections.
PREDICTIONS = "predictions.csv"

#: Maximum number of users named who don't follow what the others share.
NAMED = 10


def select(
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
    draw: options.SingleDraw = None,
    graph: options.ProbableGraph = False,
    cores: options.Processes = None,
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
    future: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table of future points to predict as well; it needs no targets."
        ),
    ] = None,
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
    next time step, in order of arrival; at the last time step, also the points in --future. With
    --horizon, they cover more time steps, also after a user's last row; this needs a table in which
    time is the only feature that changes within users. `kem report` plots the predictions.
    """
    import pandas as pd

    from kem_pymc._system.executors import make_executor
    from kem_pymc._system.spreadsheet import escape
    from kem_pymc.cli.online import select_online
    from kem_pymc.cli.study import load_study
    from kem_pymc.evolutions.evolutions import Evolutions
    from kem_pymc.selection.kem import KEMSelector
    from kem_pymc.selection.online import check_names
    from kem_pymc.selection.online import predictions as predicted

    columns: dict[str, Any] = {
        "user": user,
        "time": time,
        "target": target,
        "batch": batch,
        "skip_gaps": skip_gaps,
        "missing": missing,
    }
    if study is None and data is None:
        raise InputError(
            "No users are given. Give a table with --data, or a study file with test users."
        )
    if future is not None and data is None:
        raise InputError("--future gives points to predict for the users of a table. Add --data.")
    found = None if study is None else load_study(study)  # before evolutions: may add kernels
    learned, settings = _chosen(Evolutions.load(evolutions), average, draw, graph)
    settings = {"fit": fit, "criterion": criterion, **settings}
    if data is None:
        options.only_with_table(columns)
        cohort = _test_users(cast(Path, study), cast("Study", found).test, learned)
    else:
        cohort = _in_table(data, columns, learned)
    if predictions is None and (future, horizon) != (None, None):
        predictions = out.with_name(PREDICTIONS)
    _check_places(out, predictions)
    if predictions is not None:
        check_names(cohort)
    _warn_of_chains(learned)
    _compare_ranges(cohort, learned)
    coming = _coming(future, horizon, data, cohort, columns, learned)
    second = nullcontext() if predictions is None else folders.result(predictions, overwrite)
    with (
        closing(make_executor(cores, cluster)) as executor,
        folders.result(out, overwrite) as file,
        second as beside,
    ):
        priors = None if found is None else found.model.priors
        selector = KEMSelector(learned, fit, criterion, priors=priors, average=average)
        trajectories = select_online(selector, cohort, "Selecting", executor)
        rows: list[dict[str, Any]] = [
            {
                **{"user": label, "time_step": step, **selection.to_row()},
                "settings": json.dumps(settings),
            }
            for label, own in trajectories.items()
            for step, selection in enumerate(own)
        ]
        escape(pd.DataFrame(rows)).to_csv(file, index=False)
        if beside is not None:
            escape(predicted(trajectories, cohort, coming, horizon or 1)).to_csv(
                beside, index=False
            )
    screen.paths(trajectories)
    _say_who_departs(trajectories)
    _tell(rows, out, predictions)


def _chosen(
    learned: "Evolutions", average: int | None, draw: int | None, graph: bool
) -> "tuple[Evolutions, dict[str, Any]]":
    """Return the evolutions of all draws or of the requested ones, and a setting that names them.

    Raises
    ------
    InputError
        If more than one of the options is given, `average` is less than 1, or there is no such
        draw.
    """
    given = {"--average": average is not None, "--draw": draw is not None, "--graph": graph}
    names = [name for name, there in given.items() if there]
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(names)} are different ways to use the posterior. Give one of them."
        )
    if average is not None and average < 1:
        raise InputError(f"--average is {average}, but must be at least 1. Give a larger number.")
    if draw is not None:
        return learned.single_draw(draw), {"evolutions": f"draw {draw}"}
    if graph:
        most = learned.most_probable()
        what = f"most probable graph, {most.n_draws} of {learned.n_draws} draws"
        return most, {"evolutions": what}
    return learned, {"evolutions": "all draws" if average is None else f"{average} draws, averaged"}


def _check_places(out: Path, predictions: Path | None) -> None:
    """Check that selections and predictions are written to different files.

    Raises
    ------
    InputError
        If they would be written to the same file.
    """
    if predictions is not None and predictions.resolve() == out.resolve():
        raise InputError(
            f"Selections and predictions would both be written to {out}. Choose another file with "
            "--out or --predictions."
        )


def _warn_of_chains(learned: "Evolutions") -> None:
    """Warn if evolutions were learned from chains that disagree, as `kem fit` recorded."""
    apart = learned.settings.get(folders.DISAGREE)
    if apart:
        screen.warn(
            f"{apart} These selections average over all chains nevertheless. Run kem fit with "
            "larger --draws and --tune, or weight the chains with kem.diagnostics.stack in Python."
        )


def _compare_ranges(cohort: "Cohort", learned: "Evolutions") -> None:
    """Warn if new users' values are so far from the pilot users' that their unit may differ.

    Without scaling, the range of the pilot users' values isn't known, and there is no warning.
    """
    import numpy as np

    scaling = learned.scaling
    if scaling.to_dict() == scaling.identity(len(learned.features)).to_dict():
        return
    x, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
    for d, name in enumerate(learned.features):
        if name in learned.levels:
            continue
        low, high = scaling.feature_low[d], scaling.feature_high[d]
        room = FAR * (high - low)
        if x[:, d].min() < low - room or x[:, d].max() > high + room:
            screen.warn(
                f"{name} is between {x[:, d].min():.6g} and {x[:, d].max():.6g}; for the pilot "
                f"users, it was between {low:.6g} and {high:.6g}. Check that its unit is the same."
            )
    if np.abs(scaling.targets_of(cohort)).max() > FAR_TARGET:
        screen.warn(
            f"{cohort.target} is between {y.min():.6g} and {y.max():.6g}; for the pilot users, "
            f"{scaling.target_label('it')} had mean {scaling.target_mean:.6g} and sd "
            f"{scaling.target_sd:.6g}. "
            "Check that its unit is the same."
        )


def _say_who_departs(trajectories: "Trajectories") -> None:
    """Print the users who, given all of their data, don't follow what pilot users share."""
    from kem_pymc._system.display import some

    departed = [user for user, own in trajectories.items() if own[-1].departure > 0.5]
    if departed:
        users = "user" if len(departed) == 1 else "users"
        screen.info(
            f"The function that pilot users share has little weight in predictions for {users} "
            f"{some(departed, NAMED)}, because their own data indicate that it doesn't apply."
        )


def _tell(rows: list[dict[str, Any]], out: Path, predictions: Path | None) -> None:
    stayed = sum(bool(row["message"]) for row in rows)
    if stayed:
        screen.warn(
            f"{stayed} of {len(rows)} selections keep the previous kernel, because no pilot user "
            f"had it. They are marked in the column message of {out}."
        )
    seconds = sum(row["run_time"] for row in rows)
    screen.info(f"{len(rows)} selections in {seconds:.1f} s, written to {out}")
    if predictions is not None:
        screen.info(f"Predictions are in {predictions}")


def _in_table(path: Path, columns: dict[str, Any], learned: "Evolutions") -> "Cohort":
    from kem_pymc.cli.tables import read_cohort

    named = columns | {"target": columns["target"] or learned.target}
    return read_cohort(
        path, **named, features=learned.features, categorical=learned.levels, scope="new"
    )


def _coming(
    future: Path | None,
    horizon: int | None,
    data: Path | None,
    cohort: "Cohort",
    columns: dict[str, Any],
    learned: "Evolutions",
) -> "dict[Hashable, np.ndarray] | None":
    """Return inputs of future points: of the table `future`, or of `horizon` time steps."""
    from kem_pymc.cli.tables import read_future
    from kem_pymc.selection.horizon import points_ahead

    if future is None:
        return None if horizon is None else points_ahead(cohort, horizon, columns["batch"])
    return read_future(
        future,
        cast(Path, data),
        user=columns["user"],
        time=columns["time"],
        target=columns["target"] or learned.target,
        features=learned.features,
        levels=learned.levels,
    )


def _test_users(path: Path, test: "Cohort | None", learned: "Evolutions") -> "Cohort":
    if test is None:
        raise InputError(f"{path} defines no test users. Add test = a kem.Cohort of new users.")
    if test.features != learned.features:
        raise InputError(
            f"The test users' features are {', '.join(test.features)}, those of the pilot "
            f"study are {', '.join(learned.features)}. Give the evolutions of the same study."
        )
    if dict(test.levels) != learned.levels:
        raise InputError(
            f"The test users' categories in {path} have other levels than the pilot study's. "
            "Pass the levels of the pilot cohort as {categorical} to both cohorts.",
            categorical=...,
        )
    return test
