"""Tables that several figures use; :data:`UNITS` describes the units."""

import pandas as pd

from kem_pymc.comparison.output import Evidence
from kem_pymc.comparison.summaries import by_step, gains, mean_gains, plus_minus
from kem_pymc.comparison.verdicts import LEAST_TRIALS, LEAST_USERS, MARGIN, STEP_MARGIN, verdicts

#: Method whose gain over the others is reported.
OURS = "KEM"

#: Explanation of the units of log-likelihoods, for readers.
UNITS = (
    "Log-likelihoods are means over points, in nats. Targets are in units of the standard "
    "deviation of the pilot users' targets; with the priors `synthetic`, which the synthetic "
    "studies use, they aren't scaled."
)


def step_table(
    evidence: Evidence, value: str, table: pd.DataFrame | None = None, digits: int = 2
) -> pd.DataFrame:
    """Return means with intervals; rows are methods, columns are time steps.

    Parameters
    ----------
    evidence : Evidence
    value : str
        Column to average.
    table : DataFrame, optional
        Selections; by default all of `evidence`.
    digits : int
        Number of decimals.
    """
    table = evidence.selections if table is None else table
    rows = by_step(table, value, evidence.generator())
    return _wide(evidence, rows, "method", "mean", digits)


def gain_table(evidence: Evidence, value: str, digits: int = 2) -> pd.DataFrame:
    """Return mean gains of KEM with intervals; rows are other methods, columns are time steps.

    Empty if there are no selections of KEM.
    """
    table = evidence.selections
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    rows = gains(table, value, OURS, evidence.generator())
    return _wide(evidence, rows, "other", "gain", digits)


def time_table(evidence: Evidence, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return mean times per selection in milliseconds; rows are methods, columns are time steps."""
    table = evidence.selections if table is None else table
    timed = table.assign(milliseconds=1000 * table["seconds"])
    return step_table(evidence, "milliseconds", timed, 1)


#: Explanation of the columns of `verdict_table`, for readers.
VERDICTS = (
    f"Behind: the 95 % interval of the mean gain over users lies below -{MARGIN}, or at a time "
    f"step the gain is below -{STEP_MARGIN} and its interval below zero (Bonferroni-corrected for "
    f"the study's time steps). Undecided: the interval contains both -{MARGIN} and 0. Ahead: the "
    f"interval lies above zero. Not behind: all other cases. With fewer than {LEAST_TRIALS} trials "
    f"or {LEAST_USERS} distinct test users there is no verdict. The interval over deals is "
    "Student's t interval over the means of trials."
)


def verdict_table(evidence: Evidence, table: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return verdicts on KEM against each other method, by study.

    Empty if there are no selections of KEM.
    """
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
    """Return mean gains of KEM with intervals over users; rows are studies, columns are methods.

    Empty if there are no selections of KEM.
    """
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    rows = mean_gains(table, "log_likelihood", OURS, evidence.generator())
    if rows.empty:
        return rows
    rows["text"] = _texts(rows["gain"], rows["half"])
    wide = rows.set_index(["study", "other"])["text"].unstack(sort=False).fillna("")
    return wide.rename(evidence.title).rename_axis(columns=None)


def selection_table(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return summaries of the selections and of their coverage, a row for each study and method.

    Every user is counted once. A selection stays if its composition is that of the user's previous
    time step; first selections aren't counted.
    """
    table = table.sort_values("time_step", kind="stable")
    trajectories = table.groupby(["study", "trial", "method", "user"], sort=False)["composition"]
    before = trajectories.shift()
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
