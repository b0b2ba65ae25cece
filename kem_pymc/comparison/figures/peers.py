"""Comparison of KEM with every other method on every study: gains with intervals, and verdicts."""

import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import tidy
from kem_pymc.comparison.tables import (
    OURS,
    UNITS,
    VERDICTS,
    gain_table,
    mean_gain_table,
    selection_table,
    step_table,
    time_table,
    verdict_table,
)
from kem_pymc.comparison.verdicts import MARGIN, verdicts
from kem_pymc.plots import style


def make(evidence: Evidence) -> Output:
    """Return a figure of the mean gains of KEM by study and method, and tables."""
    table = evidence.selections.dropna(subset="log_likelihood")
    return Output(
        tidy(table, "log_likelihood"),
        _draw(evidence, table),
        {
            "Mean gain of KEM": mean_gain_table(evidence, table),
            "Verdicts": verdict_table(evidence, table),
            "Mean test log-likelihood": step_table(evidence, "log_likelihood", table),
            "Gain of KEM, paired": gain_table(evidence, "log_likelihood"),
            "Milliseconds per selection": time_table(evidence),
            "Summary of selections": selection_table(evidence, evidence.selections),
        },
        [UNITS, VERDICTS],
    )


def _draw(evidence: Evidence, table: pd.DataFrame) -> Figure | None:
    """Return a figure of mean gains with intervals, one panel for each study.

    None if KEM or all other methods are missing.
    """
    if OURS not in set(table["method"]) or table["method"].nunique() < 2:
        return None
    rows = verdicts(table, OURS, evidence.generator())
    studies = list(rows["study"].unique())
    looks = style.line_styles([str(other) for other in rows["other"].unique()])
    columns = min(3, len(studies))
    lines = -(-len(studies) // columns)
    height = 0.3 * table["method"].nunique() + 0.8
    figure = Figure(figsize=(4.2 * columns, height * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax, study in zip(axes, studies, strict=False):
        own = rows[rows["study"] == study].iloc[::-1]
        for place, row in enumerate(own.itertuples()):
            half = row.half if row.half == row.half else None  # NaN with a single user
            ax.errorbar(row.gain, place, xerr=half, **looks[str(row.other)])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.axvline(-MARGIN, color="black", linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(own)), list(own["other"]))
        ax.set(title=evidence.title(str(study)), ylim=(-0.6, len(own) - 0.4))
        ax.set_xlabel("gain of KEM, nats per point\n(mean, 95% interval over users)")
        style.tidy(ax)
    for ax in axes[len(studies) :]:
        ax.set_axis_off()
    return figure
