"""Pages on a comparison: log-likelihoods, verdicts, dropped features, coverage, and classes."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import (
    LEAST_TRIALS,
    LEAST_USERS,
    MARGIN,
    STEP_MARGIN,
    by_step,
    gains,
    interval,
    plus_minus,
    reliability,
    tidy,
    verdicts,
)
from kem_pymc.plots import log_likelihood, style
from kem_pymc.selection.scores import LEVELS

#: Method whose gain over the others is reported.
OURS = "KEM"

#: Explanation of the units of log-likelihoods, for readers.
UNITS = (
    "Log-likelihoods are means over points, in nats. Targets are in units of the standard "
    "deviation of the pilot users' targets; with the priors `synthetic`, which the synthetic "
    "studies use, or a family they aren't scaled. Those of counts and classes are log "
    "probabilities."
)

WHOLE = (
    "Ends of intervals of counts and classes are whole numbers, and belong to them: coverage is "
    "more than the probability, and of yes or no nearly always all."
)

#: What the CRPS is called where targets are classes.
CLASS_SCORES = {"binary": "Brier score", "ordinal": "Ranked probability score"}

#: Explanation of the page on classes, for readers.
CLASSES = (
    "All rows are divided into fifths by the probability that was predicted for a class. Where "
    "predictions are calibrated, the share of rows in which the class occurred is about their mean "
    "predicted probability. Intervals of shares are 95 % intervals, as wide as rows of the same "
    "users are alike. Methods other than KEM are in the CSV file. The Brier score of a row is "
    "(p - y)^2, p being the predicted probability of y = 1; the ranked probability score is the "
    "sum over levels k of (P(y <= k) - [y <= k])^2. Both are on the page `calibration`."
)

LIMITS = "The axis may exclude the lowest tenth of the means; the table contains all."

#: Explanation of the columns of `verdict_table`, for readers.
VERDICTS = (
    f"Behind: the 95 % interval of the mean gain over users lies below -{MARGIN}, or at a time "
    f"step the gain is below -{STEP_MARGIN} and its interval below zero (Bonferroni-corrected for "
    f"the study's time steps). Undecided: the interval contains both -{MARGIN} and 0. Ahead: the "
    f"interval lies above zero. Not behind: all other cases. With fewer than {LEAST_TRIALS} trials "
    f"or {LEAST_USERS} distinct test users there is no verdict. The interval over deals is "
    "Student's t interval over the means of trials."
)


def log_likelihood_page(evidence: Evidence) -> Output:
    """Return log-likelihoods by time step, drawn and as tables, with paired gains of KEM."""
    table = evidence.selections.dropna(subset="log_likelihood")
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    draw_log_likelihood(table, figure.add_subplot())
    style.legend_below(figure, figure.axes[0])
    tables = likelihood_tables(evidence, table) | {"Test users": user_table(evidence, table)}
    return Output(tidy(table, "log_likelihood"), figure, tables, [UNITS, LIMITS])


def verdicts_page(evidence: Evidence) -> Output:
    """Return mean gains of KEM over every other method, by study, with verdicts."""
    table = evidence.selections.dropna(subset="log_likelihood")
    rows = verdicts(table, OURS)
    return Output(tidy(table, "log_likelihood"), None, verdict_table(evidence, rows), [VERDICTS])


def dropped_page(evidence: Evidence) -> Output:
    """Return the average number of features dropped from one time step to the next."""
    table = evidence.selections.dropna(subset="dropped")
    cells: dict[tuple[str, str], str] = {}
    for (study, method), rows in table.groupby(["study", "method"], sort=False):
        units = rows.groupby("person")["dropped"].mean()
        cells[evidence.title(str(study)), str(method)] = plus_minus(units.mean(), interval(units))
    wide = pd.Series(cells).rename_axis(["study", "method"]).unstack("study", sort=False)
    tables = {"Features dropped per time step": wide.fillna("")}
    return Output(tidy(table, "dropped"), None, tables, ["Intervals are over distinct users."])


def calibration_page(evidence: Evidence) -> Output:
    """Return the coverage of central predictive intervals, in per cent, and the mean CRPS."""
    table = evidence.selections.dropna(subset="crps").copy()
    covers = [f"cover{level}" for level in LEVELS]
    table[covers] *= 100
    tables = {}
    for level, cover in zip(LEVELS, covers, strict=True):
        title = f"Coverage of {level} % predictive intervals, per cent"
        tables[title] = step_table(evidence, cover, table, 0)
    families = [s.cohort.family for s in evidence.studies.values() if s.cohort is not None]
    names = {CLASS_SCORES.get(family.name, "CRPS") if family else "CRPS" for family in families}
    score = names.pop() if len(names) == 1 else "CRPS"
    tables[f"{score} (smaller is better)"] = step_table(evidence, "crps", table)
    whole = any(family is not None and family.discrete for family in families)
    return Output(tidy(table, *covers, "crps"), tables=tables, notes=[WHOLE] * whole)


def classes_page(evidence: Evidence) -> Output | None:
    """Return how often classes occurred, by their predicted probability; None without classes."""
    if "classes" not in evidence.selections:
        return None
    rows = reliability(evidence.selections)
    first = rows["level"].min()
    if rows["level"].nunique() == 2:  # a second panel would be the first one's mirror image
        rows = rows[rows["level"] != first]
    own = rows[rows["method"] == OURS]
    groups = own.groupby("level")
    figure, axes = style.panels(len(groups), 2.5, 2.7)
    style.close(figure)  # pyplot needn't keep it
    tables = {}
    for ax, (level, parts) in zip(axes, groups, strict=True):
        draw_reliability(parts, ax)
        ax.set_title(f"class {level}", fontsize="medium")
        columns = {
            "mean predicted probability": parts["predicted"].map("{:.2f}".format),
            "share": parts["share"].map("{:.2f}".format),
            "95 % interval": [
                "" if low != low else f"{low:.2f} to {high:.2f}"
                for low, high in zip(parts["low"], parts["high"], strict=True)
            ],
            **{name: parts[name] for name in ("rows", "users")},
        }
        tables[f"Class {level}, of {OURS}"] = pd.DataFrame(columns)
    return Output(rows, figure, tables, [CLASSES])


#: Pages by the names of their files.
PAGES: dict[str, Callable[[Evidence], Output | None]] = {
    "log-likelihood": log_likelihood_page,
    "verdicts": verdicts_page,
    "features-dropped": dropped_page,
    "calibration": calibration_page,
    "classes": classes_page,
}


def likelihood_tables(evidence: Evidence, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return tables of log-likelihoods, paired gains of KEM, and milliseconds, by time step."""
    tables = {"Mean test log-likelihood": step_table(evidence, "log_likelihood", table)}
    rows = gains(table, "log_likelihood", OURS)
    if len(rows):
        tables["Gain of KEM, paired"] = _by_step(evidence, rows, "other", 2)
    timed = evidence.selections.assign(milliseconds=1000 * evidence.selections["seconds"])
    tables["Milliseconds per selection"] = step_table(evidence, "milliseconds", timed, 1)
    return tables


def step_table(
    evidence: Evidence, value: str, table: pd.DataFrame, digits: int = 2
) -> pd.DataFrame:
    """Return means with intervals; rows are methods, columns are time steps.

    Parameters
    ----------
    evidence : Evidence
    value : str
        Column to average.
    table : DataFrame
        Selections.
    digits : int
        Number of decimals.
    """
    rows = by_step(table, value)
    return _by_step(evidence, rows, "method", digits)


def verdict_table(evidence: Evidence, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return verdicts on KEM against each other method, by study, as text; nothing if empty."""
    if rows.empty:
        return {}
    worst = zip(rows["worst_step"] + 1, rows["worst_gain"], strict=True)
    table = pd.DataFrame(
        {
            "study": rows["study"].map(evidence.title),
            "other": rows["other"],
            "mean gain": list(map(plus_minus, rows["mean"], rows["half"])),
            "over deals": [f"± {half:.2f}" if half == half else "" for half in rows["deals"]],
            "worst time step": [f"{step}: {gain:.2f}" for step, gain in worst],
            **{name: rows[name] for name in ("users", "trials", "verdict")},
        }
    )
    return {"Verdicts": table.set_index(["study", "other"])}


def _by_step(evidence: Evidence, rows: pd.DataFrame, down: str, digits: int) -> pd.DataFrame:
    """Return means with intervals as text; columns are time steps, which count from 1."""
    texts = [plus_minus(*pair, digits) for pair in zip(rows["mean"], rows["half"], strict=True)]
    titles = rows["study"].map(evidence.title)
    rows = rows.assign(text=texts, step=rows["time_step"] + 1, study=titles)
    wide = rows.set_index(["study", down] if rows["study"].nunique() > 1 else [down])
    wide = wide.set_index("step", append=True)["text"].unstack(sort=False).fillna("")
    return wide.reindex(sorted(wide.columns), axis=1).rename_axis(columns="time step")


def user_table(evidence: Evidence, table: pd.DataFrame) -> pd.DataFrame:
    """Return the number of distinct test users by study and time step."""
    counts = table.groupby(["study", "time_step"], sort=False)["person"].nunique().unstack()
    counts = counts.reindex(sorted(counts.columns), axis=1).fillna(0).astype(int)
    counts = counts.rename(index=evidence.title, columns=lambda step: step + 1)
    return counts.rename_axis(columns="time step")


def draw_log_likelihood(table: pd.DataFrame, ax: Axes) -> None:
    """Draw mean log-likelihoods of a study by time step.

    The limits leave out outliers, so that one failed fit doesn't compress all other curves.
    """
    counted = table.assign(time_step=table["time_step"] + 1, user=table["person"])
    log_likelihood(counted, value="log_likelihood", unit="user", legend=False, ax=ax)
    means = table.groupby(["method", "time_step"])["log_likelihood"].mean()
    low, high = np.quantile(means, [0.1, 1])
    ax.set_ylim(low - 0.5 * (high - low) - 0.1, high + 0.3 * (high - low) + 0.1)


def draw_reliability(parts: pd.DataFrame, ax: Axes) -> None:
    """Draw shares of a class against its predicted probabilities, with intervals."""
    errors = np.abs(parts[["low", "high"]].sub(parts["share"], axis=0)).to_numpy().T
    ax.axline((0, 0), slope=1, color=style.FAINT, zorder=0)
    look = style.line_styles([OURS])[OURS]
    ax.errorbar(parts["predicted"], parts["share"], errors, linestyle="", markersize=5, **look)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    ax.set(xlabel="predicted probability", ylabel="share (95 % interval)")
    style.tidy(ax)
