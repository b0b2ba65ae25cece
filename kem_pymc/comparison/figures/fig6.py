"""Figure 6: test log-likelihood on the next batch, by time step, on real data."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import tidy
from kem_pymc.comparison.tables import UNITS, gain_table, step_table, time_table
from kem_pymc.plots import log_likelihood
from kem_pymc.plots.style import legend_below


def make(evidence: Evidence) -> Output:
    """Return a figure with one panel per study, and tables of means and paired gains of KEM."""
    table = evidence.selections.dropna(subset="log_likelihood")
    studies = list(table["study"].unique())
    columns = min(3, len(studies))
    rows = -(-len(studies) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, study in zip(axes, studies, strict=False):
        own = table[table["study"] == study]
        counted = own.assign(time_step=own["time_step"] + 1, user=own["person"])
        log_likelihood(counted, value="log_likelihood", unit="user", legend=False, ax=ax)
        ax.set_title(evidence.title(study))
        # The limits leave out outliers, so that one failed fit doesn't compress all other curves.
        low, high = np.quantile(
            own.groupby(["method", "time_step"])["log_likelihood"].mean(), [0.1, 1]
        )
        ax.set_ylim(low - 0.5 * (high - low) - 0.1, high + 0.3 * (high - low) + 0.1)
    for ax in axes[len(studies) :]:
        ax.set_axis_off()
    legend_below(figure, axes[0])
    return Output(
        tidy(table, "log_likelihood"),
        figure,
        {
            "Mean test log-likelihood": step_table(evidence, "log_likelihood"),
            "Gain of KEM, paired": gain_table(evidence, "log_likelihood"),
            "Milliseconds per selection": time_table(evidence),
            "Test users": _users(evidence, table),
        },
        [UNITS, "The axis may exclude the lowest tenth of the means; the table contains all."],
    )


def _users(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return the number of distinct test users by study and time step."""
    counts = table.groupby(["study", "time_step"], sort=False)["person"].nunique().unstack()
    counts = counts.reindex(sorted(counts.columns), axis=1).fillna(0).astype(int)
    counts.index = pd.Index([evidence.title(str(study)) for study in counts.index], name="study")
    return counts.rename(columns=lambda step: step + 1).rename_axis(columns="time step")
