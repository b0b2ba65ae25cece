"""BOMS, figure 2: best log evidence per point against models evaluated, and against seconds."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.search.searches import STARTS
from experiments.settings import Searches
from kem_pymc.comparison.output import Output
from kem_pymc.comparison.summaries import interval, plus_minus
from kem_pymc.plots import style
from kem_pymc.plots.scores import log_likelihood

#: Numbers of evaluated models in the table.
AT = (5, 10, 20, 40)

#: Names of the methods.
NAMES = {"cks": "CKS", "boms": "BOMS", "random": "Random"}


def make(searches: Searches, paths: pd.DataFrame, again: pd.DataFrame) -> Output:
    """Return the figure and its tables.

    Parameters
    ----------
    searches : Searches
    paths : DataFrame
        Paths of all searches, see :class:`experiments.search.searches.SearchTask`.
    again : DataFrame
        Fits of the best models from many starts, see :class:`.OracleTask`.
    """
    paths = paths.assign(
        models=paths["evaluation"] + 1,
        method=paths["method"].map(NAMES),
        title=paths["data"].map(searches.data),
    )
    known = np.maximum(
        paths.groupby("data", sort=False)["best_per_point"].max(),
        again.groupby("data", sort=False)["per_point"].max(),
    ).rename(searches.data)
    return Output(
        paths,
        _draw(paths, known),
        {
            "Best log evidence per point, mean over trials": _scores(paths, known),
            "BOMS less CKS, best log evidence per point": _against(paths),
            "Seconds, and share of the search itself": _times(paths),
        },
        [
            "Intervals are 95 % intervals over trials, which differ in random starting points. The "
            "oracle (dashed) is the best score that is known: of any search, or of the best models "
            f"of all, fitted again from {STARTS} starts."
        ],
    )


def _draw(paths: pd.DataFrame, known: pd.Series) -> Figure:
    titles = list(dict.fromkeys(paths["title"]))
    figure = Figure(figsize=(3.3 * len(titles), 5.6), layout="constrained")
    axes = figure.subplots(2, len(titles), squeeze=False)
    for k, title in enumerate(titles):
        part = paths[paths["title"] == title]
        low = part.loc[part["models"] == min(5, part["models"].max()), "best_per_point"].min()
        top = known[title]
        log_likelihood(
            part,
            time_step="models",
            value="best_per_point",
            unit="trial",
            label="log evidence per point",
            legend=k == 0,
            ax=axes[0, k],
        )
        axes[0, k].set(title=title, xlabel="models evaluated")
        looks = style.line_styles(list(dict.fromkeys(part["method"])))
        for method, path in part.groupby("method", sort=False):
            for _, trial in path.groupby("trial"):
                axes[1, k].step(
                    trial["elapsed"],
                    trial["best_per_point"],
                    where="post",
                    color=looks[str(method)]["color"],
                    linewidth=0.9,
                )
        axes[1, k].set(xlabel="seconds", ylabel="log evidence per point", xscale="log")
        axes[1, k].xaxis.set_minor_formatter(NullFormatter())  # there is no room for more numbers
        for ax in axes[:, k]:
            ax.axhline(top, color=style.MUTED, linewidth=0.8, linestyle="--")
            ax.set_ylim(low, top + 0.05 * (top - low))
        style.tidy(axes[1, k])
    return figure


def _at(paths: pd.DataFrame) -> pd.DataFrame:
    last = min(AT[-1], paths["models"].max())
    return paths[paths["models"].isin({*AT, last})]


def _scores(paths: pd.DataFrame, known: pd.Series) -> pd.DataFrame:
    cells = {
        (title, models, method): plus_minus(scores.mean(), interval(scores))
        for (title, models, method), scores in _at(paths).groupby(
            ["title", "models", "method"], sort=False
        )["best_per_point"]
    }
    table = pd.Series(cells).unstack()
    table.index.names = ["data", "models"]
    return table.assign(oracle=[f"{known[title]:.2f}" for title, _ in table.index])


def _against(paths: pd.DataFrame) -> pd.DataFrame:
    """Return differences within trials, which have the same seed."""
    wide = _at(paths).pivot_table(
        index=["title", "models", "trial"], columns="method", values="best_per_point", sort=False
    )
    if not {"BOMS", "CKS"} <= {*wide.columns}:
        return pd.DataFrame()
    gain = wide["BOMS"] - wide["CKS"]
    rows = [
        {
            "data": title,
            "models": models,
            "difference": plus_minus(gains.mean(), interval(gains)),
            "trials in which BOMS is ahead": f"{int((gains > 0).sum())} of {len(gains)}",
        }
        for (title, models), gains in gain.groupby(level=["title", "models"], sort=False)
    ]
    return pd.DataFrame(rows).set_index(["data", "models"])


def _times(paths: pd.DataFrame) -> pd.DataFrame:
    last = paths.groupby(["data", "method", "trial"])["models"].transform("max")
    ends = paths[paths["models"] == last]
    rows = [
        {
            "data": title,
            "method": method,
            "seconds": f"{searches['elapsed'].median():.1f}",
            "share of the search": f"{np.median(searches['overhead']):.1%}",
        }
        for (title, method), searches in ends.groupby(["title", "method"], sort=False)
    ]
    return pd.DataFrame(rows).set_index(["data", "method"])
