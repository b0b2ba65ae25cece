"""Calibration: coverage of predictive intervals, and the ranked probability score (no figure)."""

import pandas as pd

from kem_pymc.experiments.figures.output import Evidence, Output
from kem_pymc.experiments.figures.tables import step_table
from kem_pymc.experiments.scores import LEVELS
from kem_pymc.experiments.summaries import tidy


def make(evidence: Evidence) -> Output:
    """Return how often central intervals hold the truth, in per cent, and the mean CRPS."""
    table = evidence.selections.dropna(subset="crps").copy()
    covers = [f"cover{level}" for level in LEVELS]
    table[covers] *= 100
    first = table["time_step"] == table["time_step"].min()
    last = table["time_step"] == table.groupby("study")["time_step"].transform("max")
    ends = pd.concat([table[first].assign(when="first"), table[last].assign(when="last")])
    cover = ends.groupby(["study", "method", "when"], sort=False)[covers].mean().round(0)
    cover = cover.rename(index={name: evidence.title(name) for name in table["study"].unique()})
    cover = cover.astype(int).unstack()
    cover.columns = [f"{level[5:]} %, {when} step" for level, when in cover.columns]
    return Output(
        tidy(table, *covers, "crps"),
        tables={
            "Coverage of predictive intervals, per cent": cover,
            "CRPS (smaller is better)": step_table(evidence, "crps", table),
        },
    )
