"""Tables 4 to 8 of EvoCov: extrapolation of time series by evolved kernels (Roman et al. 2019)."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from experiments.data.series import TSDL, published_errors
from experiments.evocov import published, ranks
from experiments.evocov.extrapolations import SHARE
from experiments.results import unique
from kem_pymc.comparison.output import Output
from kem_pymc.plots import style
from kem_pymc.search.evocov.run import MANY, POINTS

#: Names in our tables of the published methods.
NAMES = {
    "GPSS": "GPSS",
    "ABCDacc": "ABCD",
    "RS": "Random Search",
    "GWF": "Go With The First",
    "EL": "EvoCov LML",
    "ES": "EvoCov SoPL",
}

#: Shares of the time or of the evaluations at which curves are drawn.
SHARES = np.linspace(0.02, 1.0, 50)

AVERAGED = (
    "Averages over kernels have weights proportional to exp(-BIC / 2). Log densities are those per "
    "test point, in standard deviations of the training part."
)

#: How curves are to be read.
CURVES = (
    f"Searches among more than {MANY} points fit kernels to {POINTS} of them first, for "
    f"{SHARE:.0%} of the time, and have an error only from then on. Curves begin where the median "
    "over all searches is finite; shares are those of the evaluations after the first error."
)

SPENT = (
    "Numbers of evaluations are those of the metric with its gradient. Seconds are CPU time of one "
    "core, without compilation. Means are over trials."
)


def make(name: str, paths: pd.DataFrame) -> Output:
    """Return a table of EvoCov by name, such as "evocov-table6".

    Parameters
    ----------
    name : str
        Key of :data:`MAKERS`.
    paths : DataFrame
        Paths of all searches, see `ExtrapolationTask.run`.
    """
    return MAKERS[name](paths)


def _ends(paths: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of every search."""
    return paths.groupby(["data", "method", "trial"], sort=False).tail(1)


def _means(ends: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return means over trials; rows are series, columns are methods."""
    return _wide(ends.groupby(["data", "method"], sort=False)[value].mean())


def _wide(values: pd.Series) -> pd.DataFrame:
    """Return values by series and method as rows and columns, in the order in which they occur."""
    wide = values.unstack(sort=False)
    return wide.rename_axis(index="series", columns=None)


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return numbers as text with three significant digits at least, and series by title."""

    def text(value: float) -> str:
        if np.isnan(value):
            return ""
        return f"{value:.0f}" if 1e3 <= value < 1e7 else f"{value:.3g}"

    return table.map(text).rename(index=TSDL)


def _with_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with rows of the mean and the median."""
    return pd.concat([table, table.agg(["mean", "median"])]).rename_axis(index="series")


def _spent(ends: pd.DataFrame) -> pd.DataFrame:
    """Return what searches spent, as medians with ranges over series and trials."""

    def text(values: pd.Series) -> str:
        numbers = (values.median(), values.min(), values.max())
        middle, low, high = (f"{v:,.0f}" if v >= 100 else f"{v:.2g}" for v in numbers)
        return f"{middle} ({low} to {high})"

    spent = ends.rename(columns={"elapsed": "seconds"}).groupby("method", sort=False)
    return spent[["kernels", "evaluations", "seconds"]].agg(text)


def _tested(errors: pd.DataFrame, what: str = "") -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return a table of mean ranks and a note on Friedman's test; nothing without a test."""
    comparison = ranks.compare(errors)
    if comparison is None:
        return {}, []
    note = (
        f"Friedman's test{what}: p = {comparison.p:.3g} for {len(errors)} series. "
        "p-values of pairs are adjusted by Shaffer's procedure."
    )
    return {f"Mean ranks{what}": ranks.table(comparison)}, [note]


def _metrics(paths: pd.DataFrame) -> Output:
    """Return table 4: metrics, on kernels of a composition and on evolved ones."""
    ends = _ends(paths)
    means = _means(ends, "rmse")
    evolving = [name for name in means if name.startswith("EvoCov")]
    fitted = means.drop(columns=evolving)
    parts = {", kernels of a composition": fitted, ", evolved kernels": means[evolving]}
    as_published = published.METRICS.reindex(means.index).dropna()
    tables = {f"Test RMSE{what}": _shown(part) for what, part in parts.items() if part.size}
    if len(as_published):
        tables["Test RMSE, published"] = _shown(as_published)
    notes = []
    for what, part in (*parts.items(), (", published", as_published)):
        table, note = _tested(part, what)
        tables |= table
        notes += note
    notes.append(
        "Kernels of a composition: the best one of a compositional kernel search, as a tree, "
        "fitted from random starting points with each metric (the paper used the kernels of "
        "Duvenaud et al. 2013). Evolved kernels: EvoCov, which fits with each metric and compares "
        f"by BIC. {SPENT}"
    )
    tables["Spent, median and range"] = _spent(ends)
    compared = list(filter(None, map(ranks.compare, parts.values())))
    return Output(ends, _differences(compared), tables, notes)


def _differences(compared: list[ranks.Ranks]) -> Figure | None:
    """Return critical-differences diagrams below each other."""
    if not compared:
        return None
    figure, axes = style.panels(len(compared), 7, 2, columns=1)
    for comparison, ax in zip(compared, axes, strict=True):
        ranks.draw(comparison, ax)
    return figure


def _mutations(paths: pd.DataFrame) -> Output:
    """Return table 5: mutants of a composition that are better fitted, simpler, or both."""
    rows = []
    for (data, _), path in paths.groupby(["data", "trial"], sort=False):
        original, mutants = path.iloc[0], path.iloc[1:]
        better, simpler = mutants["rmse"] < original["rmse"], mutants["size"] < original["size"]
        shares = {"better": better.mean(), "simpler": simpler.mean()}
        shares["both"] = (better & simpler).mean()
        size = {"mutants": len(mutants), "hyperparameters": original["size"]}
        rows.append({"series": data} | shares | size | {"RMSE": original["rmse"]})
    summary = pd.DataFrame(rows).groupby("series", sort=False).mean()
    as_published = published.MUTATIONS.reindex(summary.index).add_suffix(", published")
    return Output(
        paths,
        _scatter(paths),
        {
            "Shares of mutants": _shown(
                pd.concat([summary, as_published], axis=1).dropna(axis=1, how="all")
            )
        },
        [
            "The original is the best composition of a compositional kernel search, as a tree. "
            "Better: the test RMSE is smaller. Simpler: there are fewer hyperparameters, the noise "
            "included. Mutants that can't predict count as worse."
        ],
    )


def _scatter(paths: pd.DataFrame) -> Figure:
    """Return errors against numbers of hyperparameters (figure 3), a panel for each series."""
    names = unique(paths["data"])
    figure, axes = style.panels(len(names), 2.6, 2.3, columns=5)
    for ax, name in zip(axes, names, strict=True):
        path = paths[paths["data"] == name]
        original, mutants = path.iloc[0], path.iloc[1:]
        mutants = mutants[np.isfinite(mutants["rmse"])]
        ax.axhline(original["rmse"], color=style.MUTED, linewidth=0.8)
        ax.axvline(original["size"], color=style.MUTED, linewidth=0.8)
        ax.plot(mutants["size"], mutants["rmse"], "o", color=style.PALETTE[0], ms=3, alpha=0.4)
        ax.plot(original["size"], original["rmse"], "^", color=style.INK, label="original")
        ax.set(title=TSDL.get(name, name), yscale="log")
        _plain(ax)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.tidy(ax)
    figure.supxlabel("hyperparameters", fontsize="medium")
    figure.supylabel("test RMSE", fontsize="medium")
    return figure


def _errors(paths: pd.DataFrame) -> Output:
    """Return table 6: errors, absolute and standardised by the smallest published ones."""
    reference = published_errors()
    best, means = (
        pd.DataFrame(
            {
                title: reference[f"{name}{what}" if f"{name}{what}" in reference else name]
                for name, title in NAMES.items()
            }
        ).add_suffix(", published")
        for what in ("best", "mean")
    )
    return _compared(paths, reference["denom"], best, means)


def _hourly(paths: pd.DataFrame) -> Output:
    """Return table 8: errors, absolute and standardised by the smallest of these results."""
    smallest = _ends(paths).groupby("data")["rmse"].min()
    nothing = pd.DataFrame(index=smallest.index)
    output = _compared(paths, smallest, nothing, nothing)
    sizes = _with_summary(_means(_ends(paths), "size"))
    output.tables["Hyperparameters, the noise included (table 9)"] = _shown(sizes)
    output.notes.insert(
        0,
        "The series are simulated: Poisson counts by the hour, with spikes every day or week, a "
        "single burst, a slow drift, or no pattern. The paper's counts of hashtags aren't "
        "available. PS has an amplitude in addition to the paper's hyperparameters.",
    )
    return output


def _compared(
    paths: pd.DataFrame, smallest: pd.Series, known_best: pd.DataFrame, known_means: pd.DataFrame
) -> Output:
    """Return tables and a figure of errors, with published ones beside.

    Parameters
    ----------
    paths : DataFrame
    smallest : Series
        Error of each series by which errors are divided.
    known_best, known_means : DataFrame
        Published errors: of the best trial, and means over trials.
    """
    paths = paths.assign(standardised=paths["rmse"] / paths["data"].map(smallest))
    ends = _ends(paths)
    means = _means(ends, "rmse")
    best = _wide(ends.groupby(["data", "method"], sort=False)["rmse"].min())
    beside = [best.join(known_best), means.join(known_means)]
    relative = [_with_summary(part.div(smallest, axis=0).loc[means.index]) for part in beside]
    tested, notes = _tested(means)
    tables = {
        "RMSE / smallest RMSE: mean over trials (best trial)": _mean_and_best(*relative),
        "RMSE: mean over trials (best trial)": _mean_and_best(*beside),
        "All series and trials, and averages over kernels": _overall(ends, smallest),
        **tested,
        "Spent, median and range": _spent(ends),
    }
    return Output(
        paths, _progress(paths, ranks.compare(means)), tables, [*notes, AVERAGED, CURVES, SPENT]
    )


def _overall(ends: pd.DataFrame, smallest: pd.Series) -> pd.DataFrame:
    """Return medians over series and trials, of best kernels and of averages over kernels."""
    averaged = ends["rmse_averaged"] / ends["data"].map(smallest)
    values = {
        "RMSE / smallest": ends["standardised"],
        "averaged": averaged,
        "log density": ends["log_density"],
        "averaged log density": ends["log_density_averaged"],
    }
    table = pd.DataFrame(values).groupby(ends["method"], sort=False).median()
    return _shown(table).rename_axis(index="median by method")


def _mean_and_best(best: pd.DataFrame, means: pd.DataFrame) -> pd.DataFrame:
    """Return means, with the best of several trials in brackets, as text."""
    best, means = _shown(best), _shown(means)
    return (means + " (" + best + ")").where(means != best, means)


def _progress(paths: pd.DataFrame, compared: ranks.Ranks | None) -> Figure:
    """Return median standardised errors against time and evaluations, and mean ranks.

    Evaluations are drawn as shares of those of a search, because their number depends on the
    length of a series, and begin with the first error.
    """
    evaluations = paths.groupby(["data", "method", "trial"], sort=False)["evaluations"]
    first, last = evaluations.transform("first"), evaluations.transform("last")
    share = (paths["evaluations"] - first) / (last - first).clip(lower=1)
    paths = paths.assign(share=share)
    figure = Figure(figsize=(8, 5.6 if compared else 3.4), layout="constrained")
    rows = figure.add_gridspec(2 if compared else 1, 2)
    for column, (spent, label) in enumerate(
        {"elapsed": "CPU seconds", "share": "share of the evaluations"}.items()
    ):
        ax = figure.add_subplot(rows[0, column])
        _curves(paths, spent, ax)
        ax.set(xlabel=label, ylabel="RMSE / smallest RMSE, median", yscale="log")
        _plain(ax)
        style.tidy(ax)
    style.legend_below(figure, ax)
    if compared:
        ranks.draw(compared, figure.add_subplot(rows[1, :]))
    return figure


def _plain(ax: Axes) -> None:
    """Label a logarithmic axis with numbers instead of powers."""
    ax.yaxis.set_major_formatter(LogFormatter())
    ax.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.0, 0.4)))


def _curves(paths: pd.DataFrame, spent: str, ax: Axes) -> None:
    """Draw the median over series and trials of the error of the best kernel so far.

    Parameters
    ----------
    paths : DataFrame
    spent : str
        Column against which errors are drawn.
    ax : Axes
    """
    looks = style.line_styles(unique(paths["method"]))
    at = SHARES * float(_ends(paths)[spent].median())
    for method, of_method in paths.groupby("method", sort=False):
        curves = []
        for _, path in of_method.groupby(["data", "trial"]):
            place = np.searchsorted(path[spent], at, side="right") - 1
            errors = path["standardised"].to_numpy()
            curves.append(np.where(place < 0, np.inf, errors[np.maximum(place, 0)]))
        middle = np.median(curves, axis=0)
        shown = np.isfinite(middle)
        look = looks[str(method)]
        options: style.Style = look | {"markevery": 10, "markersize": 4, "linewidth": 1.2}
        ax.plot(at[shown], middle[shown], label=str(method), **options)


def _sizes(paths: pd.DataFrame) -> Output:
    """Return table 7: numbers of hyperparameters."""
    ends = _ends(paths)
    sizes = _means(ends, "size")
    as_published = (
        published.SIZES.rename(columns=NAMES).reindex(sizes.index).add_suffix(", published")
    )
    return Output(
        ends,
        None,
        {"Hyperparameters, mean over trials": _shown(_with_summary(sizes.join(as_published)))},
        ["The noise is included. The results are those of table 6 (`evocov-table6`)."],
    )


MAKERS: dict[str, Callable[[pd.DataFrame], Output]] = {
    "evocov-table4": _metrics,
    "evocov-table5": _mutations,
    "evocov-table6": _errors,
    "evocov-table7": _sizes,
    "evocov-table8": _hourly,
}
