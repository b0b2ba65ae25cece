"""``kem search``: search for the kernel of one data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

    from kem_pymc.search.evocov.result import EvolutionResult
    from kem_pymc.search.result import Found, SearchResult

EXAMPLE = "Example: kem search airline.csv --target passengers --method boms --out found"

#: Files that the command writes, beside those of the search itself.
PATH, COMPONENTS, PREDICTIONS = "path.csv", "components.csv", "predictions.csv"

#: Files of an evolved kernel: its values, and its formula in LaTeX.
BEST, FORMULA = "best.json", "formula.tex"

#: Pictures that the command draws.
PATH_PICTURE, COMPONENTS_PICTURE, KERNEL_PICTURE = "path.png", "components.png", "kernel.png"

#: Number of columns that are named in a message.
NAMED = 10

#: How many times larger than the noise leave-one-out errors are if components may be noise.
FOLLOWING = 3.0


class _Names(NamedTuple):
    """Names of the columns, and the first dates of those that have dates."""

    columns: tuple[str, ...]
    target: str
    first: "dict[str, pd.Timestamp]"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs; dates are days since the first one."""
        return tuple(
            f"days since {self.first[name]:%Y-%m-%d}" if name in self.first else name
            for name in self.columns
        )


Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE", help="Table with one row per point: .csv or .parquet.", show_default=False
    ),
]


def search(
    table: Table,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Quantity to predict.")],
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for the results; a search in it is continued."),
    ],
    features: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Inputs; by default all other columns of numbers or dates. Dates become days "
            "since the first one.",
        ),
    ] = None,
    missing: options.Missing = None,
    future: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table of points to predict as well; it needs no targets."
        ),
    ] = None,
    method: Annotated[
        Literal["cks", "boms", "random", "evocov"],
        typer.Option(
            help="cks: greedy search. boms: Bayesian optimisation. random: random walks. "
            "evocov: kernels evolved from elementary expressions.",
        ),
    ] = "cks",
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of kernels to evaluate; by default 40, and 2,820 for evocov, which has "
            "generations of 141 and, with more than 250 points, 1,410 more kernels on 200 of them.",
            show_default=False,
        ),
    ] = None,
    bases: Annotated[
        str, typer.Option(metavar="SE,PER,...", help="Base kernels, each on every input.")
    ] = "SE,RQ,LIN,PER",
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Kernels may change at a point or in a window of an input."),
    ] = False,
    noise_sd: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="R",
            help="Expected sd of the noise, divided by that of the target; by default 0.01, which "
            "is for series that are nearly without noise.",
            show_default=False,
        ),
    ] = None,
    criterion: Annotated[
        Literal["laplace", "bic", "aic"],
        typer.Option(help="Score of a kernel: log evidence (laplace), BIC or AIC."),
    ] = "laplace",
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random seed; the same seed, the same kernels.")
    ] = 0,
    cores: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Processes that fit kernels, for evocov; by default one per core.",
        ),
    ] = None,
    cluster: options.ClusterAddress = None,
) -> None:
    """Search for the kernel of one data set: a sum of products of base kernels, or a formula.

    Every kernel is evaluated as soon as it is chosen, and written to the folder (with evocov, after
    every generation), so an interrupted command can be continued, also with a larger budget. At the
    end, the folder has the evaluated kernels (path.csv), predictions (predictions.csv) and
    pictures; for sums of products, the components of the best model with descriptions and shares of
    the variance (components.csv); for evocov, the best kernel's values (best.json) and formula
    (formula.tex).
    """
    from kem_pymc.search.hyperpriors import Hyperpriors
    from kem_pymc.search.result import SearchResult
    from kem_pymc.search.run import search as run

    drop = missing == "drop"
    names, x, y, first = _points(table, target, options.listed(features), drop)
    coming = None if future is None else _coming(future, names, first, drop)
    found = run(
        x,
        y,
        method,
        budget=budget,
        bases=options.listed(bases) or (),
        changes=changes,
        criterion=criterion,
        hyperpriors=None if noise_sd is None else Hyperpriors.with_noise(noise_sd),
        seed=seed,
        cores=cores,
        cluster=cluster,
        out=out,
    )
    labels = _Names(tuple(names), target, first)
    if isinstance(found, SearchResult):
        _write_composition(found, labels, out)
    else:
        _write_evolved(found, labels, out)
    _write_predictions(found, labels, x, y, coming, out)
    screen.info(f"Results: {out}")


def _read(path: Path) -> "pd.DataFrame":
    from kem_pymc.cli.tables import read_table

    return read_table(path, "", "")


def _points(
    path: Path, target: str, features: "Sequence[str] | None", drop: bool
) -> "tuple[list[str], np.ndarray, np.ndarray, dict[str, pd.Timestamp]]":
    """Return the names of the inputs, inputs (n, D), targets (n,), and first dates by column.

    Raises
    ------
    InputError
        If a column is missing, has cells that aren't finite numbers, or no input is left.
    """
    import pandas as pd
    from pandas.api import types as dtypes

    from kem_pymc._system.display import some
    from kem_pymc.cli.tables import dates_if_all
    from kem_pymc.data.table import number_columns

    table = _read(path)
    for name in (target, *(features or ())):
        if name not in table:
            raise InputError(
                f"{path} has no column {name!r}. Choose one of {', '.join(map(str, table))}."
            )
    if target in (features or ()):
        raise InputError(f"{target!r} is the target. Remove it from --features.")
    names = [str(n) for n in table if n != target] if features is None else list(features)
    table = table[[*names, target]].apply(dates_if_all)
    dates = [name for name in names if dtypes.is_datetime64_any_dtype(table[name])]
    if features is None:
        left = [n for n in names if n not in dates and not dtypes.is_numeric_dtype(table[n])]
        names = [n for n in names if n not in left]
        if left:
            screen.info(
                "Not used, because they aren't numbers or dates such as 2024-01-31: "
                f"{some(left, NAMED)}."
            )
    if not names:
        raise InputError(f"{path} has no column of numbers beside {target}. Add an input.")
    table = table[[*names, target]]
    if drop:
        table = _complete(table, "rows")
    first: dict[str, pd.Timestamp] = {name: table[name].min() for name in dates}
    x = _inputs(table, path, names, first)
    return names, x, number_columns(table, [target])[:, 0], first


def _coming(
    path: Path, names: "Sequence[str]", first: "dict[str, pd.Timestamp]", drop: bool
) -> "np.ndarray":
    """Return the inputs (m, D) of points to predict; messages name their table."""
    table = _read(path)
    rows, kind = table.index, table.index.name
    table.index = rows.map(lambda row: f"{row} of {path.name}").rename(kind)
    if drop and set(names) <= set(table):
        table = _complete(table[list(names)], f"rows of {path.name}")
    return _inputs(table, path, names, first)


def _complete(table: "pd.DataFrame", what: str) -> "pd.DataFrame":
    """Return the complete rows of a table, and report how many others were left out."""
    complete = table.dropna()
    if len(complete) < len(table):
        screen.info(
            f"Left out {len(table) - len(complete)} of {len(table)} {what}: missing values."
        )
    return complete


def _inputs(
    table: "pd.DataFrame", path: Path, names: "Sequence[str]", first: "dict[str, pd.Timestamp]"
) -> "np.ndarray":
    """Return inputs (n, D), with dates converted to days since the first ones.

    Raises
    ------
    InputError
        If a column is missing, or has cells that aren't finite numbers or dates.
    """
    import pandas as pd
    from pandas.api import types as dtypes

    from kem_pymc.cli.tables import dates_if_all
    from kem_pymc.data.table import number_columns

    missing = [name for name in names if name not in table]
    if missing:
        raise InputError(f"{path} lacks the columns {', '.join(missing)}. Add them.")
    used = table[list(names)].apply(dates_if_all)
    for name, origin in first.items():
        if not dtypes.is_datetime64_any_dtype(used[name]):
            raise InputError(
                f"Column {name!r} of {path} has no dates. Write dates such as {origin}."
            )
        if (used[name].dt.tz is None) != (origin.tz is None):
            raise InputError(
                f"Dates of {name!r} have a UTC offset in one table only. Write both with or both "
                "without one."
            )
        used[name] = (used[name] - origin) / pd.Timedelta(days=1)
    return number_columns(used, names)


def _print_best(found: "Found[Any]", model: str) -> None:
    screen.heading(f"Best model: {model}")
    screen.info(
        f"Score per point {found.path['score_per_point'].max():.3f}; "
        f"{len(found.evaluations)} kernels evaluated in {found.seconds:.1f} s, of which the search "
        f"itself took {found.overhead:.1%}."
    )


def _write_composition(found: "SearchResult", names: _Names, out: Path) -> None:
    """Print the components of the best composition, and write their table and picture."""
    from kem_pymc.plots.parts import components
    from kem_pymc.search.description import describe, left_out_errors

    parts = describe(found.selection, names.features)
    _print_best(found, str(found.best))
    screen.heading(f"{names.target} is the sum of")
    rows = parts[["component", "description", "share"]].itertuples(index=False)
    columns = ("component", "description", "share of variance")
    screen.table(columns, rows, {"share of variance": ".1%"})
    noise = found.selection.noise_in_target_units**0.5
    sd = float(left_out_errors(found.selection).std())
    screen.info(f"Predicted from all other points, {names.target} has errors of sd {sd:.2g}.")
    if sd > FOLLOWING * noise:
        screen.warn(
            f"That is far more than the noise ({noise:.2g}): components follow single points, and "
            "may be noise themselves. Compare with a search that expects more noise, such as "
            "--noise-sd 0.3, in another folder."
        )
    with folders.locked(out):
        _write_table(parts, out / COMPONENTS)
        _draw(components(found.selection, study=names)[0], out / COMPONENTS_PICTURE)


def _write_evolved(found: "EvolutionResult", names: _Names, out: Path) -> None:
    """Print the best evolved kernel, and write its values, formula and picture."""
    from kem_pymc._system.files import write_atomically
    from kem_pymc.plots.evolved import evolved_kernel

    selection = found.selection
    _print_best(found, found.best.formula())
    screen.heading("Values, for inputs from 0 to 1 and standardised targets")
    values = {**selection.hyperparameters, "noise variance": selection.noise}
    screen.table(("hyperparameter", "value"), values.items(), {"value": ".4g"})
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in found.outcomes.most_common())
    sd = selection.noise_in_target_units**0.5
    screen.info(f"The noise has sd {sd:.2g}, in units of {names.target}.")
    screen.info(f"Evaluations of the likelihood: {counts}.")
    with folders.locked(out):
        write_atomically(out / BEST, f"{selection.best.to_json()}\n".encode())
        write_atomically(out / FORMULA, f"{found.best.latex()}\n".encode())
        _draw(evolved_kernel(selection, study=names)[0], out / KERNEL_PICTURE)


def _write_predictions(
    found: "Found[Any]",
    names: _Names,
    x: "np.ndarray",
    y: "np.ndarray",
    coming: "np.ndarray | None",
    out: Path,
) -> None:
    """Write the path of the search, and predictions at the points and in the future."""
    import numpy as np
    import pandas as pd

    from kem_pymc.plots.search import search_path

    at = x if coming is None else np.concatenate([x, coming])
    predicted = found.selection.predict(at, include_noise=True)
    table = pd.DataFrame(at, columns=list(names.columns))
    for name, origin in names.first.items():
        table[name] = (origin + pd.to_timedelta(table[name], unit="D")).dt.round("us")
    table[names.target] = np.concatenate([y, np.full(len(at) - len(y), np.nan)])
    table["mean"], table["sd"] = predicted.mean, predicted.sd
    table["lower_95"], table["upper_95"] = predicted.quantile(0.025), predicted.quantile(0.975)
    with folders.locked(out):
        _write_table(found.path.reset_index(), out / PATH)
        _write_table(table, out / PREDICTIONS)
        _draw(search_path(found), out / PATH_PICTURE)


def _write_table(table: "pd.DataFrame", file: Path) -> None:
    from kem_pymc._system.files import write_atomically
    from kem_pymc._system.spreadsheet import escape

    write_atomically(file, escape(table).to_csv(index=False).encode())


def _draw(ax: "Axes", file: Path) -> None:
    ax.figure.get_figure(root=True).savefig(file, dpi=150, bbox_inches="tight")
