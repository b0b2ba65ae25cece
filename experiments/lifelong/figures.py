"""LBO, figures 2, 3 and 5: values found on sequences of functions, and the time it takes."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Output
from kem_pymc.comparison.summaries import interval
from kem_pymc.plots import style

#: Method whose networks are drawn.
LBO = "LBO"

#: Numbers of evaluations after which methods are compared, beside all.
AFTER = (5, 10, 15)

#: Method with which others are compared in figure 3.
RANDOM = "Random"


def make(name: str, rows: pd.DataFrame) -> Output:
    """Return a figure by name, "lbo-fig2", "lbo-fig3" or "lbo-fig5".

    Parameters
    ----------
    name : str
    rows : DataFrame
        Evaluations, see :meth:`experiments.lifelong.sequences.SequenceTask.run`.
    """
    return MAKERS[name](rows)


def _branin(rows: pd.DataFrame) -> Output:
    """Return figure 2: smallest values, and correlations of networks with functions."""
    keys = ["noise", "method", "trial", "function"]
    best = rows.groupby(keys, sort=False)["value"].cummin()
    rows = rows.assign(best=best, regret=best - rows["optimum"])
    last = rows.groupby(keys, sort=False).tail(1)
    noises = sorted(rows["noise"].unique())
    middle = len(noises) // 2
    halves = {"strong": noises[: middle + 1], "weak": noises[middle:]}
    tables = {
        "Smallest value, less the minimum of the function": _by_setting(last, "noise", "regret"),
        "Smallest value, less the minimum of the function: medians": _medians(last),
        **{
            f"Smallest value, less the minimum, after {count} evaluations": _by_setting(
                early, "noise", "regret"
            )
            for count, early in _early(rows)
        },
        "Smallest value": _by_setting(last, "noise", "best"),
        "Seconds for all points": _by_setting(
            rows.groupby(keys, sort=False)["seconds"].sum().reset_index(), "noise", "seconds"
        ),
    }
    count = rows["evaluation"].max() + 1
    notes = [
        f"Trials: {rows['trial'].nunique()}, each of {rows['function'].nunique()} functions with "
        f"{count} evaluations each. Means over functions, with 95 % intervals over trials. Noise "
        "is the standard deviation of the parameters of the functions."
    ]
    return Output(
        rows.drop(columns="networks", errors="ignore"), _draw(rows, halves), tables, notes
    )


def _early(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield numbers of evaluations after which methods are compared, and the rows of these."""
    for count in AFTER:
        if count <= rows["evaluation"].max():
            yield count, rows[rows["evaluation"] == count - 1]


def _by_setting(values: pd.DataFrame, key: str, name: str, digits: int = 2) -> pd.DataFrame:
    """Return means over functions with intervals over trials; rows are methods."""
    means = values.groupby([key, "method", "trial"], sort=False)[name].mean()

    def text(values: pd.Series) -> str:
        mean = f"{values.mean():.{digits}f}"
        return f"{mean} ± {interval(values):.{digits}f}" if len(values) > 1 else mean

    return means.groupby([key, "method"], sort=False).agg(text).unstack(key, sort=False)


def _medians(last: pd.DataFrame) -> pd.DataFrame:
    """Return medians of the regret over functions and trials; rows are methods."""
    medians = last.groupby(["noise", "method"], sort=False)["regret"].median()
    return medians.map("{:.3f}".format).unstack("noise", sort=False)


def _registry(rows: pd.DataFrame) -> Output:
    """Return figure 3: best scores, as improvements on random search."""
    keys = ["overlap", "method", "trial", "function"]
    rows = rows.assign(best=rows.groupby(keys, sort=False)["value"].cummax())
    rows["best"] = rows.groupby(keys, sort=False)["best"].ffill()  # evaluations that failed
    gain = _gains(rows.groupby(keys, sort=False).tail(1))
    tables = {
        "Improvement on random search, percent": _percent(gain),
        **{
            f"Improvement on random search, percent, after {count} evaluations": _percent(
                _gains(early)
            )
            for count, early in _early(rows)
        },
        "Area under the curve": _by_setting(
            rows.groupby(keys, sort=False).tail(1), "overlap", "best", digits=4
        ),
    }
    count = rows["evaluation"].max() + 1
    notes = [
        f"Trials: {rows['trial'].nunique()}, each of {rows['function'].nunique()} data sets with "
        f"{count} evaluations each, of the area under the receiver operating characteristic by "
        "five-fold cross-validation. Means over data sets, with 95 % intervals over trials. The "
        "improvement is that of the best score on the best of random search. The paper's registry "
        "isn't public: unless the settings name a table, registries are simulated."
    ]
    return Output(rows, _improvements(gain, rows), tables, notes)


def _gains(scores: pd.DataFrame) -> pd.DataFrame:
    """Return by how much the best scores are above that of random search, as shares."""
    best = scores.set_index(["overlap", "method", "trial", "function"])["best"].unstack("method")
    methods = [name for name in dict.fromkeys(scores["method"]) if name != RANDOM]
    gains = best[methods].div(best[RANDOM], axis=0) - 1.0
    gain = gains.stack().rename("gain").reset_index()
    gain["method"] = pd.Categorical(gain["method"], methods)
    gain = gain.sort_values(["overlap", "method"], ignore_index=True)
    return gain.assign(method=gain["method"].astype(str))


def _percent(gain: pd.DataFrame) -> pd.DataFrame:
    return _by_setting(gain.assign(gain=100 * gain["gain"]), "overlap", "gain")


def _improvements(gain: pd.DataFrame, rows: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    looks = style.line_styles(list(dict.fromkeys(rows["method"])))
    methods = list(dict.fromkeys(gain["method"]))
    for place, method in enumerate(methods):
        trials = gain[gain["method"] == method].groupby(["overlap", "trial"])["gain"].mean()
        improvement = 100 * trials.groupby("overlap").mean()
        ends = 100 * trials.groupby("overlap").agg(lambda v: interval(v) if len(v) > 1 else 0.0)
        shift = 0.06 * (place - (len(methods) - 1) / 2)
        left.errorbar(
            improvement.index + shift, improvement, ends, label=method, capsize=2, **looks[method]
        )
    left.axhline(0.0, color="0.6", lw=0.8)
    left.set(xlabel="overlap in years", ylabel="improvement on random search, %")
    left.set_xticks(sorted(gain["overlap"].unique()))
    for method, values in rows.groupby("method", sort=False):
        mean = values.groupby("evaluation")["best"].mean()
        look: style.Style = looks[str(method)] | {"markevery": 10, "markersize": 4}
        right.plot(mean.index + 1, mean, label=str(method), **look)
    right.set(xlabel="evaluations", ylabel="best area under the curve")
    for ax in (left, right):
        style.tidy(ax)
    style.legend_below(figure, right)
    return figure


def _draw(rows: pd.DataFrame, halves: dict[str, list[float]]) -> Figure:
    networks = rows[(rows["method"] == LBO) & (rows["trial"] == 0)]
    networks = networks.dropna(subset="networks") if "networks" in rows else networks[:0]
    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    axes = figure.subplots(1, 2 + bool(len(networks)), squeeze=False)[0]
    looks = style.line_styles(list(dict.fromkeys(rows["method"])))
    for ax, (name, noises) in zip(axes, halves.items(), strict=False):
        part = rows[rows["noise"].isin(noises)]
        for method, values in part.groupby("method", sort=False):
            mean = values.groupby("evaluation")["regret"].mean()
            look: style.Style = looks[str(method)] | {"markevery": 10, "markersize": 4}
            ax.plot(mean.index + 1, np.maximum(mean, 1e-6), label=str(method), **look)
        ax.set(xlabel="evaluations", ylabel="smallest value above the minimum", yscale="log")
        ax.set_title(f"{name} correlation: noise {', '.join(f'{n:g}' for n in noises)}")
        style.tidy(ax)
    if len(networks):
        part = networks[networks["noise"] == halves["weak"][0]]
        _correlations(part, axes[2])
    style.legend_below(figure, axes[0])
    return figure


def _correlations(rows: pd.DataFrame, ax: Axes) -> None:
    """Draw correlations of networks with functions, zero for networks that aren't used."""
    values = np.array([json.loads(text) for text in rows["networks"]]).T
    used = np.flatnonzero(np.abs(values).sum(axis=1))
    image = ax.imshow(values[used], vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto")
    ax.set(xlabel="function", ylabel="network", title="correlations of LBO's networks")
    ax.set_xticks(range(values.shape[1]), [str(i + 1) for i in range(values.shape[1])])
    ax.set_yticks(range(len(used)), [str(i + 1) for i in used])
    ax.figure.colorbar(image, ax=ax)


def _times(rows: pd.DataFrame) -> Output:
    """Return figure 5: accumulated time against the number of functions."""
    spent = rows.groupby(["method", "trial", "function"], sort=False)["seconds"].sum()
    sums = spent.groupby(["method", "trial"], sort=False).cumsum().reset_index()
    mean = (
        sums.groupby(["method", "function"], sort=False)["seconds"]
        .mean()
        .unstack("method", sort=False)
    )
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    ax = figure.add_subplot()
    looks = style.line_styles(list(mean))
    for method in mean:
        ax.plot(mean.index + 1, mean[method], label=method, **looks[method])
    ax.set(xlabel="functions", ylabel="CPU seconds, accumulated")
    style.tidy(ax)
    style.legend_below(figure, ax)
    # If time is linear, functions of the second half of a sequence take as long as the others.
    each = spent.groupby(["method", "function"], sort=False).mean().unstack("method", sort=False)
    half = len(each) // 2
    table = pd.DataFrame(
        {
            "CPU seconds": mean.iloc[-1].map("{:.1f}".format),
            "second half / first": (each[half:].mean() / each[:half].mean()).map("{:.2f}".format),
        }
    )
    notes = ["CPU seconds of asking for points, without compilation."]
    return Output(rows, figure, {"Time for all functions": table}, notes)


MAKERS: dict[str, Callable[[pd.DataFrame], Output]] = {
    "lbo-fig2": _branin,
    "lbo-fig3": _registry,
    "lbo-fig5": _times,
}
