"""Figure 4: test log-likelihood and time per selection, by time step, on synthetic data."""

import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import interval, plus_minus, tidy
from kem_pymc.comparison.tables import UNITS, gain_table, step_table, time_table
from kem_pymc.plots import log_likelihood
from kem_pymc.plots.style import legend_below


def make(evidence: Evidence) -> Output:
    """Return a figure with two panels, and tables of means and paired gains of KEM."""
    table = evidence.selections
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    persons = table.assign(user=table["person"])
    for ax, value, label in (
        (left, "log_likelihood", "test log-likelihood"),
        (right, "seconds", "seconds per selection"),
    ):
        log_likelihood(
            persons, time_step="points", value=value, unit="user", label=label, legend=False, ax=ax
        )
        ax.set_xticks(sorted(table["points"].unique()))
    right.set_yscale("log")
    legend_below(figure, left)
    return Output(
        tidy(table, "log_likelihood", "seconds"),
        figure,
        {
            "Mean test log-likelihood": step_table(evidence, "log_likelihood"),
            "Gain of KEM, paired": gain_table(evidence, "log_likelihood"),
            "Milliseconds per selection": time_table(evidence),
            "Seconds to learn": _learning(evidence),
        },
        [UNITS],
    )


def _learning(evidence: Evidence) -> pd.DataFrame:
    """Return the mean time that the training of each method took, in seconds per trial."""
    rows: dict[str, list[float]] = {}
    for task in evidence.tasks:
        for method in task.methods:
            rows.setdefault(method, []).append(evidence.store.seconds(task))
    texts = {m: plus_minus(sum(v) / len(v), interval(v), 1) for m, v in rows.items()}
    return pd.DataFrame({"seconds": texts}).rename_axis("method")
