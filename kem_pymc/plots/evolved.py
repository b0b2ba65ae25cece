"""Plot of an evolved kernel: its covariance, draws from its prior, and its predictions."""

import numpy as np

from kem_pymc._system.options import checked
from kem_pymc.plots import style
from kem_pymc.plots.curves import CROSSES, FINE, column_of, draw_band, points_of, section
from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.objective import covariances
from kem_pymc.search.evocov.result import EvolvedSelection
from kem_pymc.search.evocov.tape import lower

#: Number of inputs along each side of the covariance, and number of draws from the prior.
COARSE, DRAWS = 100, 4


@checked
def evolved_kernel(
    selection: EvolvedSelection,
    *,
    feature: str | int | None = None,
    ahead: float = 0.1,
    study: style.Named | None = None,
    figure: style.Panel | None = None,
) -> np.ndarray:
    """Draw the covariance of the best evolved kernel, draws from its prior, and the predictions.

    The covariance of two inputs is in squared units of the target. Draws from the prior are of the
    function, around the mean of the targets. Predictions average over kernels, as those of
    :meth:`EvolvedSelection.predict`; bands are 2 sd of the function, and of new observations. With
    several features, the others are held at the median of the user's points.

    Parameters
    ----------
    selection : EvolvedSelection
    feature : str or int, optional
        Name or index of the feature on the horizontal axis; by default the first.
    ahead : float
        How far predictions go beyond the last point, as a fraction of the range of the points.
    study : Cohort or Evolutions, optional
        Source of the axis labels.
    figure : Figure or SubFigure, optional
        By default a new one.

    Returns
    -------
    ndarray of Axes, shape (3,)

    Raises
    ------
    InputError
        If there is no such feature, the study has another number of features, or the kernel's
        covariance isn't finite in the range that is drawn.
    """
    names, target = style.names(study, selection.x.shape[1])
    column = column_of(feature, names)
    figure, axes = style.panels(3, 3.7, 3.2, figure=figure)
    x, y = points_of(selection)
    low, high = x[:, column].min(), x[:, column].max()

    unit = selection.scaling.sd_back(1.0)
    at = np.linspace(low, high, COARSE)
    covariance = _covariance(selection, section(x, column, at)) * unit**2
    image = axes[0].pcolormesh(at, at, covariance, shading="nearest", rasterized=True)
    figure.colorbar(image, ax=axes[0])
    axes[0].set(xlabel=names[column], ylabel=names[column], title="covariance")

    at = np.linspace(low, high, FINE)
    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(_covariance(selection, section(x, column, at)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = selection.scaling.mean_back(root @ rng.normal(size=(FINE, DRAWS)))
    axes[1].plot(at, draws, linewidth=1.2)
    axes[1].set(xlabel=names[column], ylabel=target, title="draws from the prior")

    at = np.linspace(low, high + ahead * (high - low), FINE)
    predicted = selection.predict(section(x, column, at))
    colour = style.PALETTE[0]
    axes[2].plot(x[:, column], y, **CROSSES, label="data")
    draw_band(axes[2], at, predicted.mean, predicted.sd, colour, predicted.noise)
    axes[2].set(xlabel=names[column], ylabel=target, title="predictions")
    style.legend_below(figure, axes[2])
    for ax in axes:
        style.tidy(ax)
    return axes


def _covariance(selection: EvolvedSelection, x: np.ndarray) -> np.ndarray:
    """Return the covariance of the best kernel at inputs in the user's units, scaled targets."""
    best = selection.best
    values = coordinates_of(best.natural, np.array([*best.tree.positive, True]))
    return covariances(lower(best.tree), selection.scaling.inputs(x), values)[0]
