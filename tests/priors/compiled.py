"""Densities and draws of compiled priors, called from compiled code as the engine does."""

import numpy as np

from kem_pymc._system.jit.decorators import compiled


@compiled
def log_densities(priors, entry, v, parent):
    out = np.empty((4, v.shape[0]))
    for i in range(v.shape[0]):
        out[0, i] = priors.log_density(entry, v[i], priors.population)
        out[1, i] = priors.gradient(entry, v[i], priors.population)
        out[2, i] = priors.noise_log_density(parent, v[i], priors.population)
        out[3, i] = priors.noise_gradient(parent, v[i], priors.population)
    return out


@compiled
def draws(priors, entry, parent, rng, n):
    out = np.empty((2, n))
    for i in range(n):
        out[0, i] = priors.draw(entry, rng, priors.population)
        out[1, i] = priors.noise_draw(parent, rng, priors.population)
    return out


def place(pool, name):
    return [h.name for h in pool.hyperparameters].index(name)
