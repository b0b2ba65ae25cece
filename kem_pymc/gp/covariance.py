"""Noise-free covariance matrices of compositions and candidates."""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.kernels.library import ADD, MULTIPLY, SET


@compiled
def covariance(kernels, layout, active, h, x, out, scratch):
    """Fill the upper triangle of `out` with a composition's noise-free covariance.

    Parameters
    ----------
    kernels : KernelPointers
    layout : PoolLayout
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
        target = out if direct else scratch
        how = ADD if direct and k > 0 else SET
        scale = math.exp(h[layout.hyper_start[c]])
        if first == last:  # CONST
            for i in range(n):
                for d in range(n - i):
                    target[i, i + d] = scale if how == SET else target[i, i + d] + scale
        for f in range(first, last):
            natural_values(layout, f, h, values)
            points = x[layout.factor_dimension[f]]
            kernels.fill(layout.factor_base[f], points, values, scale, how, target)
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
def cross_covariances(kernels, layout, active, h, x, z):
    """Return the covariances (k, n, m) of k candidates between points `x` (D, n) and `z` (D, m)."""
    values = np.empty(8)
    cross = np.empty((active.shape[0], x.shape[1], z.shape[1]))
    for k in range(active.shape[0]):
        c = active[k]
        cross[k] = math.exp(h[layout.hyper_start[c]])
        for f in range(layout.factor_start[c], layout.factor_start[c + 1]):
            natural_values(layout, f, h, values)
            d = layout.factor_dimension[f]
            kernels.cross(layout.factor_base[f], x[d], z[d], values, cross[k])
    return cross


@compiled
def covariances_and_variances(kernels, layout, active, h, x, z):
    """Return what :func:`cross_covariances` and :func:`variances` of `x` do, by one call."""
    cross = cross_covariances(kernels, layout, active, h, x, z)
    return cross, variances(kernels, layout, active, h, x)


@compiled
def variances(kernels, layout, active, h, x):
    """Return the variances (k, n) of k candidates at points `x` (D, n)."""
    values = np.empty(8)
    prior = np.empty((active.shape[0], x.shape[1], 1, 1))
    for k in range(active.shape[0]):
        c = active[k]
        prior[k] = math.exp(h[layout.hyper_start[c]])
        for f in range(layout.factor_start[c], layout.factor_start[c + 1]):
            natural_values(layout, f, h, values)
            d = layout.factor_dimension[f]
            for i in range(x.shape[1]):
                kernels.fill(
                    layout.factor_base[f], x[d, i : i + 1], values, 1.0, MULTIPLY, prior[k, i]
                )
    return prior[:, :, 0, 0].copy()
