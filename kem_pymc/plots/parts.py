"""Plot of a prediction split into its additive components."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from kem_pymc._system.options import checked
from kem_pymc.data.categories import CAT
from kem_pymc.data.families import LATENT
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.prediction import Component
from kem_pymc.kernels.composition import Candidate
from kem_pymc.kernels.prose import named
from kem_pymc.plots import style
from kem_pymc.plots.curves import CROSSES, FINE, draw_band, points_of, predictions, section
from kem_pymc.selection.selection import Selection

#: Number of grid points of a map along each of its two features; maximum number of panels side by
#: side.
COARSE, COLUMNS = 60, 3


@checked
def components(
    selection: Selection,
    *,
    study: style.Named | None = None,
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw the prediction of the selected composition alone, then that of each of its components.

    Other compositions, over which predictions usually average, are left out. The title of the first
    panel says how much of the weight the selected composition has.

    A component of one feature is drawn as a dotted line in a band of 2 sd; crosses are the user's
    points less all other components, so their scatter around the line is noise. Such panels share
    their vertical range. A component of two features is drawn as a map of its mean. A component of
    more features, or of categories, is drawn at the user's points only, against the observed
    values.

    The title of each panel gives the standard deviation of the component's mean over the user's
    points, in the target's unit: how much the component changes the prediction.

    Components add up to the transformed target if there is a transform, and to latent values, such
    as log odds, if the target has a family; there are no crosses for the latter, since targets have
    another scale.

    Parameters
    ----------
    selection : Selection
        Selected kernel, with the user's points.
    study : Cohort or Evolutions, optional
        Source of the axis labels.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (1 + number of components,)

    Raises
    ------
    InputError
        If the study has another number of features; and as for :func:`predictions`.
    """
    names, target = style.names(study, selection.pool.dimension)
    label = f"contribution to {_summed(target, selection.scaling)}"
    own = tuple(r for r in selection.considered if r.composition == selection.composition)
    weight = (1 - selection.departure) * sum(row.weight for row in own)
    selection = replace(selection, considered=own, unshared=None, departure=0.0)
    count = 1 + len(selection.composition)
    rows = -(-count // COLUMNS)
    figure, axes = style.panels(count, 3.4, 2.9, -(-count // rows), figure)
    predictions(selection, study=study, legend=False, ax=axes[0])
    axes[0].set_title(f"{axes[0].get_title()}\nweight {100 * weight:.0f} %", fontsize="medium")
    alike = []
    for ax, candidate in zip(axes[1:], selection.composition, strict=True):
        features = sorted(candidate.dimensions) or [0]  # CONST is constant along any feature
        grouped = any(factor.base == CAT for factor in candidate.factors)
        if len(features) == 1 and not grouped:
            _draw_curve(selection, candidate, features[0], ax)
            ax.set(xlabel=names[features[0]], ylabel=label)
            alike.append(ax)
        elif len(features) == 2 and not grouped:
            _draw_map(selection, candidate, features, label, ax)
            ax.set(xlabel=names[features[0]], ylabel=names[features[1]])
        else:
            _draw_at_points(selection, candidate, ax)
            ax.set(xlabel=f"observed {target}", ylabel=label)
        x, _ = points_of(selection)
        spread = _share(selection, candidate, x).mean.std()
        ax.set_title(named((candidate,), names), loc="left", fontsize="medium")
        ax.set_title(f"sd {spread:.2g}", loc="right", fontsize="small", color=style.MUTED)
        style.tidy(ax)
    if alike:
        style.legend_below(figure, alike[0])
        limits = np.array([ax.get_ylim() for ax in alike])
        for ax in alike:
            ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    return axes


def _summed(target: str, scaling: Scaling) -> str:
    """Return what components add up to."""
    if scaling.family is not None and scaling.family.name != "student":
        return f"the {LATENT[scaling.family.name]} of {target}"
    return target if scaling.transform is None else f"{target} by {scaling.transform.name}"


def _share(selection: Selection, candidate: Candidate, x: np.ndarray) -> Component:
    label = candidate.label(selection.pool.dimension)
    return selection.predict(x).components[label]


def _draw_curve(selection: Selection, candidate: Candidate, column: int, ax: Axes) -> None:
    x, _ = points_of(selection)
    low, high = x[:, column].min(), x[:, column].max()
    margin = 0.03 * (high - low) or 0.5
    at = np.linspace(low - margin, high + margin, FINE)
    share = _share(selection, candidate, section(x, column, at))
    draw_band(ax, at, share.mean, share.sd, style.PALETTE[0])
    if selection.scaling.family is None or selection.scaling.family.name == "student":
        fitted, own = selection.predict(x), candidate.label(selection.pool.dimension)
        others = sum(part.mean for label, part in fitted.components.items() if label != own)
        partial = selection.scaling.mean_back(selection.y) - fitted.offset - others
        ax.plot(x[:, column], partial, **CROSSES, label="data minus the other components")
    ax.margins(x=0)


def _draw_map(
    selection: Selection, candidate: Candidate, features: list[int], label: str, ax: Axes
) -> None:
    x, _ = points_of(selection)
    first, second = (np.linspace(x[:, d].min(), x[:, d].max(), COARSE) for d in features)
    inputs = section(x, features[0], np.tile(first, COARSE))
    inputs[:, features[1]] = np.repeat(second, COARSE)
    mean = _share(selection, candidate, inputs).mean.reshape(COARSE, COARSE)
    most = np.abs(mean).max()
    scale: style.Style = {"cmap": "RdBu_r", "vmin": -most, "vmax": most}
    image = ax.pcolormesh(first, second, mean, **scale, shading="nearest", rasterized=True)
    ax.figure.colorbar(image, ax=ax, label=label).outline.set_visible(False)
    ax.plot(x[:, features[0]], x[:, features[1]], **CROSSES)


def _draw_at_points(selection: Selection, candidate: Candidate, ax: Axes) -> None:
    x, y = points_of(selection)
    share = _share(selection, candidate, x)
    bars: style.Style = {"fmt": "none", "ecolor": style.PALETTE[0], "elinewidth": 1.2, "alpha": 0.5}
    ax.errorbar(y, share.mean, 2 * share.sd, **bars)
    ax.plot(y, share.mean, **CROSSES)
