"""Figure 9: noise variances selected with the first batch, compared with the true one."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import tidy
from kem_pymc.plots import style

#: Noise variance of the synthetic study (the paper's figure 9).
TRUE_NOISE = 0.5


def make(evidence: Evidence) -> Output:
    """Return histograms of the log noise variance at the first time step, by method."""
    table = evidence.selections
    table = table[table["time_step"] == table["time_step"].min()]
    table = table.assign(log_noise=np.log(table["noise"]))
    methods = list(table["method"].unique())
    figure = Figure(figsize=(2.9 * len(methods), 2.8), layout="constrained")
    axes = figure.subplots(1, len(methods), sharex=True, sharey=True, squeeze=False)[0]
    low, high = table["log_noise"].min() - 0.2, table["log_noise"].max() + 0.2
    for ax, method in zip(axes, methods, strict=True):
        own = table.loc[table["method"] == method, "log_noise"]
        colour = style.line_styles([str(method)])[str(method)]["color"]
        ax.hist(own, bins=np.linspace(low, high, 25), density=True, color=colour)
        ax.axvline(np.log(TRUE_NOISE), linestyle=":", color="black", label="truth")
        ax.set(title=method, xlabel="log noise variance")
        style.tidy(ax)
    axes[0].set_ylabel("density")
    axes[0].legend(fontsize=8)
    return Output(
        tidy(table, "log_noise"), figure, {"Log noise variance, first step": _summary(table)}
    )


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    grouped = table.groupby("method", sort=False)["log_noise"]
    below = table.assign(below=table["log_noise"] < np.log(TRUE_NOISE))
    out = grouped.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).unstack().round(2)
    out.columns = [f"{q:.0%} quantile" for q in out.columns]
    out["truth"] = round(float(np.log(TRUE_NOISE)), 2)
    out["below the truth"] = (
        below.groupby("method", sort=False)["below"].mean().map("{:.0%}".format)
    )
    return out
