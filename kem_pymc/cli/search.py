"""``kem search``: search for the kernel of one data set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from kem_pymc.search.evocov.result import EvolutionResult
    from kem_pymc.search.result import Found, SearchResult

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
    cores: options.Processes = None,
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
    points = _Points(target)
    data = points.read(table, options.listed(features), drop)
    coming = None if future is None else points.read_future(future, drop)
    found = run(
        data[points.inputs].to_numpy(),
        data[target].to_numpy(),
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
    with folders.locked(out):
        if isinstance(found, SearchResult):
            _write_composition(found, points, out)
        else:
            _write_formula(found, points, out)
        _write_predictions(found, points.predictions(found, data, coming), out)
    screen.info(f"Results: {out}")


class _Points:
    """Tables of points, with inputs that are numbers or dates.

    Attributes
    ----------
    inputs : list of str
        Columns of the inputs.
    target : str
    first : dict of str to Timestamp
        First date of each input with dates, which become days since then.
    """

    def __init__(self, target: str) -> None:
        self.inputs: list[str] = []
        self.target = target
        self.first: dict[str, pd.Timestamp] = {}

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the inputs, as plots show them."""
        return tuple(
            f"days since {self.first[name]:%Y-%m-%d}" if name in self.first else name
            for name in self.inputs
        )

    def read(self, path: Path, features: "list[str] | None", drop: bool) -> "pd.DataFrame":
        """Return the numbers of the inputs and the target.

        Raises
        ------
        InputError
            If a column is missing, has cells that aren't finite numbers, or no input is left.
        """
        from pandas.api import types as dtypes

        from kem_pymc._system.display import some

        table = _read(path, [self.target, *(features or ())])
        if self.target in (features or ()):
            raise InputError(f"{self.target!r} is the target. Remove it from --features.")
        others = [str(name) for name in table if name != self.target]
        dates = [name for name in others if dtypes.is_datetime64_any_dtype(table[name])]
        usable = {*dates, *(name for name in others if dtypes.is_numeric_dtype(table[name]))}
        self.inputs = [name for name in others if name in usable] if features is None else features
        left_out = [name for name in others if name not in usable]
        if features is None and left_out:
            screen.info(
                "Not used, because they aren't numbers or dates such as 2024-01-31: "
                f"{some(left_out, NAMED)}."
            )
        if not self.inputs:
            raise InputError(f"{path} has no column of numbers beside {self.target}. Add an input.")
        table = _complete(table[[*self.inputs, self.target]], drop, "rows")
        self.first = {name: table[name].min() for name in self.inputs if name in dates}
        return self._numbers(table)

    def read_future(self, path: Path, drop: bool) -> "pd.DataFrame":
        """Return the numbers of the inputs of points to predict; messages name their table."""
        table = _read(path, self.inputs)[self.inputs]
        rows = table.index
        table.index = rows.map(lambda row: f"{row} of {path.name}").rename(rows.name)
        return self._numbers(_complete(table, drop, f"rows of {path.name}"))

    def _numbers(self, table: "pd.DataFrame") -> "pd.DataFrame":
        import pandas as pd
        from pandas.api import types as dtypes

        from kem_pymc.data.table import number_columns

        table = table.copy()
        for name, origin in self.first.items():
            if not dtypes.is_datetime64_any_dtype(table[name]):
                raise InputError(
                    f"Column {name!r} has no dates in one table. Write dates such as {origin}."
                )
            if (table[name].dt.tz is None) != (origin.tz is None):
                raise InputError(
                    f"Dates of {name!r} have a UTC offset in one table only. Write both with or "
                    "both without one."
                )
            table[name] = (table[name] - origin) / pd.Timedelta(days=1)
        return pd.DataFrame(number_columns(table, list(table)), columns=list(table))

    def predictions(
        self, found: "Found[Any]", data: "pd.DataFrame", coming: "pd.DataFrame | None"
    ) -> "pd.DataFrame":
        """Return predictions at the points and in the future, with dates as they were given."""
        import pandas as pd

        table = pd.concat([data, coming], ignore_index=True)
        predicted = found.selection.predict(table[self.inputs].to_numpy(), include_noise=True)
        for name, origin in self.first.items():
            table[name] = (origin + pd.to_timedelta(table[name], unit="D")).dt.round("us")
        table["mean"], table["sd"] = predicted.mean, predicted.sd
        table["lower_95"], table["upper_95"] = predicted.quantile(0.025), predicted.quantile(0.975)
        return table


def _read(path: Path, names: "list[str]") -> "pd.DataFrame":
    """Return a table with dates where text is dates, after a check that it has these columns."""
    from kem_pymc.cli.tables import dates_if_all, read_table

    table = read_table(path, "", "")
    for name in names:
        if name not in table:
            raise InputError(
                f"{path} has no column {name!r}. Choose one of {', '.join(map(str, table))}."
            )
    return table.apply(dates_if_all)


def _complete(table: "pd.DataFrame", drop: bool, what: str) -> "pd.DataFrame":
    """Return the complete rows of a table if `drop`, and report how many others were left out."""
    complete = table.dropna() if drop else table
    if len(complete) < len(table):
        screen.info(
            f"Left out {len(table) - len(complete)} of {len(table)} {what}: missing values."
        )
    return complete


def _print_best(found: "Found[Any]", model: str) -> None:
    screen.heading(f"Best model: {model}")
    screen.info(
        f"Score per point {found.path['score_per_point'].max():.3f}; "
        f"{len(found.evaluations)} kernels evaluated in {found.seconds:.1f} s, of which the search "
        f"itself took {found.overhead:.1%}."
    )


def _write_composition(found: "SearchResult", points: _Points, out: Path) -> None:
    """Print the components of the best composition, and write their table and picture."""
    from kem_pymc.plots.parts import components
    from kem_pymc.search.description import describe, left_out_errors

    parts = describe(found.selection, points.features)
    _print_best(found, str(found.best))
    screen.heading(f"{points.target} is the sum of")
    rows = parts[["component", "description", "share"]].itertuples(index=False)
    columns = ("component", "description", "share of variance")
    screen.table(columns, rows, {"share of variance": ".1%"})
    noise = found.selection.noise_in_target_units**0.5
    sd = float(left_out_errors(found.selection).std())
    screen.info(f"Predicted from all other points, {points.target} has errors of sd {sd:.2g}.")
    if sd > FOLLOWING * noise:
        screen.warn(
            f"That is far more than the noise ({noise:.2g}): components follow single points, and "
            "may be noise themselves. Compare with a search that expects more noise, such as "
            "--noise-sd 0.3, in another folder."
        )
    _write_table(parts, out / "components.csv")
    _draw(components(found.selection, study=points)[0], out / "components.png")


def _write_formula(found: "EvolutionResult", points: _Points, out: Path) -> None:
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
    screen.info(f"The noise has sd {sd:.2g}, in units of {points.target}.")
    screen.info(f"Evaluations of the likelihood: {counts}.")
    write_atomically(out / "best.json", f"{selection.best.to_json()}\n".encode())
    write_atomically(out / "formula.tex", f"{found.best.latex()}\n".encode())
    _draw(evolved_kernel(selection, study=points)[0], out / "kernel.png")


def _write_predictions(found: "Found[Any]", predictions: "pd.DataFrame", out: Path) -> None:
    """Write the path of the search, and predictions."""
    from kem_pymc.plots.search import search_path

    _write_table(found.path.reset_index(), out / "path.csv")
    _write_table(predictions, out / "predictions.csv")
    _draw(search_path(found), out / "path.png")


def _write_table(table: "pd.DataFrame", file: Path) -> None:
    from kem_pymc._system.files import write_atomically
    from kem_pymc._system.spreadsheet import escape

    write_atomically(file, escape(table).to_csv(index=False).encode())


def _draw(ax: "Axes", file: Path) -> None:
    ax.figure.get_figure(root=True).savefig(file, dpi=150, bbox_inches="tight")
