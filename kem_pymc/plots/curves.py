"""Plots of selected kernels' predictions, from few and from many points (paper, fig. 1)."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_rgba
from matplotlib.patches import Patch

from kem_pymc._system.options import checked
from kem_pymc.data.validation import filled
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.response import Response
from kem_pymc.kernels.prose import named
from kem_pymc.plots import style
from kem_pymc.search.evocov.result import EvolvedSelection
from kem_pymc.selection.selection import Selection

#: Number of points of each curve.
FINE = 300

#: Marker style of a user's points.
CROSSES: style.Style = {
    **{"linestyle": "none", "marker": "x", "markersize": 5, "markeredgewidth": 1.2},
    **{"color": style.INK, "zorder": 3},
}

type Truth = tuple[npt.ArrayLike, npt.ArrayLike]


@checked
def predictions(
    selection: Selection,
    *,
    truth: Truth | None = None,
    feature: str | int | None = None,
    study: style.Named | None = None,
    colour: str = style.PALETTE[0],
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the predictions of a selected kernel for its user.

    With one feature, the plot shows the user's points as crosses, the predictive mean as a dotted
    line, and two bands of 2 sd to either side; the darker one is for the function, the lighter one
    for new observations, noise included. If the target is transformed, it shows the predictive
    median and a 95 % interval of observations; if it has a family, the median and a 95 % interval
    of its mean, such as a rate or a probability, and one of observations. Without the latter, it
    shows counts per unit of exposure, shares of trials, and probabilities of 0 and 1.

    With several features, each point is predicted from the user's other points (leave-one-out, with
    the same hyperparameters) and compared with the observed value. Give a `feature` to draw a
    section instead: the other features are held at the median of the user's points, so the crosses
    needn't lie along the line.

    Parameters
    ----------
    selection : Selection
        Selected kernel, with the user's points.
    truth : (x, f), optional
        The true function: values of the feature (m,), or (m, 1), and its values there (m,).
    feature : str or int, optional
        Name or index of the feature on the horizontal axis.
    study : Cohort or Evolutions, optional
        Source of the axis labels.
    colour : str
    legend : bool
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If there are no points, or no such feature or colour, `truth` isn't a function, there are
        several features and `truth` is given without `feature`, the study has another number of
        features, or the covariance for leave-one-out predictions isn't positive definite.
    """
    if not is_color_like(colour):
        raise InputError(f"colour is {colour!r}. Give one that matplotlib knows, like 'black'.")
    if not len(selection.y):
        raise InputError("The selection has no points to draw. Use its predict for a new user's.")
    names, target = style.names(study, selection.pool.dimension)
    beside, ax = ax is None, style.axes_or_new(ax, 6.5, 3.4)
    if feature is None and len(names) > 1:
        if truth is not None:
            raise InputError(
                f"truth= is a function of one feature, but there are {len(names)}. "
                "Choose one with feature=."
            )
        _draw_left_out(selection, colour, ax)
        ax.set(xlabel="leave-one-out prediction", ylabel=f"observed {target}")
    else:
        column = column_of(feature, names)
        _draw_section(selection, column, truth, colour, ax)
        others = "\n(others at their median)" if len(names) > 1 else ""
        ax.set(xlabel=f"{names[column]}{others}", ylabel=target)
    n = len(selection.y)
    label = style.balanced(named(selection.composition, names), 32)
    ax.set_title(f"{label}, {n} point{'s' * (n > 1)}", fontsize="medium")
    if legend:
        style.legend(ax, beside=beside)
    return style.tidy(ax)


@checked
def few_and_many(
    selections: Sequence[Selection] | Mapping[str, Sequence[Selection]],
    *,
    truth: Truth | None = None,
    feature: str | int | None = None,
    study: style.Named | None = None,
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw one user's predictions from few and from many points side by side.

    Parameters
    ----------
    selections : sequence of Selection, or mapping of str to sequence of Selection
        Selections to draw, one per panel, with shared axes; a mapping has one row of panels per
        method.
    truth, feature, study
        As for :func:`predictions`.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (rows, columns)

    Raises
    ------
    InputError
        If there is nothing to draw, or rows have different lengths; and as for
        :func:`predictions`.
    """
    rows = selections if isinstance(selections, Mapping) else {"": selections}
    lengths = {len(row) for row in rows.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError(
            f"The numbers of selections by method are {sorted(lengths)}. "
            "Give every method the same number of selections, at least one."
        )
    columns = lengths.pop()
    size: style.Style = {"columns": columns, "sharex": True, "sharey": True}
    figure, axes = style.panels(columns * len(rows), 3.5, 2.9, figure=figure, **size)
    axes = axes.reshape(len(rows), columns)
    styles = style.line_styles(list(rows))
    for panels, (name, row) in zip(axes, rows.items(), strict=True):
        colour = styles[name]["color"] if name else style.PALETTE[0]
        for ax, selection in zip(panels, row, strict=True):
            options: style.Style = {"feature": feature, "study": study, "colour": colour}
            predictions(selection, truth=truth, legend=False, ax=ax, **options).label_outer()
        if name:
            panels[0].set_ylabel(f"{name}\n{panels[0].get_ylabel()}")
    legend = style.legend_below(figure, axes[0, 0])
    if len(rows) > 1:  # the legend is for all methods, so its line and bands are grey
        for handle in filter(None, legend.legend_handles[-3:]):
            opacity = to_rgba(handle.get_facecolor())[3] if isinstance(handle, Patch) else 1
            handle.set(color=style.MUTED, alpha=opacity)
    return axes


def points_of(selection: Selection | EvolvedSelection) -> tuple[np.ndarray, np.ndarray]:
    """Return the user's points, inputs (n, D) and targets (n,), in the user's units."""
    scaling = selection.scaling
    extent = scaling.feature_high - scaling.feature_low
    x = scaling.feature_low + selection.x * extent
    if isinstance(selection, Selection):
        return x, selection.targets
    return x, scaling.targets_back(selection.y)


def section(x: np.ndarray, column: int, values: np.ndarray) -> np.ndarray:
    """Return inputs (m, D) with the given values of one feature, the others at their medians."""
    inputs = np.tile(np.median(x, axis=0), (len(values), 1))
    inputs[:, column] = values
    return inputs


def draw_band(
    ax: Axes, x: np.ndarray, mean: np.ndarray, sd: np.ndarray, colour: str, noise: float = 0.0
) -> None:
    """Draw a mean as a dotted line in a band of 2 sd to either side.

    With noise, a variance, there is a lighter band for observations as well.
    """
    ax.plot(x, mean, ":", color=colour, linewidth=2, label="mean")
    bands = {"function": (sd, 0.3)}
    if noise:
        bands["observation"] = np.hypot(sd, noise**0.5), 0.15
    for of, (wide, alpha) in bands.items():
        band: style.Style = {"color": colour, "linewidth": 0, "alpha": alpha}
        ax.fill_between(x, mean - 2 * wide, mean + 2 * wide, **band, label=f"{of} ± 2 sd")


def _draw_section(
    selection: Selection, column: int, truth: Truth | None, colour: str, ax: Axes
) -> None:
    x, y = points_of(selection)
    shown, recorded = x[:, column], selection.recorded
    sizes = None if recorded is None else recorded.sizes
    ax.plot(shown, y if sizes is None else y / sizes, **CROSSES, label="data")
    if truth is not None:
        at, f = _curve(truth)
        order = np.argsort(at)
        ax.plot(at[order], f[order], color="black", linewidth=1.2, label="truth", zorder=2)
        shown = np.append(shown, at)
    margin = 0.03 * np.ptp(shown) or 0.5
    at = np.linspace(shown.min() - margin, shown.max() + margin, FINE)
    predicted = selection.predict(section(x, column, at))
    observation = predicted.observation
    if isinstance(observation, Mixture) and observation.transform is None:
        draw_band(ax, at, predicted.mean, predicted.sd, colour, predicted.noise)
    else:  # the sd is little informative for a skewed distribution
        parts = {"median": (observation.quantile, "observation", 0.15)}
        if isinstance(observation, Response):
            curve = {"mean": (observation.curve_quantile, "mean", 0.3)}
            alone = observation.family.name == "binary" or sizes is not None
            parts = curve if alone else curve | parts
        for name, (quantile, of, alpha) in parts.items():
            low, middle, high = map(quantile, (0.025, 0.5, 0.975))
            band: style.Style = {"color": colour, "linewidth": 0, "alpha": alpha}
            ax.fill_between(at, low, high, **band, label=f"{of}, 95 % interval")
            if name == next(iter(parts)):
                ax.plot(at, middle, ":", color=colour, linewidth=2, label=name)
    ax.margins(x=0)


def _curve(truth: Truth) -> tuple[np.ndarray, np.ndarray]:
    """Return the places and values of a function as arrays of one length."""
    if len(truth) == 2:
        at, f = (np.ravel(filled(values)) for values in truth)
        if len(at) == len(f) > 0:
            return at, f
    raise InputError(
        "truth isn't a function. Give a pair of values of the feature and the function's values "
        "there, as many as of the feature."
    )


def _draw_left_out(selection: Selection, colour: str, ax: Axes) -> None:
    """Draw observed against leave-one-out predicted values (closed form, eq. 5.12 in R&W)."""
    conditional, sites = selection.conditioned.conditional, selection.considered[0].sites
    errors, variances = conditional.left_out()
    x, y = points_of(selection)
    scaling = selection.scaling
    if sites is None or scaling.family is None:
        what, left_out, wide = "observation ± 2 sd", selection.y - errors, 2 * np.sqrt(variances)
        low, middle, high = (scaling.targets_back(left_out + side * wide) for side in (-1, 0, 1))
    else:
        mean = scaling.mean_back(sites.targets - errors)[None]
        noises = selection.predict(x, single=True).noises
        sd = np.sqrt(scaling.variance_back(variances - sites.noise) - noises)
        sizes = None if selection.recorded is None else selection.recorded.sizes
        response = Response(Mixture(np.ones(1), mean, sd), noises, scaling.family, sizes)
        single = scaling.family.name == "binary"  # probabilities say more than 0 and 1
        what = f"{'probability' if single else 'observation'}, 95 % interval"
        quantile = response.curve_quantile if single else response.quantile
        low, middle, high = map(quantile, (0.025, 0.5, 0.975))
    line: style.Style = {"color": style.MUTED, "linewidth": 0.8, "zorder": 1}
    ax.axline((y[0], y[0]), slope=1, label="predicted = observed", **line)
    bars: style.Style = {"fmt": "none", "ecolor": colour, "elinewidth": 1.2, "alpha": 0.5}
    ax.errorbar(middle, y, xerr=[middle - low, high - middle], **bars, label=what)
    ax.plot(middle, y, **CROSSES, label="data")


def column_of(feature: str | int | None, names: Sequence[str]) -> int:
    """Return the index of a feature given by name or index."""
    if feature is None:
        return 0
    if feature in names:
        return names.index(feature)
    if isinstance(feature, int) and 0 <= feature < len(names):
        return feature
    raise InputError(f"There is no feature {feature!r}. Give one of {', '.join(names)}.")
