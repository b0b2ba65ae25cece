"""Figure 6: test log-likelihood on the next batch, by time step, on real data."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.experiments.figures.output import Evidence, Output
from kem_pymc.experiments.figures.tables import OURS, gain_table, step_table
from kem_pymc.experiments.summaries import gains, tidy, units_of
from kem_pymc.plots import log_likelihood
from kem_pymc.plots.style import legend_below


def make(evidence: Evidence) -> Output:
    """Return one panel for each study, with means and paired gains of KEM as tables."""
    table = evidence.selections.dropna(subset="log_likelihood")
    studies = list(table["study"].unique())
    columns = min(3, len(studies))
    rows = -(-len(studies) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, study in zip(axes, studies, strict=False):
        own = table[table["study"] == study]
        (unit,) = units_of(own)
        counted = own.assign(time_step=own["time_step"] + 1)
        log_likelihood(counted, value="log_likelihood", unit=unit, legend=False, ax=ax)
        ax.set_title(evidence.title(study))
        # One user whose fit went wrong must not make everything else flat.
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
            "KEM best or tied": _verdicts(evidence, table),
            "Test users": _users(evidence, table),
        },
        ["The axis may leave out the worst tenth of the means; the table has them all."],
    )


def _verdicts(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return at how many time steps another method is ahead by more than the interval."""
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    rows = gains(table, "log_likelihood", OURS)
    rows["behind"] = rows["gain"] + rows["half"] < 0  # never where one unit is all there is
    steps = rows.groupby("study", sort=False)["time_step"].nunique()
    behind = rows[rows["behind"]].groupby("study")["time_step"].nunique()
    behind = behind.reindex(steps.index).fillna(0).astype(int)
    titles = [evidence.title(study) for study in steps.index]
    return pd.DataFrame(
        {
            "time steps": steps.to_numpy(),
            "another is ahead": behind.to_numpy(),
            "best or tied everywhere": np.where(behind == 0, "yes", "no"),
        },
        index=pd.Index(titles, name="study"),
    )


def _users(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return how many different test users there are at each time step."""
    counts = table.groupby(["study", "time_step"], sort=False)["user"].nunique().unstack()
    counts = counts.reindex(sorted(counts.columns), axis=1).fillna(0).astype(int)
    counts.index = pd.Index([evidence.title(str(study)) for study in counts.index], name="study")
    return counts.rename(columns=lambda step: step + 1).rename_axis(columns="time step")
