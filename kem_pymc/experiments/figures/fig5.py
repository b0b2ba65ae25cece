"""Figure 5: which compositions are selected with few points and with many, by true composition."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.experiments.figures.output import Evidence, Output
from kem_pymc.experiments.summaries import tidy
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots import composition_colours, style

#: Compositions shown of each method, as in the paper.
SHOWN = 5


def make(evidence: Evidence) -> Output:
    """Return the most frequent compositions at the first and last time step, and how often."""
    table = evidence.selections
    ends = [int(table["time_step"].min()), int(table["time_step"].max())]
    table = table[table["time_step"].isin(ends)]
    keys = ["truth", "time_step", "method", "composition"]
    counts = table.groupby(keys, sort=False).size().rename("count").reset_index()
    totals = counts.groupby(keys[:-1])["count"].transform("sum")
    counts["share"] = counts["count"] / totals
    frequent = counts.sort_values("count", ascending=False, kind="stable")
    frequent = frequent.groupby(keys[:-1], sort=False).head(SHOWN)
    return Output(
        tidy(table, "size")
        .drop(columns="quantity")
        .rename(columns={"value": "size"})
        .merge(table[["study", "trial", "method", "user", "time_step", "composition", "truth"]]),
        _draw(frequent, ends),
        {
            f"{SHOWN} most frequent compositions": _listed(frequent),
            "What the paper says of KEM": _claims(table, ends),
        },
    )


def contains(composition: str, truth: str) -> bool:
    """Return whether a composition has all candidates of another."""
    return Composition.parse(truth) <= Composition.parse(composition)


def _claims(table: pd.DataFrame, ends: list[int]) -> pd.DataFrame:
    rows = []
    for method, own in table.groupby("method", sort=False):
        first, last = (own[own["time_step"] == step] for step in ends)
        frequent = first["composition"].value_counts().index[:SHOWN]
        row: dict[str, Any] = {
            "method": method,
            "at most one component, first step": f"{(first['size'] <= 1).mean():.0%}",
            "most frequent, first step": ", ".join(frequent),
        }
        for truth, users in last.groupby("truth", sort=False):
            found = [contains(c, str(truth)) for c in users["composition"]]
            row[f"{truth} in it, last step"] = f"{np.mean(found):.0%}"
        rows.append(row)
    return pd.DataFrame(rows).set_index("method")


def _listed(frequent: pd.DataFrame) -> pd.DataFrame:
    texts = [
        f"{c} {s:.0%}" for c, s in zip(frequent["composition"], frequent["share"], strict=True)
    ]
    rows = frequent.assign(text=texts, step=frequent["time_step"] + 1)
    return rows.groupby(["truth", "step", "method"], sort=False)["text"].agg(", ".join).to_frame()


def _draw(frequent: pd.DataFrame, ends: list[int]) -> Figure:
    truths, methods = frequent["truth"].unique(), list(frequent["method"].unique())
    figure = Figure(
        figsize=(3.4 * len(methods), 2.3 * len(truths) * len(ends)), layout="constrained"
    )
    axes = figure.subplots(len(truths) * len(ends), len(methods), squeeze=False, sharex=True)
    colours = composition_colours(
        frequent.groupby("composition")["share"].sum().sort_values()[::-1].index
    )
    for row, (truth, step) in enumerate((t, s) for t in truths for s in ends):
        for ax, method in zip(axes[row], methods, strict=True):
            own = frequent[
                (frequent["truth"] == truth)
                & (frequent["time_step"] == step)
                & (frequent["method"] == method)
            ].iloc[::-1]
            fills = [colours.get(c, style.OTHER) for c in own["composition"]]
            ax.barh(own["composition"], own["share"], color=fills, edgecolor=style.MUTED, lw=0.5)
            ax.set(xlim=(0, 1))
            ax.tick_params(axis="y", labelsize=8)
            style.tidy(ax)
            if row == 0:
                ax.set_title(method)
        axes[row][0].set_ylabel(f"{truth}\ntime step {step + 1}", fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("share of test users")
    return figure
