"""Figures and tables of the Kernel Evolution Model, from the results of their tasks."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.kem import fig5, fig8
from experiments.kem.summary import COSTS, peer_table, selection_table
from experiments.kem.trials import KEMTask
from experiments.results import unique
from kem_pymc.comparison.methods import Method
from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.pages import (
    LIMITS,
    OURS,
    UNITS,
    VERDICTS,
    calibration_page,
    draw_log_likelihood,
    dropped_page,
    likelihood_tables,
    step_table,
    user_table,
    verdict_table,
)
from kem_pymc.comparison.summaries import MARGIN, interval, plus_minus, tidy, verdicts
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.plots import evolution_graph, log_likelihood, style

SCORE = "log_likelihood"

#: Noise variance of the synthetic study (the paper's figure 9).
TRUE_NOISE = 0.5

#: Fit and criterion of methods that don't specify them: the selector's defaults.
DEFAULTS = {"fit": "pilot", "criterion": "posterior"}

#: The paper's table 2 for its own setting, with 95 % intervals.
PRINTED = {
    "KEM, ml, bic": {
        "energy": "0.08 ± 0.05",
        "housing": "0.07 ± 0.04",
        "fires": "0.29 ± 0.17",
        "concrete": "0.06 ± 0.04",
        "mimic": "0.07 ± 0.10",
        "heartsteps": "0.22 ± 0.05",
    },
    "Stratified, ml, bic": {
        "energy": "1.09 ± 0.14",
        "housing": "0.73 ± 0.30",
        "fires": "0.56 ± 0.20",
        "concrete": "0.46 ± 0.14",
        "mimic": "0.22 ± 0.12",
        "heartsteps": "0.62 ± 0.15",
    },
}


def graphs(evidence: Evidence) -> Output:
    """Return figures 3 and 7: graphs of the evolutions that were learned in the first trial."""
    rows, drawn = [], []
    for task in evidence.tasks:
        assert isinstance(task, KEMTask)
        method = next(iter(task.methods))
        for name, evolutions in task.evolutions().items() if task.trial == 0 else ():
            stem, _, step = name.partition("-")
            part = f", time step {int(step) + 1}" if stem == "stratified" else ""
            rows += _edges(task.study.name, method, name, evolutions)
            drawn.append((f"{evidence.title(task.study.name)}: {method}{part}", evolutions))
    figure, axes = style.panels(len(drawn), 9, 3.6, columns=1)
    for ax, (title, evolutions) in zip(axes, drawn, strict=True):
        evolution_graph(evolutions, ax=ax)
        ax.set_title(title)
    return Output(pd.DataFrame(rows), figure)


def _edges(study: str, method: str, name: str, evolutions: Evolutions) -> list[dict]:
    label = evolutions.label
    return [
        {
            "study": study,
            "trial": 0,
            "method": method,
            "learned": name,
            "parent": label(parent),
            "child": label(child.composition),
            "probability": child.probability,
            "count": child.count,
            "occurrence": child.occurrence,
        }
        for parent in evolutions.parents
        for child in evolutions.children(parent)
    ]


def likelihood_and_time(evidence: Evidence) -> Output:
    """Return figure 4: log-likelihoods and seconds per selection, by number of points."""
    table = evidence.selections
    figure, axes = style.panels(2, 5.25, 3.9)
    persons = table.assign(user=table["person"])
    labels = {SCORE: "test log-likelihood", "seconds": "seconds per selection"}
    for ax, (value, label) in zip(axes, labels.items(), strict=True):
        log_likelihood(
            persons, time_step="points", value=value, unit="user", label=label, legend=False, ax=ax
        )
        ax.set_xticks(sorted(table["points"].unique()))
    axes[1].set_yscale("log")
    style.legend_below(figure, axes[0])
    trials = table.groupby(["method", "trial"], sort=False)["learning"].first()
    learning = trials.groupby("method", sort=False).agg(
        lambda values: plus_minus(values.mean(), interval(values), 1)
    )
    tables = likelihood_tables(evidence, table) | {"Seconds to learn": learning.to_frame("seconds")}
    return Output(tidy(table, SCORE, "seconds"), figure, tables, [UNITS])


def likelihoods(evidence: Evidence) -> Output:
    """Return figure 6: log-likelihoods by time step, a panel for each study."""
    table = evidence.selections.dropna(subset=SCORE)
    studies = unique(table["study"])
    figure, axes = style.panels(len(studies), 4.6, 3.2)
    for ax, study in zip(axes, studies, strict=True):
        draw_log_likelihood(table[table["study"] == study], ax)
        ax.set_title(evidence.title(study))
    style.legend_below(figure, axes[0])
    tables = likelihood_tables(evidence, table) | {"Test users": user_table(evidence, table)}
    return Output(tidy(table, SCORE), figure, tables, [UNITS, LIMITS])


def noises(evidence: Evidence) -> Output:
    """Return figure 9: histograms of the log noise variance at the first time step, by method."""
    table = evidence.selections
    table = table[table["time_step"] == table["time_step"].min()]
    table = table.assign(log_noise=np.log(table["noise"]))
    methods, truth = unique(table["method"]), np.log(TRUE_NOISE)
    figure, axes = style.panels(len(methods), 2.9, 2.8, len(methods), sharex=True, sharey=True)
    low, high = table["log_noise"].min() - 0.2, table["log_noise"].max() + 0.2
    bins = list(np.linspace(low, high, 25))
    for ax, method in zip(axes, methods, strict=True):
        noise = table.loc[table["method"] == method, "log_noise"]
        ax.hist(noise, bins=bins, density=True, color=style.line_styles([method])[method]["color"])
        ax.axvline(truth, linestyle=":", color="black", label="truth")
        ax.set(title=method, xlabel="log noise variance")
        style.tidy(ax)
    axes[0].set_ylabel("density")
    axes[0].legend(fontsize=8)
    grouped = table.groupby("method", sort=False)["log_noise"]
    rows = grouped.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).unstack().round(2)
    rows.columns = pd.Index([f"{q:.0%} quantile" for q in rows.columns])
    rows["truth"] = round(float(truth), 2)
    rows["below the truth"] = grouped.agg(lambda values: f"{(values < truth).mean():.0%}")
    return Output(tidy(table, "log_noise"), figure, {"Log noise variance, first step": rows})


def dropped(evidence: Evidence) -> Output:
    """Return table 2: features dropped from one time step to the next, the paper's beside."""
    output = dropped_page(evidence)
    ((title, here),) = output.tables.items()
    titles = {evidence.title(study): study for study in evidence.studies}
    printed = here.copy()
    for study in here:
        printed[study] = [PRINTED.get(m, {}).get(titles[study], "") for m in here.index]
    both = pd.concat({"here": here, "paper": printed}, axis=1).swaplevel(axis=1)
    both = both.loc[:, [key for study in here for key in ((study, "here"), (study, "paper"))]]
    output.tables[title] = both.loc[:, (both != "").any()]
    output.notes.append(
        "The paper's setting is KEM, ml, bic; the paper doesn't state whether its intervals are "
        "over test users or over trials."
    )
    return output


def ablation(evidence: Evidence) -> Output:
    """Return tables of means by method and time step."""
    table = evidence.selections
    titles = {
        SCORE: "Mean test log-likelihood",
        "size": "Candidates in the composition",
        "dropped": "Features dropped",
    }
    tables = {title: step_table(evidence, value, table) for value, title in titles.items()}
    return Output(tidy(table, *titles), None, tables, ["The paper's setting is KEM, ml, bic."])


def peers(evidence: Evidence) -> Output:
    """Return the mean gains of KEM by study and method, with verdicts."""
    table = evidence.selections.dropna(subset=SCORE)
    rows = verdicts(table, OURS)
    tables, figure = verdict_table(evidence, rows), None
    if len(rows):
        wide = tables["Verdicts"]["mean gain"].unstack(sort=False).fillna("")
        tables = {"Mean gain of KEM": wide.rename_axis(columns=None)} | tables
        figure = _draw_gains(evidence, rows)
    tables |= likelihood_tables(evidence, table)
    tables["Summary of selections"] = selection_table(evidence, evidence.selections)
    return Output(tidy(table, SCORE), figure, tables, [UNITS, VERDICTS])


def strongest(evidence: Evidence) -> Output:
    """Return scores and costs of KEM and of peers, and the mean gains of KEM, with verdicts."""
    output = peers(evidence)
    del output.tables["Summary of selections"]
    output.tables = {"Scores and costs": peer_table(evidence)} | output.tables
    output.notes.append(COSTS)
    return output


def ranks(evidence: Evidence) -> Output:
    """Return means over all time steps by method and study, and mean ranks over studies.

    The package's defaults are chosen from them.
    """
    table = evidence.selections.dropna(subset=SCORE)
    keys = ["study", "method"]
    # Every time step has the same weight, however many users have a next batch there.
    by_step = table.groupby([*keys, "trial", "time_step"], sort=False)[SCORE].mean()
    by_trial = by_step.groupby([*keys, "trial"], sort=False).mean().unstack("method")
    mean_ranks = by_trial.groupby("study", sort=False).mean().rank(axis=1, ascending=False).mean()
    rows = {}
    for method in by_trial.columns:
        rows[method] = {"mean rank": mean_ranks.round(1)[method]}
        for study, of_study in by_trial.groupby("study", sort=False):
            behind = of_study[method] - of_study[OURS]
            half = interval(behind) if behind.any() else np.nan
            rows[method][evidence.title(str(study))] = plus_minus(of_study[method].mean(), half)
    wide = pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")
    tables = {
        "Mean test log-likelihood": wide.sort_values("mean rank"),
        "Mean test log-likelihood by time step": step_table(evidence, SCORE, table),
    }
    notes = [f"Intervals are those of the difference to {OURS}, paired by trial."]
    return Output(tidy(table, SCORE), None, tables, notes)


def grid(evidence: Evidence) -> Output:
    """Return predictions, sizes and R-hat by study, training, fit and criterion."""
    table = evidence.selections
    rows = {
        (evidence.title(str(study)), *_setting(evidence.methods[str(method)])): _grid_row(part)
        for (study, method), part in table.groupby(["study", "method"], sort=False)
    }
    index = pd.MultiIndex.from_tuples(rows, names=["study", "target", "fit", "criterion"])
    note = (
        "Log-likelihoods are means over users and time steps; intervals are over trials. The truth "
        "is found if the composition selected at the last time step is the user's true one. R-hat "
        "is the largest of the number of clusters and the log joint density in all trainings."
    )
    tables = {"Targets by fit and criterion": pd.DataFrame(list(rows.values()), index=index)}
    return Output(tidy(table, SCORE, "size", "dropped"), None, tables, [note])


def _setting(method: Method) -> tuple[str, str, str]:
    options = DEFAULTS | method.options
    return method.training, str(options["fit"]), str(options["criterion"])


def _grid_row(table: pd.DataFrame) -> dict[str, str]:
    sizes = table.groupby("time_step")["size"].mean()
    last = table[table["time_step"] == table["time_step"].max()]
    by_trial = table.groupby("trial")[SCORE].mean()
    last = last[last["truth"].fillna("").astype(bool)]
    correct = last["truth"] == last["composition"]
    return {
        "log-likelihood": plus_minus(by_trial.mean(), interval(by_trial)),
        "size at the first time step": f"{sizes.iloc[0]:.1f}",
        "at the last": f"{sizes.iloc[-1]:.1f}",
        "features dropped a step": f"{table['dropped'].mean():.2f}",
        "truth found, per cent": f"{100 * correct.mean():.0f}" if len(correct) else "",
        "largest R-hat": plus_minus(table["r_hat"].max(), np.nan),
    }


def _draw_gains(evidence: Evidence, rows: pd.DataFrame) -> Figure:
    """Return a figure of mean gains with intervals, one panel for each study."""
    studies = list(rows["study"].unique())
    looks = style.line_styles([str(other) for other in rows["other"].unique()])
    figure, axes = style.panels(len(studies), 4.2, 0.3 * (rows["other"].nunique() + 1) + 0.8)
    for ax, study in zip(axes, studies, strict=True):
        of_study = rows[rows["study"] == study].iloc[::-1]
        for place, row in enumerate(of_study.itertuples()):
            half = row.half if row.half == row.half else None  # NaN with a single user
            ax.errorbar(row.mean, place, xerr=half, **looks[str(row.other)])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.axvline(-MARGIN, color="black", linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(of_study)), list(of_study["other"]))
        ax.set(title=evidence.title(str(study)), ylim=(-0.6, len(of_study) - 0.4))
        ax.set_xlabel("gain of KEM, nats per point\n(mean, 95 % interval over users)")
        style.tidy(ax)
    return figure


#: Functions of the figures by name.
FIGURES: dict[str, Callable[[Evidence], Output]] = {
    "kem-fig3": graphs,
    "kem-fig4": likelihood_and_time,
    "kem-fig5": fig5.make,
    "kem-fig6": likelihoods,
    "kem-fig7": graphs,
    "kem-fig8": fig8.make,
    "kem-fig9": noises,
    "kem-table2": dropped,
    "kem-calibration": calibration_page,
    "kem-types": likelihoods,
    "kem-peers": peers,
    "kem-strongest": strongest,
    "kem-paper": peers,
    "kem-searches": peers,
    "kem-parts": ranks,
    "kem-ablation": ablation,
    "kem-targets": ablation,
    "kem-grid": grid,
    "kem-defaults": ranks,
    "kem-changes": peers,
    "kem-choices": ranks,
}
