"""``kem search``: search for the kernel of one data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pandas as pd

    from kem_pymc.search.result import SearchResult

EXAMPLE = "Example: kem search airline.csv --target passengers --method boms --out found"

#: Files that the command writes, beside those of the search itself.
PATH, COMPONENTS, PREDICTIONS = "path.csv", "components.csv", "predictions.csv"

#: Pictures that the command draws.
PICTURES = ("path.png", "components.png")

#: Number of columns that are named in a message.
NAMED = 10


class _Names(NamedTuple):
    """Names of the columns, for labels of axes."""

    features: tuple[str, ...]
    target: str


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
        Literal["cks", "boms", "random"],
        typer.Option(
            help="cks: greedy search. boms: Bayesian optimisation. random: random walks.",
        ),
    ] = "cks",
    budget: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of kernels to evaluate.")
    ] = 40,
    bases: Annotated[
        str, typer.Option(metavar="SE,PER,...", help="Base kernels, each on every input.")
    ] = "SE,RQ,LIN,PER",
    changes: Annotated[
        bool,
        typer.Option("--changes", help="Kernels may change at a point or in a window of an input."),
    ] = False,
    criterion: Annotated[
        Literal["laplace", "bic", "aic"],
        typer.Option(help="Score of a kernel: log evidence (laplace), BIC or AIC."),
    ] = "laplace",
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random seed; the same seed, the same kernels.")
    ] = 0,
) -> None:
    """Search for the kernel of one data set: a sum of products of base kernels.

    Every kernel is evaluated as soon as it is chosen, and written to the folder, so an interrupted
    command can be continued, also with a larger budget. At the end, the folder has the evaluated
    kernels (path.csv), the components of the best model with descriptions and shares of the
    variance (components.csv), predictions (predictions.csv) and pictures of these.
    """
    from kem_pymc.search.description import describe
    from kem_pymc.search.run import search as run

    names, x, y, first = _points(table, target, options.listed(features), missing == "drop")
    coming = None if future is None else _inputs(_read(future), future, names, first)
    found = run(
        x,
        y,
        method,
        budget=budget,
        bases=options.listed(bases) or (),
        changes=changes,
        criterion=criterion,
        seed=seed,
        out=out,
    )
    parts = describe(found.selection, names)
    _print(found, parts, target)
    with folders.alone(out):
        _write(found, parts, names, target, x, y, coming, out)
    screen.say(f"Results: {out}")


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
    from kem_pymc.data.validation import check_complete, check_numeric, numbers

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
            screen.say(f"Not used, because they aren't numbers: {some(left, NAMED)}.")
    if not names:
        raise InputError(f"{path} has no column of numbers beside {target}. Add an input.")
    table = table[[*names, target]]
    if drop and table.isna().any(axis=None):
        complete = table.dropna()
        screen.say(f"Left out {len(table) - len(complete)} of {len(table)} rows: missing values.")
        table = complete
    first: dict[str, pd.Timestamp] = {name: table[name].min() for name in dates}
    x = _inputs(table, path, names, first)
    check_numeric(table, [target])
    check_complete(table.index, [path.name] * len(table), {target: table[target]})
    return names, x, numbers(table, target), first


def _inputs(
    table: "pd.DataFrame", path: Path, names: "Sequence[str]", first: "dict[str, pd.Timestamp]"
) -> "np.ndarray":
    """Return inputs (n, D), with dates converted to days since the first ones.

    Raises
    ------
    InputError
        If a column is missing, or has cells that aren't finite numbers or dates.
    """
    import numpy as np
    import pandas as pd

    from kem_pymc.cli.tables import dates_if_all
    from kem_pymc.data.validation import check_complete, check_numeric, numbers

    missing = [name for name in names if name not in table]
    if missing:
        raise InputError(f"{path} lacks the columns {', '.join(missing)}. Add them.")
    used = table[list(names)].apply(dates_if_all)
    for name, origin in first.items():
        if name in used:
            used[name] = (used[name] - origin) / pd.Timedelta(days=1)
    check_numeric(used, names)
    check_complete(used.index, [path.name] * len(used), {name: used[name] for name in names})
    return np.column_stack([numbers(used, name) for name in names])


def _print(found: "SearchResult", parts: "pd.DataFrame", target: str) -> None:
    score = found.path["score_per_point"].max()
    screen.heading(f"Best model: {found.best}")
    screen.say(
        f"Score per point {score:.3f}; {len(found.evaluations)} kernels evaluated in "
        f"{found.seconds:.1f} s, of which the search itself took {found.overhead:.1%}."
    )
    made = screen.table(
        "component", "description", "share of variance", right=("share of variance",)
    )
    for row in parts.itertuples(index=False):
        made.add_row(row.component, row.description, f"{row.share:.1%}")
    screen.heading(f"{target} is the sum of")
    screen.console.print(made)


def _write(
    found: "SearchResult",
    parts: "pd.DataFrame",
    names: "Sequence[str]",
    target: str,
    x: "np.ndarray",
    y: "np.ndarray",
    coming: "np.ndarray | None",
    out: Path,
) -> None:
    """Write tables and pictures to the folder of the search."""
    import numpy as np
    import pandas as pd

    from kem_pymc._system.files import write_atomically
    from kem_pymc._system.spreadsheet import escape
    from kem_pymc.plots.parts import components
    from kem_pymc.plots.search import search_path

    at = x if coming is None else np.concatenate([x, coming])
    predicted = found.selection.predict(at, include_noise=True)
    table = pd.DataFrame(at, columns=list(names))
    table[target] = np.concatenate([y, np.full(len(at) - len(y), np.nan)])
    table["mean"], table["sd"] = predicted.mean, predicted.sd
    table["lower_95"], table["upper_95"] = predicted.quantile(0.025), predicted.quantile(0.975)
    tables = {PATH: found.path.reset_index(), COMPONENTS: parts, PREDICTIONS: table}
    for name, own in tables.items():
        write_atomically(out / name, escape(own).to_csv(index=False).encode())
    named = _Names(tuple(names), target)
    figures = search_path(found).figure, components(found.selection, study=named)[0].figure
    for name, figure in zip(PICTURES, figures, strict=True):
        figure.savefig(out / name, dpi=150, bbox_inches="tight")
