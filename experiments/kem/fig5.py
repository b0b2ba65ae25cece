"""Figure 5: compositions selected with few and with many points, by true composition."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import tidy
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots.style import MUTED, OTHER, Style, composition_colours, spelled, text_size
from kem_pymc.plots.style import tidy as tidy_axes

#: Number of compositions shown for each method, as in the paper.
SHOWN = 5


def make(evidence: Evidence) -> Output:
    """Return the most frequent compositions at the first and last time step, with frequencies."""
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
        draw(table),
        {
            f"{SHOWN} most frequent compositions": _listed(frequent, table["method"].unique()),
            "The paper's claims about KEM": _claims(table, ends),
        },
    )


def contains(composition: str, truth: str) -> bool:
    """Return whether a composition contains all candidates of the true one."""
    return Composition.parse(truth) <= Composition.parse(composition)


def draw(table: pd.DataFrame) -> Figure:
    """Draw a panel for each true composition and time step (rows) and method (columns).

    The bars of a panel, including that of all other compositions at its bottom, add up to one.
    """
    colours = composition_colours(table["composition"].value_counts().index)
    panels = list(product(table["truth"].unique(), sorted(table["time_step"].unique())))
    methods = table["method"].unique()
    size = 0.4 + 2.9 * len(methods), 0.5 + (0.29 * (SHOWN + 1) + 0.25) * len(panels)
    figure = Figure(size, layout="constrained")
    axes = figure.subplots(len(panels), len(methods), squeeze=False, sharex=True, sharey=True)
    for row, (truth, step) in zip(axes, panels, strict=True):
        row[0].set_ylabel(f"{spelled(truth)}\ntime step {step + 1}")  # the paper counts from 1
        for ax, method in zip(row, methods, strict=True):
            rows = table[(table["truth"] == truth) & (table["time_step"] == step)]
            rows = rows.loc[rows["method"] == method, "composition"]
            _draw_bars(ax, rows.value_counts(normalize=True, sort=False), colours)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(method, fontsize="medium")
    for ax in axes[-1]:
        ax.set_xlabel("share of test users")
    return figure


def _draw_bars(ax: Axes, shares: pd.Series, colours: dict[str, str]) -> None:
    """Draw a bar below the name of each composition, the most frequent on top, others last."""
    ax.set(xlim=(0, 1), ylim=(-SHOWN - 0.55, 0.65), xticks=[0, 0.5, 1], yticks=[])
    tidy_axes(ax)
    shares = shares.sort_values(ascending=False, kind="stable")
    bars = [(spelled(name), colours.get(name, OTHER), s) for name, s in shares[:SHOWN].items()]
    if len(shares) > SHOWN:
        bars.append((f"{len(shares) - SHOWN} more", OTHER, shares[SHOWN:].sum()))
    room = ax.get_window_extent().width / ax.figure.dpi * 72
    for place, (name, colour, share) in enumerate(bars):
        ax.barh(-place - 0.2, share, height=0.36, color=colour, edgecolor=MUTED, linewidth=0.5)
        look: Style = {"fontsize": 7.5, "va": "bottom"}
        ax.text(0.015, -place + 0.03, shortened(name, 7.5, 0.8 * room), **look)
        ax.text(0.99, -place + 0.03, f"{share:.0%}", ha="right", **look)


def _claims(table: pd.DataFrame, ends: list[int]) -> pd.DataFrame:
    rows = []
    for method, of_method in table.groupby("method", sort=False):
        first, last = (of_method[of_method["time_step"] == step] for step in ends)
        frequent = first["composition"].value_counts().index[:SHOWN]
        row: dict[str, Any] = {
            "method": method,
            "at most one component, first step": f"{(first['size'] <= 1).mean():.0%}",
            "most frequent, first step": ", ".join(frequent),
        }
        for truth, users in last.groupby("truth", sort=False):
            contained = [contains(c, str(truth)) for c in users["composition"]]
            row[f"{truth} in it, last step"] = f"{np.mean(contained):.0%}"
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


def shortened(text: str, size: float, width: float) -> str:
    """Return a text, with its end cut off if it is wider than `width` points."""
    if text_size(text, size)[0] <= width:
        return text
    while text and text_size(f"{text}\N{HORIZONTAL ELLIPSIS}", size)[0] > width:
        text = text[:-1]
    return f"{text.rstrip(' +')}\N{HORIZONTAL ELLIPSIS}"
