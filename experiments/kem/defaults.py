"""Tables of methods by study, with their ranks, from which the package's defaults are chosen."""

import pandas as pd

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import interval, plus_minus, tidy
from kem_pymc.comparison.tables import OURS, step_table

SCORE = "log_likelihood"


def make(evidence: Evidence) -> Output:
    """Return means over all time steps by method and study, and mean ranks over studies."""
    table = evidence.selections.dropna(subset=SCORE)
    keys = ["study", "method"]
    # Every time step has the same weight, however many users have a next batch there.
    by_step = table.groupby([*keys, "trial", "time_step"], sort=False)[SCORE].mean()
    by_unit = by_step.groupby([*keys, "trial"], sort=False).mean().unstack("method")
    means = by_unit.groupby("study", sort=False).mean()
    ranks = means.rank(axis="columns", ascending=False).mean().round(1)
    rows = {
        method: {
            evidence.title(str(study)): plus_minus(own.mean(), _behind(own, by_unit, study))
            for study, own in by_unit[method].groupby("study", sort=False)
        }
        | {"mean rank": ranks[method]}
        for method in by_unit.columns
    }
    wide = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    return Output(
        tidy(table, SCORE),
        tables={
            "Mean test log-likelihood": wide.sort_values("mean rank"),
            "Mean test log-likelihood by time step": step_table(evidence, SCORE),
        },
        notes=[f"Intervals are those of the difference to {OURS}, paired by trial."],
    )


def _behind(own: pd.Series, by_unit: pd.DataFrame, study: object) -> float:
    """Return half the length of the interval of a method's difference to `OURS` in a study."""
    differences = own - by_unit.loc[[study], OURS]
    return interval(differences) if differences.any() else float("nan")
