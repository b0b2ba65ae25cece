"""A small pool to search, and the posterior density of its kernels by hand."""

import math

import numpy as np
from scipy.stats import multivariate_normal, norm

from kem_pymc import priors
from kem_pymc.data.datasets.simulate import covariance
from kem_pymc.kernels.pool import CandidatePool

TABLE = priors.synthetic()
SMALL = CandidatePool(["LIN0", "PER0", "SE0"])


def density(selection, x, y):
    """Log posterior of a kernel, by hand: inclusion, hyperparameters, noise, likelihood."""
    total = norm(0, 2).logpdf(math.log(selection.noise))
    for candidate in SMALL:
        total += math.log(0.1 if candidate in selection.composition else 0.9)
    for name, value in selection.hyperparameters.items():
        kind = name.split(".")[1]
        place, scale = (math.log(5), 0.25) if kind == "period" else (0, 2)
        total += norm(0, 0.1).logpdf(value) if kind == "shift" else 0.0
        total += norm(place, scale).logpdf(math.log(value)) if kind != "shift" else 0.0
    k = selection.noise * np.eye(len(y))
    if len(selection.composition):
        points = x[:, 0]
        k += covariance(str(selection.composition), selection.hyperparameters, points, points)
    return total + multivariate_normal.logpdf(y, cov=k)
