"""Tables that summarise selections: sizes, changes and coverage; scores and costs beside peers."""

import pandas as pd

from kem_pymc.comparison.output import Evidence
from kem_pymc.comparison.summaries import interval, plus_minus
from kem_pymc.kernels.composition import Composition

#: Columns of `peer_table`: quantity, factor and decimals.
COLUMNS = {
    "log score": ("log_likelihood", 1.0, 2),
    "CRPS": ("crps", 1.0, 3),
    "in 95 % intervals, per cent": ("cover95", 100.0, 0),
    "changes of kernel, per cent": ("changes", 100.0, 0),
    "ms for an update": ("cpu", 1000.0, 1),
    "KB of state": ("kilobytes", 1.0, 1),
}

#: Explanation of `peer_table`, for readers.
COSTS = (
    "Scores are means over points, time steps and users, with 95 % intervals over users. Changes "
    "are updates after which the most probable kernel is another one; methods without kernels have "
    "none. An update is what follows from all of a user's rows up to a time step: its CPU time, "
    "whatever the process, and of the state after the last one the size of what is stored of the "
    "user until the next, beside what was learned from pilot users."
)


def with_stays(table: pd.DataFrame) -> pd.DataFrame:
    """Return selections in order, with whether each is that of the user's previous time step."""
    table = table.sort_values("time_step", kind="stable")
    trajectories = table.groupby(["study", "trial", "method", "user"], sort=False)["composition"]
    before = trajectories.shift()
    return table.assign(stays=(table["composition"] == before).where(before.notna()))


def peer_table(evidence: Evidence) -> pd.DataFrame:
    """Return scores, coverage, changes of kernel and costs, a row for each study and method.

    Every user is counted once, after averaging over trials, then over time steps.
    """
    table = with_stays(evidence.selections)
    table = table.assign(changes=1 - table["stays"].astype(float))
    table.loc[_kernels(table) == 0, "changes"] = float("nan")
    values = [value for value, _, _ in COLUMNS.values()]
    keys = ["study", "method", "person"]
    steps = table.groupby([*keys, "time_step"], sort=False)[values].mean()
    users = steps.groupby(keys, sort=False).mean()
    rows = {}
    for (study, method), own in users.groupby(["study", "method"], sort=False):
        rows[evidence.title(str(study)), str(method)] = {"users": len(own)} | {
            name: plus_minus(factor * own[v].mean(), factor * interval(own[v].dropna()), digits)
            for name, (v, factor, digits) in COLUMNS.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["study", "method"])


def _kernels(table: pd.DataFrame) -> pd.Series:
    """Return, in each row, how many selections of its study and method have a kernel."""
    some = table["composition"] != str(Composition())
    return some.groupby([table["study"], table["method"]]).transform("sum")


def selection_table(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return summaries of the selections and of their coverage, a row for each study and method.

    Every user is counted once. A selection stays if its composition is that of the user's previous
    time step; first selections aren't counted.
    """
    table = with_stays(table)
    values = ["size", "dropped", "stays", "cover95"]
    rows = {}
    for (study, method), of_method in table.groupby(["study", "method"], sort=False):
        of_users = of_method.groupby(["person", "time_step"])[values].mean().unstack("time_step")
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
            "milliseconds (median)": f"{1000 * of_method['seconds'].median():.0f}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["study", "method"])
