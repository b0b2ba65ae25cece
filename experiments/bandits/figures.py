"""D-GPUCB, figures 1 to 4 and one more: decomposed regression, and the regret of policies."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.bandits.games import synthetic
from experiments.results import unique
from kem_pymc.comparison.output import Output
from kem_pymc.comparison.summaries import interval
from kem_pymc.plots import style

#: Titles of problems.
TITLES = {
    "se": "SE kernels",
    "matern": "Matern 5/2 kernels",
    "rq": "RQ kernels",
    "influenza": "influenza",
    "weather": "perceived temperature",
    "afternoon": "perceived, afternoon",
    "smooth": "smooth function",
    "linear": "linear effects",
    "nonlinear": "smooth effects",
}

#: Targets: errors and regrets at least 10 % lower than without decomposed feedback.
TARGET = 10.0

#: The policy that others are compared with, and these.
PLAIN, OURS = "GP-UCB", ("D-GPUCB", "D-GPUCB, box", "D-GPUCB, theorem", "D-EI", "EI")

#: Policies that others are compared with in trials of messages.
MESSAGED = ("GP-UCB", "Linear, pooled", "Linear, pooled, bound")

#: Number of observations in figure 1, and its seed.
OBSERVED, ILLUSTRATED = 6, 3


def make(name: str, rows: pd.DataFrame) -> Output:
    """Return a figure by its name, such as "dgpucb-fig1".

    Parameters
    ----------
    name : str
    rows : DataFrame
        Results, see :mod:`experiments.bandits.decisions`; empty for figure 1.
    """
    return MAKERS[name](rows)


def _with_interval(values: pd.Series, digits: int = 1) -> str:
    """Return a mean with its 95 % interval, if there are several values."""
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} ± {interval(values):.{digits}f}" if len(values) > 1 else mean


# --- Figure 1 -------------------------------------------------------------------------------------


def illustration(_: pd.DataFrame) -> Output:
    """Return figure 1: both regressions on two components."""
    from kem_pymc.bandits.objective import Weighted
    from kem_pymc.bandits.regression import ComposedProcess, DecomposedPosterior
    from kem_pymc.gp.posterior import Posterior

    rng = np.random.default_rng(ILLUSTRATED)
    made = synthetic("se", 2, rng, 200)
    x = np.linspace(0, 1, 200)[:, None]
    truth = made.truth(x)
    decomposed = DecomposedPosterior(made.components, Weighted(2), x)
    plain = Posterior.unobserved(ComposedProcess(made.components, Weighted(2)), x)
    places = rng.permutation(200)[:OBSERVED]
    for place in places:
        decomposed.observe(x[place], truth[place])
        plain = plain.observe(x[place], float(truth[place].sum()))
    rows = pd.DataFrame({"x": x[:, 0], "f": truth.sum(axis=1)})
    parts = {"decomposed": decomposed.at_points, "plain": plain.at_points}
    for j, (posterior,) in enumerate(decomposed.posteriors):
        rows[f"f{j + 1}"] = truth[:, j]
        parts[f"f{j + 1}"] = posterior.at_points
    for name, (m, v) in parts.items():
        rows[f"{name}_mean"], rows[f"{name}_sd"] = m, np.sqrt(v)
    rows["observed"] = np.isin(np.arange(200), places)
    table = pd.DataFrame(
        {
            "mean variance": {name: f"{parts[name][1].mean():.3f}" for name in list(parts)[:2]},
            "error": {
                name: f"{np.sqrt(np.mean((parts[name][0] - rows['f']) ** 2)):.3f}"
                for name in list(parts)[:2]
            },
        }
    ).rename_axis(index="regression")
    notes = [f"One draw of two components, {OBSERVED} observations of each; bands are 2 sd."]
    return Output(rows, _draw_illustration(rows), {"Both regressions": table}, notes)


def _draw_illustration(rows: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    seen = rows[rows["observed"]]
    first.plot(rows["x"], rows["f"], color="k", label="f")
    first.plot(seen["x"], seen["f"], "o", color="k", label="observed")
    first.set_title("objective")
    for j in range(2):
        _band(second, rows, f"f{j + 1}", style.PALETTE[j], f"component {j + 1}")
        second.plot(seen["x"], seen[f"f{j + 1}"], "o", color=style.PALETTE[j])
    second.set_title("components")
    _band(third, rows, "plain", style.PALETTE[1], "plain")
    _band(third, rows, "decomposed", style.PALETTE[0], "decomposed")
    third.plot(rows["x"], rows["f"], color="k", lw=0.8)
    third.set_title("posteriors")
    for ax in (first, second, third):
        ax.set_xlabel("x")
        ax.legend(frameon=False, fontsize="small")
        style.tidy(ax)
    return figure


def _band(ax: Axes, rows: pd.DataFrame, name: str, color: str, label: str) -> None:
    mean, sd = rows[f"{name}_mean"], rows[f"{name}_sd"]
    ax.fill_between(rows["x"], mean - 2 * sd, mean + 2 * sd, color=color, alpha=0.25, lw=0)
    ax.plot(rows["x"], mean, color=color, label=label)


# --- Figure 2 -------------------------------------------------------------------------------------


def regression(rows: pd.DataFrame) -> Output:
    """Return figure 2: improvements of errors and standard deviations by decomposed feedback."""
    rows = rows.assign(
        improvement=100 * (1 - rows["decomposed"] / rows["plain"]),
        sd_improvement=100 * (1 - rows["decomposed_sd"] / rows["plain_sd"]),
    )
    by_trial = rows.groupby(["problem", "components", "trial"], sort=False)
    means = by_trial[["decomposed", "plain", "improvement", "sd_improvement"]].mean()
    # The ratio of mean errors isn't ruled by trials with nearly no error.
    means["lower"] = 100 * (1 - means["decomposed"] / means["plain"])
    keys = ["problem", "components"]
    grouped = means.groupby(keys, sort=False)
    table = grouped.agg(
        {"lower": _with_interval, "improvement": _with_interval, "sd_improvement": _with_interval}
    ).rename(
        columns={
            "lower": "mean error lower by, %",
            "improvement": "error lower by, mean over T, %",
            "sd_improvement": "standard deviation lower by, %",
        }
    )
    table["target"] = np.where(grouped["lower"].mean() >= TARGET, "met", "missed")
    table = table.rename(index=TITLES, level=0)
    trials, most = rows["trial"].nunique(), rows["observations"].max()
    notes = [
        f"{trials} trials of up to {most} random observations, with 95 % intervals over trials. "
        f"The target is a mean error lower by {TARGET:g} % or more."
    ]
    return Output(rows, _draw_regression(rows), {"Improvement on plain regression": table}, notes)


def _draw_regression(rows: pd.DataFrame) -> Figure:
    problems = unique(rows["problem"])
    figure, axes = style.panels(len(problems), 3.2, 3.2, len(problems), sharey=True)
    for ax, problem in zip(axes, problems, strict=True):
        part = rows[rows["problem"] == problem]
        looks = style.line_styles([f"J = {j}" for j in dict.fromkeys(part["components"])])
        for j, values in part.groupby("components", sort=False):
            sums = values.groupby("observations")[["decomposed", "plain"]].mean()
            improvement = 100 * (1 - sums["decomposed"] / sums["plain"])
            look: style.Style = looks[f"J = {j}"] | {"markevery": 10, "markersize": 4}
            ax.plot(improvement.index, improvement, label=f"J = {j}", **look)
        ax.axhline(0, color="0.6", lw=0.8)
        ax.set(xlabel="observations", title=TITLES[str(problem)])
        ax.legend(frameon=False, fontsize="small")
        style.tidy(ax)
    axes[0].set_ylabel("error lower than without feedback, %")
    return figure


# --- Figures 3 and 4 ------------------------------------------------------------------------------


def cumulative(rows: pd.DataFrame) -> Output:
    """Return figure 3, or one like it of nonlinear objectives: cumulative regret."""
    rows = _titled(rows)
    sums = rows.groupby(["problem", "policy", "trial"], sort=False)["regret"].cumsum()
    rows = rows.assign(cumulative=sums)
    last = rows.groupby(["problem", "policy", "trial"], sort=False)["cumulative"].last()
    text = last.groupby(["problem", "policy"], sort=False).agg(lambda v: _with_interval(v, 2))
    tables = {
        "Cumulative regret": text.unstack("problem", sort=False).fillna(""),
        "Against GP-UCB": _against(last),
    }
    notes = [
        f"{rows['trial'].nunique()} trials, with 95 % intervals; policies share games. The target "
        f"is a mean cumulative regret lower than that of GP-UCB by {TARGET:g} % or more, with an "
        "interval beyond zero."
    ]
    return Output(rows, _draw_regrets(rows, "cumulative", "cumulative regret"), tables, notes)


def _titled(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with titles in place of problems, and with scales of beta if they differ."""
    titles = rows["problem"].map(TITLES)
    if rows["scale"].nunique() > 1:
        titles += rows["scale"].map(lambda scale: f", beta x {scale:g}")
    return rows.assign(problem=titles)


def _against(last: pd.Series) -> pd.DataFrame:
    """Return by how much the regret is lower than that of GP-UCB, with intervals over trials."""
    wide = last.unstack("policy")
    lines = {}
    for problem, regrets in wide.groupby(level="problem", sort=False):
        for policy in OURS:
            if policy not in regrets or regrets[policy].isna().all():
                continue
            plain = regrets[PLAIN].mean()
            lower = 100 * (regrets[PLAIN] - regrets[policy]) / plain
            sure = len(lower) < 2 or lower.mean() > interval(lower)
            lines[problem, policy] = {
                "lower by, %": _with_interval(lower),
                "lower in trials": f"{int((lower > 0).sum())} of {len(lower)}",
                "target": "met" if sure and lower.mean() >= TARGET else "missed",
            }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis(["problem", "policy"])


def average(rows: pd.DataFrame) -> Output:
    """Return figure 4: average regret."""
    rows = _titled(rows)
    sums = rows.groupby(["problem", "policy", "trial"], sort=False)["regret"].cumsum()
    rows = rows.assign(average=sums / rows["round"])
    every = rows.groupby(["problem", "policy", "trial"], sort=False)
    ends = pd.DataFrame(
        {
            "first ten rounds": every["regret"].apply(lambda v: v.iloc[:10].mean()),
            "last ten rounds": every["regret"].apply(lambda v: v.iloc[-10:].mean()),
        }
    )
    table = ends.groupby(["problem", "policy"], sort=False).agg(lambda v: _with_interval(v, 3))
    notes = [f"{rows['trial'].nunique()} trials, with 95 % intervals."]
    figure = _draw_regrets(rows, "average", "average regret")
    return Output(rows, figure, {"Regret of a round": table}, notes)


def _draw_regrets(rows: pd.DataFrame, name: str, label: str) -> Figure:
    problems = unique(rows["problem"])
    figure, axes = style.panels(len(problems), 3.2, 3.4, len(problems))
    looks = style.line_styles(unique(rows["policy"]))
    for ax, problem in zip(axes, problems, strict=True):
        part = rows[rows["problem"] == problem]
        for policy, values in part.groupby("policy", sort=False):
            mean = values.groupby("round")[name].mean()
            look: style.Style = looks[str(policy)] | {"markevery": 20, "markersize": 4}
            ax.plot(mean.index, mean, label=str(policy), **look)
        ax.set(xlabel="round", title=problem)
        style.tidy(ax)
    axes[0].set_ylabel(label)
    # Some problems have fewer policies than others.
    style.legend_below(figure, max(axes, key=lambda ax: len(ax.lines)))
    return figure


def messages(rows: pd.DataFrame) -> Output:
    """Return the table of simulated trials of messages: regret and gain of users by policy."""
    rows = rows.assign(problem=rows["problem"].map(TITLES))
    # Users of a trial share the effects of all, and what pooled policies learn: trials don't.
    means = rows.groupby(["problem", "policy", "trial"], sort=False)[["regret", "gain"]].mean()
    grouped = means.groupby(["problem", "policy"], sort=False)
    table = grouped.agg(lambda values: _with_interval(values, 3))
    regrets = means["regret"].unstack("policy")
    for title in MESSAGED:
        other = regrets.rsub(regrets[title], axis=0).stack()
        lower = other.groupby(["problem", "policy"]).agg(lambda values: _with_interval(-values, 3))
        table[f"regret less that of {title}"] = lower.reindex(table.index)
    users = rows.groupby("problem")["user"].nunique().max()
    notes = [
        f"{rows['trial'].nunique()} simulated trials of {users} users each; means over decisions "
        "of a user, in standard deviations of steps, with 95 % intervals over trials. Gain is over "
        "no message."
    ]
    titles = unique(rows["problem"])
    figure, axes = style.panels(len(titles), 3.2, 3.2, len(titles))
    for ax, title in zip(axes, titles, strict=True):
        own = means.loc[title].groupby("policy", sort=False)["regret"]
        ax.errorbar(own.mean(), own.mean().index, xerr=own.agg(interval), fmt="o")
        ax.set(xlabel="regret of a decision", title=title)
        ax.invert_yaxis()
        style.tidy(ax)
    return Output(rows, figure, {"Messages": table}, notes)


MAKERS: dict[str, Callable[[pd.DataFrame], Output]] = {
    "dgpucb-fig1": illustration,
    "dgpucb-fig2": regression,
    "dgpucb-fig3": cumulative,
    "dgpucb-fig4": average,
    "dgpucb-nonlinear": cumulative,
    "dgpucb-trial": messages,
}
