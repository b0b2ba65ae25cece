"""Tables that several figures have; units are in :data:`UNITS`."""

import pandas as pd

from kem_pymc.experiments.figures.output import Evidence
from kem_pymc.experiments.summaries import by_step, gains, mean_gains, plus_minus
from kem_pymc.experiments.verdicts import LEAST_TRIALS, LEAST_USERS, MARGIN, STEP_MARGIN, verdicts

#: Whose gain over the others is told.
OURS = "KEM"

#: What log-likelihoods are counted in.
UNITS = (
    "Log-likelihoods are means over points, in nats. Targets are in standard deviations of the "
    "pilot users' targets; in simulated studies, and with the priors `synthetic`, as they are."
)


def step_table(
    evidence: Evidence, value: str, table: pd.DataFrame | None = None, digits: int = 2
) -> pd.DataFrame:
    """Return means with intervals: methods down, time steps across."""
    table = evidence.selections if table is None else table
    rows = by_step(table, value, evidence.generator())
    return _wide(evidence, rows, "method", "mean", digits)


def gain_table(evidence: Evidence, value: str, digits: int = 2) -> pd.DataFrame:
    """Return by how much KEM is ahead: other methods down, time steps across."""
    table = evidence.selections
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    rows = gains(table, value, OURS, evidence.generator())
    return _wide(evidence, rows, "other", "gain", digits)


def time_table(evidence: Evidence, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return how long a selection took, in milliseconds: methods down, time steps across."""
    table = evidence.selections if table is None else table
    timed = table.assign(milliseconds=1000 * table["seconds"])
    return step_table(evidence, "milliseconds", timed, 1)


#: What the columns of `verdict_table` mean.
VERDICTS = (
    f"Behind: the mean gain's 95 % interval over users lies below -{MARGIN}, or at a time step the "
    f"gain is below -{STEP_MARGIN} and its interval below zero (Bonferroni over the study's time "
    f"steps). Undecided: the interval holds both -{MARGIN} and 0. Below {LEAST_TRIALS} trials or "
    f"{LEAST_USERS} distinct test users there is no verdict. The interval over deals is Student's, "
    "over means of trials."
)


def verdict_table(evidence: Evidence, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return whether KEM is behind each other method, study by study."""
    table = evidence.selections if table is None else table
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    rows = verdicts(table, OURS, evidence.generator())
    if rows.empty:
        return rows
    worst = zip(rows["worst_step"] + 1, rows["worst_gain"], strict=True)
    return pd.DataFrame(
        {
            "study": [evidence.title(study) for study in rows["study"]],
            "other": rows["other"],
            "mean gain": _texts(rows["gain"], rows["half"]),
            "over deals": [f"± {half:.2f}" if half == half else "" for half in rows["deals"]],
            "worst time step": [f"{step}: {gain:.2f}" for step, gain in worst],
            "users": rows["users"],
            "trials": rows["trials"],
            "verdict": rows["verdict"],
        }
    ).set_index(["study", "other"])


def mean_gain_table(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gain of KEM with its interval over users: studies down, methods across."""
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    rows = mean_gains(table, "log_likelihood", OURS, evidence.generator())
    if rows.empty:
        return rows
    rows["text"] = _texts(rows["gain"], rows["half"])
    wide = rows.set_index(["study", "other"])["text"].unstack(sort=False).fillna("")
    return wide.rename(evidence.title).rename_axis(columns=None)


def selection_table(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return what methods select, beside how well that predicts: a row by study and method.

    Users count once each. A selection stays if its composition is that of the user's time step
    before; the first has none.
    """
    table = table.sort_values("time_step", kind="stable")
    walks = table.groupby(["study", "trial", "method", "user"], sort=False)["composition"]
    before = walks.shift()
    table = table.assign(stays=(table["composition"] == before).where(before.notna()))
    values = ["size", "dropped", "stays", "cover95"]
    rows = {}
    for (study, method), own in table.groupby(["study", "method"], sort=False):
        of_users = own.groupby(["person", "time_step"])[values].mean().unstack("time_step")
        steps = of_users.mean().unstack("time_step")
        mean = {value: of_users[value].mean(axis="columns").mean() for value in values}
        rows[evidence.title(str(study)), str(method)] = {
            "users": len(of_users),
            "size at the first time step": f"{steps.loc['size'].iloc[0]:.1f}",
            "at the last": f"{steps.loc['size'].iloc[-1]:.1f}",
            "features dropped a step": f"{mean['dropped']:.2f}",
            "stay, per cent": f"{100 * mean['stays']:.0f}",
            "in 95 % intervals, per cent": f"{100 * mean['cover95']:.0f}",
            "at single time steps": f"{100 * steps.loc['cover95'].min():.0f} to "
            f"{100 * steps.loc['cover95'].max():.0f}",
            "milliseconds (median)": f"{1000 * own['seconds'].median():.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["study", "method"])


def _texts(means: pd.Series, halves: pd.Series, digits: int = 2) -> list[str]:
    return [plus_minus(m, h, digits) for m, h in zip(means, halves, strict=True)]


def _wide(
    evidence: Evidence, rows: pd.DataFrame, down: str, value: str, digits: int
) -> pd.DataFrame:
    texts = _texts(rows[value], rows["half"], digits)
    rows = rows.assign(text=texts, step=rows["time_step"] + 1)
    rows["study"] = [evidence.title(study) for study in rows["study"]]
    wide = rows.set_index(["study", down] if rows["study"].nunique() > 1 else [down])
    wide = wide.set_index("step", append=True)["text"].unstack(sort=False).fillna("")
    return wide.reindex(sorted(wide.columns), axis=1).rename_axis(columns="time step")
