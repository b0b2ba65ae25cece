"""``kem search``: search for the kernel of one data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from kem_pymc.cli import options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from kem_pymc.search.evocov.result import EvolutionResult
    from kem_pymc.search.result import SearchResult

EXAMPLE = "Example: kem search airline.csv --target passengers --method boms --out found"

#: Number of columns that are named in a message.
NAMED = 10

#: How many times larger than the noise leave-one-out errors are if components may be noise.
FOLLOWING = 3.0


def search(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help=options.TABLE, show_default=False)],
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
    future: options.Future = None,
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
    seed: options.TrialSeed = 0,
    cores: options.Cores = None,
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
    from kem_pymc.search.evocov.result import EvolutionResult
    from kem_pymc.search.hyperpriors import Hyperpriors
    from kem_pymc.search.run import search as run

    points = _read(table, target, options.listed(features), future, missing == "drop")
    found = run(
        points.data[points.inputs].to_numpy(),
        points.data[target].to_numpy(),
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
    screen.console.print(found)
    if isinstance(found, EvolutionResult):
        _write_formula(found, points, out)
    else:
        _write_composition(found, points, out)
    _write_predictions(found, points, out)
    screen.info(f"Results: {out}")


class _Points(NamedTuple):
    """The points of a search.

    Attributes
    ----------
    inputs : list of str
        Columns of the inputs.
    target : str
    first : dict of str to Timestamp
        First date of each input with dates, which are days since then.
    data, future : DataFrame
        Inputs and targets; inputs of points to predict, which has no rows if none are given.
    """

    inputs: list[str]
    target: str
    first: "dict[str, pd.Timestamp]"
    data: "pd.DataFrame"
    future: "pd.DataFrame"

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs, as plots show them."""
        return tuple(
            f"days since {self.first[name]:%Y-%m-%d}" if name in self.first else name
            for name in self.inputs
        )


def _read(
    path: Path, target: str, features: list[str] | None, future: Path | None, drop: bool
) -> _Points:
    """Return the points of a table, and those to predict of another.

    Raises
    ------
    InputError
        If a column is missing, has cells that aren't finite numbers or dates, or no input is left.
    """
    import pandas as pd
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    from kem_pymc._system.display import some
    from kem_pymc.data.table import number_columns

    table = _table(path, [target, *(features or ())])
    if target in (features or ()):
        raise InputError(f"{target!r} is the target. Remove it from --features.")
    others = [str(name) for name in table if name != target]
    dates = [name for name in others if is_datetime64_any_dtype(table[name])]
    unused = [n for n in others if n not in dates and not is_numeric_dtype(table[n])]
    if features is None and unused:
        screen.info(f"Not used, because they aren't numbers or dates: {some(unused, NAMED)}.")
    inputs = features or [name for name in others if name not in unused]
    if not inputs:
        raise InputError(f"{path} has no column of numbers beside {target}. Add an input.")
    parts = [_complete(table[[*inputs, target]], drop, "rows")]
    if future is not None:
        ahead = _table(future, inputs)[inputs]
        rows = ahead.index  # which messages name
        ahead.index = rows.map(lambda row: f"{row} of {future.name}").rename(rows.name)
        parts.append(_complete(ahead, drop, f"rows of {future.name}"))
    first = {name: parts[0][name].min() for name in inputs if name in dates}
    for part in parts:
        for name, origin in first.items():
            try:
                part[name] = (part[name] - origin) / pd.Timedelta(days=1)
            except TypeError as error:  # numbers, text, or dates with a UTC offset in one table
                raise InputError(
                    f"Column {name!r} of {future} isn't written as in {path}. Write dates such as "
                    f"{origin}, with a UTC offset in both tables or in none."
                ) from error
    data, *coming = (
        pd.DataFrame(number_columns(part, list(part)), columns=list(part)) for part in parts
    )
    return _Points(inputs, target, first, data, coming[0] if coming else data.iloc[:0])


def _table(path: Path, names: list[str]) -> "pd.DataFrame":
    """Return a table with dates where text is dates, after a check that it has these columns."""
    from kem_pymc.cli.tables import read_table
    from kem_pymc.data.cells import Cells

    table = read_table(path)
    for name in names:
        if name not in table:
            raise InputError(
                f"{path} has no column {name!r}. Choose one of {', '.join(map(str, table))}."
            )
    dates = (name for name in table if Cells(table[name]).kind == "dates")
    return table.assign(**{name: Cells(table[name]).times() for name in dates})


def _complete(table: "pd.DataFrame", drop: bool, what: str) -> "pd.DataFrame":
    """Return a table, if `drop` without incomplete rows, whose number is printed."""
    complete = table.dropna() if drop else table.copy()
    gone = len(table) - len(complete)
    if gone:
        screen.info(f"Left out {gone} of {len(table)} {what}: missing values.")
    return complete


def _write_composition(found: "SearchResult", points: _Points, out: Path) -> None:
    """Print the components of the best composition, and write their table and picture."""
    from kem_pymc.plots.parts import components
    from kem_pymc.search.description import describe, left_out_errors

    parts = describe(found.selection, points.features)
    screen.heading(f"{points.target} is the sum of")
    rows = parts[["component", "description", "share"]].itertuples(index=False)
    columns = ("component", "description", "share of variance")
    screen.table(columns, rows, {"share of variance": ".1%"})
    noise = found.selection.noise_in_target_units**0.5
    sd = float(left_out_errors(found.selection).std())
    if sd > FOLLOWING * noise:
        screen.warn(
            f"Predicted from all other points, {points.target} has errors of sd {sd:.2g}. That is "
            f"far more than the noise ({noise:.2g}): components follow single points, and may be "
            "noise themselves. Compare with a search that expects more noise, such as "
            "--noise-sd 0.3, in another folder."
        )
    _write_table(parts, out / "components.csv")
    _draw(components(found.selection, study=points)[0], out / "components.png")


def _write_formula(found: "EvolutionResult", points: _Points, out: Path) -> None:
    """Write the values, the formula and a picture of the best evolved kernel."""
    from kem_pymc._system.files import write_atomically
    from kem_pymc.plots.evolved import evolved_kernel

    write_atomically(out / "best.json", f"{found.selection.best.to_json()}\n".encode())
    write_atomically(out / "formula.tex", f"{found.best.latex()}\n".encode())
    _draw(evolved_kernel(found.selection, study=points)[0], out / "kernel.png")


def _write_predictions(found: "SearchResult", points: _Points, out: Path) -> None:
    """Write the path of the search, and predictions at all points, with dates as given."""
    import pandas as pd

    from kem_pymc.plots.search import search_path

    table = pd.concat([points.data, points.future], ignore_index=True)
    predicted = found.selection.predict(table[points.inputs].to_numpy(), include_noise=True)
    for name, origin in points.first.items():
        table[name] = (origin + pd.to_timedelta(table[name], unit="D")).dt.round("us")
    table["mean"], table["sd"] = predicted.mean, predicted.sd
    table["lower_95"], table["upper_95"] = predicted.quantile(0.025), predicted.quantile(0.975)
    _write_table(found.path.reset_index(), out / "path.csv")
    _write_table(table, out / "predictions.csv")
    _draw(search_path(found), out / "path.png")


def _write_table(table: "pd.DataFrame", file: Path) -> None:
    from kem_pymc._system.files import write_atomically
    from kem_pymc._system.spreadsheet import escape

    write_atomically(file, escape(table).to_csv(index=False).encode())


def _draw(ax: "Axes", file: Path) -> None:
    ax.figure.get_figure(root=True).savefig(file, dpi=150, bbox_inches="tight")
