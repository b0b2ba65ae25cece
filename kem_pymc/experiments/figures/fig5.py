"""Figure 5: compositions selected with few and with many points, by true composition."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.experiments.figures.output import Evidence, Output
from kem_pymc.experiments.summaries import tidy
from kem_pymc.kernels.composition import Composition
from kem_pymc.plots import compositions

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
        _draw(table),
        {
            f"{SHOWN} most frequent compositions": _listed(frequent, table["method"].unique()),
            "The paper's claims about KEM": _claims(table, ends),
        },
    )


def contains(composition: str, truth: str) -> bool:
    """Return whether a composition contains all candidates of the true one."""
    return Composition.parse(truth) <= Composition.parse(composition)


def _draw(table: pd.DataFrame) -> Figure:
    steps = table.assign(time_step=table["time_step"] + 1)  # the paper counts from 1
    axes = compositions(
        steps, columns="method", rows="truth", most=SHOWN, label="share of test users"
    )
    figure: Figure = axes[0, 0].figure
    return figure


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
