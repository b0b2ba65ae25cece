"""Noise-free covariance matrices of compositions and candidates."""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.kernels.library import ADD, MULTIPLY, SET


@compiled
def covariance(kernels, layout, active, h, x, out, scratch):
    """Fill the upper triangle of `out` with a composition's noise-free covariance.

    Parameters
    ----------
    kernels : Kernels
    layout : Layout
    active : (k,) int64
        Indices of the composition's candidates in the pool.
    h : (H,) float64
        Hyperparameters: logs of positive ones, values of others.
    x : (D, n) float64
        Inputs, dimension before point.
    out, scratch : (n, m) float64
        Output and work array, with m at least n.
    """
    n = x.shape[1]
    values = np.empty(8)
    if active.shape[0] == 0:
        out[:] = 0.0
    for k in range(active.shape[0]):
        c = active[k]
        first, last = layout.factor_start[c], layout.factor_start[c + 1]
        direct = k == 0 or last - first <= 1
        own = out if direct else scratch
        how = ADD if direct and k > 0 else SET
        scale = math.exp(h[layout.hyper_start[c]])
        if first == last:  # CONST
            for i in range(n):
                for d in range(n - i):
                    own[i, i + d] = scale if how == SET else own[i, i + d] + scale
        for f in range(first, last):
            natural_values(layout, f, h, values)
            points = x[layout.factor_dimension[f]]
            kernels.fill(layout.factor_base[f], points, values, scale, how, own)
            how, scale = MULTIPLY, 1.0
        if not direct:
            for i in range(n):
                for d in range(n - i):
                    out[i, i + d] += scratch[i, i + d]


@compiled
def natural_values(layout, factor, h, values):
    """Write the natural values of a factor's hyperparameters to the first entries of `values`."""
    first = layout.factor_hyper[factor]
    for p in range(layout.factor_size[factor]):
        v = h[first + p]
        values[p] = math.exp(v) if layout.positive[first + p] else v


@compiled
def cross_covariance(kernels, layout, candidate, h, x, z):
    """Return one candidate's covariance K(x, z) (n, m) and the diagonal (m,) of K(z, z)."""
    values = np.empty(8)
    cross = np.full((x.shape[1], z.shape[1]), math.exp(h[layout.hyper_start[candidate]]))
    prior = np.full((z.shape[1], 1, 1), math.exp(h[layout.hyper_start[candidate]]))
    for f in range(layout.factor_start[candidate], layout.factor_start[candidate + 1]):
        natural_values(layout, f, h, values)
        base = layout.factor_base[f]
        d = layout.factor_dimension[f]
        kernels.cross(base, x[d], z[d], values, cross)
        for j in range(z.shape[1]):
            kernels.fill(base, z[d, j : j + 1], values, 1.0, MULTIPLY, prior[j])
    return cross, prior[:, 0, 0].copy()
