"""``kem search``: search for the kernel of one data set."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kem_pymc.cli import options, screen
from kem_pymc.cli.folders import save_figure, write_table
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from kem_pymc.search.evocov.result import EvolutionResult
    from kem_pymc.search.result import SearchResult

EXAMPLE = "Example: kem search airline.csv --target passengers --method boms --out found"


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
            help="Inputs; by default all other columns of numbers or dates except row numbers and "
            "ids. Dates become days since the first one.",
        ),
    ] = None,
    missing: options.Missing = None,
    date_format: options.DateFormat = None,
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
            help="Expected sd of the noise, divided by that of the target; by default nearly none "
            "(0.01) or much (0.5, or a few times more or less), as the data say.",
            show_default=False,
        ),
    ] = None,
    criterion: Annotated[
        Literal["laplace", "bic", "aic"],
        typer.Option(help="Score of a kernel: log evidence (laplace), BIC or AIC."),
    ] = "laplace",
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of future points that will be predicted. Kernels are weighted by how well "
            "they predict as many of the last points, in the order of the first input. Positive "
            "targets are tried as logs, too.",
            show_default=False,
        ),
    ] = None,
    seed: options.TrialSeed = 0,
    cores: options.Cores = None,
    cluster: options.ClusterAddress = None,
) -> None:
    """Search for the kernel of one data set: a sum of products of base kernels, or a formula.

    Kernels are compared with a constant plus noise; if none is convincingly more probable, nothing
    was found. Every kernel is evaluated as soon as it is chosen, and written to the folder (with
    evocov, after every generation), so an interrupted command can be continued, also with a larger
    budget. At the end, the folder has the evaluated kernels (path.csv), predictions
    (predictions.csv) and pictures; for sums of products, the components of the best model with
    descriptions and shares of the variance (components.csv); for evocov, the best kernel's values
    (best.json) and formula (formula.tex).
    """
    from kem_pymc.search.evocov.result import EvolutionResult
    from kem_pymc.search.hyperpriors import Hyperpriors
    from kem_pymc.search.run import search as run

    inputs = options.listed(features)
    points = _read(table, target, inputs, future, missing == "drop", date_format)
    result = run(
        points.data[points.inputs].set_axis(points.features, axis=1),
        points.data[target].to_numpy(),
        method,
        budget=budget,
        bases=options.listed(bases) or (),
        changes=changes,
        criterion=criterion,
        hyperpriors=None if noise_sd is None else Hyperpriors.with_noise(noise_sd),
        horizon=horizon,
        seed=seed,
        cores=cores,
        cluster=cluster,
        out=out,
    )
    screen.console.print(result)
    if isinstance(result, EvolutionResult):
        _write_formula(result, points, out)
    else:
        _write_composition(result, points, out)
    _write_predictions(result, points, out)
    screen.info(f"Results: {out}")


@dataclass(frozen=True)
class _Points:
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
        dates = {name: f"days since {date:%Y-%m-%d}" for name, date in self.first.items()}
        return tuple(dates.get(name, name) for name in self.inputs)


def _read(
    path: Path,
    target: str,
    features: list[str] | None,
    future: Path | None,
    drop: bool,
    date_format: str | None,
) -> _Points:
    """Return the points of a table, and those to predict of another.

    Raises
    ------
    InputError
        If a column is missing, has cells that aren't finite numbers or dates, or no input is left.
    """
    from kem_pymc._system.display import some
    from kem_pymc.cli.tables import read_table
    from kem_pymc.data.cells import Cells
    from kem_pymc.data.columns import NAMED, input_columns

    table = read_table(path)
    chosen, left_out = input_columns(table, target, features, date_format)
    if left_out:
        reasons = [f"{name} ({reason})" for name, reason in left_out]
        screen.info(f"Not used: {some(reasons, NAMED)}.")
    inputs = [str(name) for name in chosen]
    dated = [name for name in inputs if Cells(table[name]).dated(date_format)]
    table = table.assign(**{name: Cells(table[name]).times(date_format) for name in dated})
    origins = {name: table[name].min() for name in dated}
    data = _numbers(table[[*inputs, target]], origins, drop, path, "rows")
    if future is None:
        return _Points(inputs, target, origins, data, data.iloc[:0])
    coming = read_table(future)
    for name in inputs:
        if name not in coming:
            raise InputError(f"{future} has no column {name!r}. Give all inputs of the search.")
    coming = coming[inputs]
    rows = coming.index  # which messages name
    coming.index = rows.map(lambda row: f"{row} of {future.name}").rename(rows.name)
    of_dates = [name for name in dated if Cells(coming[name]).dated(date_format)]
    coming = coming.assign(**{name: Cells(coming[name]).times(date_format) for name in of_dates})
    what = f"rows of {future.name}"
    return _Points(inputs, target, origins, data, _numbers(coming, origins, drop, future, what))


def _numbers(
    table: "pd.DataFrame", origins: "dict[str, pd.Timestamp]", drop: bool, path: Path, what: str
) -> "pd.DataFrame":
    """Return a table of numbers, with dates as days since their origins; `drop` incomplete rows."""
    import pandas as pd

    from kem_pymc.data.table import incomplete_rows, number_columns

    incomplete, in_columns = incomplete_rows(table, dict.fromkeys(table, "number"))
    if drop and incomplete.all():
        raise InputError(
            f"There are no {what} without missing values: {in_columns}. Fill them in, or choose "
            "other inputs with {features}.",
            features=...,
        )
    complete = table[~incomplete] if drop else table
    if len(complete) < len(table):
        gone = f"{len(table) - len(complete)} of {len(table)}"
        screen.info(f"Left out {gone} {what} with missing values: {in_columns}.")
    days = {}
    for name, origin in origins.items():
        try:
            days[name] = (complete[name] - origin) / pd.Timedelta(days=1)
        except TypeError as error:  # numbers, text, or dates with a UTC offset in one table
            raise InputError(
                f"Column {name!r} of {path} isn't written as in the other table. Write dates such "
                f"as {origin}, with a UTC offset in both tables or in none."
            ) from error
    names = list(table)
    return pd.DataFrame(number_columns(complete.assign(**days), names), columns=names)


def _write_composition(result: "SearchResult", points: _Points, out: Path) -> None:
    """Print the components if something was found, and write their table and picture."""
    from kem_pymc.plots.parts import components
    from kem_pymc.search.result import describe

    parts = describe(result.selection, points.features)
    if result.found:
        transform = result.scaling.transform
        name = points.target if transform is None else transform.label(points.target)
        screen.heading(f"{name} is the sum of")
        rows = parts[["component", "description", "share"]].itertuples(index=False)
        columns = ("component", "description", "share of variance")
        screen.table(columns, rows, {"share of variance": ".1%"})
    write_table(parts, out / "components.csv")
    save_figure(components(result.selection, study=points)[0], out / "components.png")


def _write_formula(result: "EvolutionResult", points: _Points, out: Path) -> None:
    """Write the values, the formula and a picture of the best evolved kernel."""
    from kem_pymc._system.files import write_atomically
    from kem_pymc.plots.evolved import evolved_kernel

    write_atomically(out / "best.json", f"{result.selection.best.to_json()}\n".encode())
    write_atomically(out / "formula.tex", f"{result.best.latex()}\n".encode())
    save_figure(evolved_kernel(result.selection, study=points)[0], out / "kernel.png")


def _write_predictions(result: "SearchResult", points: _Points, out: Path) -> None:
    """Write the path of the search, and predictions at all points, with dates as given."""
    import pandas as pd

    from kem_pymc.plots.search import search_path

    table = pd.concat([points.data, points.future], ignore_index=True)
    predicted = result.selection.predict(table[points.inputs].to_numpy(), include_noise=True)
    for name, origin in points.first.items():
        table[name] = (origin + pd.to_timedelta(table[name], unit="D")).dt.round("us")
    table["mean"], table["sd"] = predicted.mean, predicted.sd
    table["lower_95"], table["upper_95"] = predicted.quantile(0.025), predicted.quantile(0.975)
    write_table(result.path.reset_index(), out / "path.csv")
    write_table(table, out / "predictions.csv")
    save_figure(search_path(result), out / "path.png")
