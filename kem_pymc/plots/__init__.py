"""Plots of evolutions, posteriors, selections and scores.

Functions draw on matplotlib axes, or into a figure, and return the axes. Without ``ax=`` or
``figure=`` they create a figure of a suitable size, pyplot's current one, which notebooks show and
``plt.savefig("evolutions.pdf")`` saves.

``traces`` uses ArviZ's plots and returns an ArviZ PlotCollection.
"""

from kem_pymc.plots.convergence import edges_by_chain, traces
from kem_pymc.plots.curves import few_and_many, predictions
from kem_pymc.plots.evolved import evolved_kernel
from kem_pymc.plots.graph import evolution_graph
from kem_pymc.plots.networks import networks
from kem_pymc.plots.online import online_predictions
from kem_pymc.plots.parts import components
from kem_pymc.plots.population import comparisons, deviations, mean_curves, variance_shares
from kem_pymc.plots.posterior import co_clustering, inclusion
from kem_pymc.plots.scores import log_likelihood
from kem_pymc.plots.search import search_path
from kem_pymc.plots.style import composition_colours
from kem_pymc.plots.tiles import trajectories

__all__ = [
    "co_clustering",
    "comparisons",
    "components",
    "composition_colours",
    "deviations",
    "edges_by_chain",
    "evolution_graph",
    "evolved_kernel",
    "few_and_many",
    "inclusion",
    "log_likelihood",
    "mean_curves",
    "networks",
    "online_predictions",
    "predictions",
    "search_path",
    "traces",
    "trajectories",
    "variance_shares",
]
