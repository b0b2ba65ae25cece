"""Table of targets by fit and criterion: predictions, sizes of kernels, and R-hat of chains."""

import pandas as pd

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import interval, plus_minus, tidy

#: Fit and criterion of methods that don't specify them: the selector's defaults.
DEFAULTS = {"fit": "pilot", "criterion": "posterior"}


def make(evidence: Evidence) -> Output:
    """Return a table with one row for each study, target, fit and criterion."""
    table = evidence.selections
    rows = {
        (evidence.title(str(study)), *_setting(evidence, str(method))): _row(
            evidence, own, str(study), str(method)
        )
        for (study, method), own in table.groupby(["study", "method"], sort=False)
    }
    index = pd.MultiIndex.from_tuples(rows, names=["study", "target", "fit", "criterion"])
    return Output(
        tidy(table, "log_likelihood", "size", "dropped"),
        tables={"Targets by fit and criterion": pd.DataFrame(list(rows.values()), index=index)},
        notes=[
            "Log-likelihoods are means over users and time steps; intervals are over trials. The "
            "truth is found if the composition selected at the last time step is the user's true "
            "one. R-hat is the largest value for the number of clusters and the log joint density "
            "in all trainings."
        ],
    )


def _setting(evidence: Evidence, method: str) -> tuple[str, str, str]:
    known = evidence.settings.methods[method]
    options = DEFAULTS | known.options
    return known.learns, str(options["fit"]), str(options["criterion"])


def _row(evidence: Evidence, own: pd.DataFrame, study: str, method: str) -> dict[str, str]:
    steps = own.groupby("time_step")
    last = own[own["time_step"] == own["time_step"].max()]
    by_trial = own.groupby("trial")["log_likelihood"].mean()
    tasks = [p for p in evidence.tasks if p.name == study and method in p.methods]
    r_hats = evidence.store.r_hats(tasks)
    known = last["truth"].fillna("").astype(bool)
    found = (last["truth"] == last["composition"])[known]
    return {
        "log-likelihood": plus_minus(by_trial.mean(), interval(by_trial)),
        "size at the first time step": f"{steps['size'].mean().iloc[0]:.1f}",
        "at the last": f"{steps['size'].mean().iloc[-1]:.1f}",
        "features dropped a step": f"{own['dropped'].mean():.2f}",
        "truth found, per cent": f"{100 * found.mean():.0f}" if len(found) else "",
        "largest R-hat": f"{max(r_hats):.2f}" if r_hats else "",
    }
