"""Figure 5: which compositions are selected with few points and with many, by true composition."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
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
        _draw(frequent, list(table["method"].unique()), ends),
        {
            f"{SHOWN} most frequent compositions": _listed(frequent, table["method"].unique()),
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


def _listed(frequent: pd.DataFrame, methods: np.ndarray) -> pd.DataFrame:
    shares = zip(frequent["composition"], frequent["share"], strict=True)
    texts = [f"{composition} {share:.0%}" for composition, share in shares]
    rows = frequent.assign(
        step=frequent["time_step"] + 1,
        method=pd.Categorical(frequent["method"], methods),
        compositions=texts,
    )
    keys = ["truth", "step", "method"]
    return rows.groupby(keys, observed=True)["compositions"].agg(", ".join).to_frame()


def _draw(frequent: pd.DataFrame, methods: list[str], ends: list[int]) -> Figure:
    rows = [(truth, step) for truth in frequent["truth"].unique() for step in ends]
    figure = Figure(figsize=(3.2 * len(methods), 1.9 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), len(methods), squeeze=False, sharex=True, sharey=True)
    shares = frequent.groupby("composition")["share"].sum()
    colours = composition_colours(shares.sort_values(ascending=False).index)
    for row, (truth, step) in zip(axes, rows, strict=True):
        shown = frequent[(frequent["truth"] == truth) & (frequent["time_step"] == step)]
        for ax, method in zip(row, methods, strict=True):
            _draw_bars(ax, shown[shown["method"] == method], colours)
        row[0].set_ylabel(f"{truth}\ntime step {step + 1}", fontsize=9)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(method)
    for ax in axes[-1]:
        ax.set_xlabel("share of test users")
    return figure


def _draw_bars(ax: Axes, own: pd.DataFrame, colours: Mapping[str, str]) -> None:
    """Draw a bar for each composition, the most frequent on top, with its name on it or beside."""
    for place, (name, share) in enumerate(zip(own["composition"], own["share"], strict=True)):
        fill = colours.get(name, style.OTHER)
        ax.barh(-place, share, color=fill, edgecolor=style.MUTED, lw=0.5)
        inside = share > 0.6
        ax.text(
            0.03 if inside else share + 0.03,
            -place,
            style.spelled(name),
            va="center",
            fontsize=7.5,
            color=style.ink_on(fill) if inside else style.INK,
        )
    ax.set(xlim=(0, 1.3), ylim=(0.6 - SHOWN, 0.6), xticks=[0, 0.5, 1], yticks=[])
    style.tidy(ax)
