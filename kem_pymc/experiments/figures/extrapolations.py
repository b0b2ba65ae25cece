"""EvoCov, tables 4, 6 and 7: errors and numbers of hyperparameters on thirteen time series."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.experiments.figures.output import Output
from kem_pymc.experiments.ranks import draw_ranks, ranks
from kem_pymc.experiments.settings import Extrapolations

#: Published errors that are shown beside ours, by column of the file, with their names.
PUBLISHED = {
    "ABCDacc": "ABCD accuracy",
    "GPSS": "GPSS",
    "SE": "SE",
    "RSmean": "Random Search",
    "GWFmean": "Go With The First",
    "ELmean": "EvoCov LML",
    "ESmean": "EvoCov SoPL",
}


def make(
    name: str, figure: Extrapolations, results: pd.DataFrame, published: pd.DataFrame
) -> Output:
    """Return a table and its picture.

    Parameters
    ----------
    name : {"evocov-table4", "evocov-table6", "evocov-table7"}
    figure : Extrapolations
    results : DataFrame
        One row per series, method, metric and trial, see
        :func:`kem_pymc.experiments.extrapolations.run`.
    published : DataFrame
        Published errors by series, see :func:`kem_pymc.datasets.published_errors`.
    """
    names = {(way.method, way.metric): title for title, way in figure.methods.items()}
    keys = zip(results["method"], results["metric"], strict=True)
    results = results.assign(method=[names[key] for key in keys])
    results["standardised"] = results["rmse"] / results["series"].map(published["denom"])
    results["standardised_single"] = results["rmse_single"] / results["series"].map(
        published["denom"]
    )
    order = list(figure.methods)
    if name == "evocov-table7":
        counts = _by_series(results, "hyperparameters", order)
        tables = {"Number of hyperparameters, mean over trials, with the noise": _digits(counts, 1)}
        return Output(results, None, tables, [])
    errors = _by_series(results, "standardised", order)
    tables = {
        "RMSE over the smallest published RMSE, mean over trials": _digits(errors, 3),
        "The same, best trial": _digits(_by_series(results, "standardised", order, "min"), 3),
        "The same, mean over trials, predictions of the best kernel alone": _digits(
            _by_series(results, "standardised_single", order), 3
        ),
        "RMSE, mean over trials": _digits(_by_series(results, "rmse", order), 2),
        "Log density per point, mean over trials": _digits(
            _by_series(results, "log_density", order), 3
        ),
        "All series and trials": _overall(results, order),
        "Budget, medians": _budgets(results, order),
    }
    if name == "evocov-table6":
        ours = set(results["series"])
        columns = (
            published[list(PUBLISHED)].rename(columns=PUBLISHED).div(published["denom"], axis=0)
        )
        tables["Published, over the smallest published RMSE"] = _digits(
            _with_summaries(columns[columns.index.isin(ours)]), 3
        )
    notes = [
        "Predictions average over kernels by exp(-BIC / 2). Repeated times of a training part are "
        "averaged.",
    ]
    single = errors.drop(index=["mean", "median"])
    if len(single) < 2:
        return Output(results, None, tables, notes)
    found = ranks(single)
    pairs = found.pairs.rename_axis(["better", "worse"]).rename("adjusted p").reset_index()
    tables["Pairs of methods by mean rank, p values adjusted by Holm's method"] = pairs.assign(
        **{"adjusted p": pairs["adjusted p"].map("{:.2g}".format)}
    ).set_index(["better", "worse"])
    picture = Figure(figsize=(6.5, 3.2), layout="constrained")
    draw_ranks(found, picture.add_subplot())
    return Output(results, picture, tables, notes)


def _by_series(
    results: pd.DataFrame, value: str, order: list[str], over_trials: str = "mean"
) -> pd.DataFrame:
    table = results.pivot_table(index="series", columns="method", values=value, aggfunc=over_trials)
    return _with_summaries(table[order])


def _with_summaries(table: pd.DataFrame) -> pd.DataFrame:
    summary = pd.DataFrame({"mean": table.mean(), "median": table.median()}).T
    return pd.concat([table, summary]).rename_axis("series")


def _digits(table: pd.DataFrame, digits: int) -> pd.DataFrame:
    return table.map(lambda value: "" if np.isnan(value) else f"{value:.{digits}f}")


def _overall(results: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Return medians and means over all series and trials together."""
    groups = results.groupby("method")
    table = pd.DataFrame(
        {
            "median standardised RMSE": groups["standardised"].median(),
            "mean standardised RMSE": groups["standardised"].mean(),
            "median log density": groups["log_density"].median(),
        }
    )
    return _digits(table.loc[order], 3)


def _budgets(results: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    table = results.groupby("method")[["seconds", "kernels", "evaluations"]].median()
    return _digits(table.loc[order], 0)
