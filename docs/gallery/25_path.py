"""
How two searches went
=====================

Every model that was evaluated, and the best one so far: greedy search and Bayesian optimisation of the model.
"""

import numpy as np

import kem_pymc as kem

rng = np.random.default_rng(1)
x = np.linspace(0, 10, 50)
y = x * np.sin(3 * x) / 3 + rng.normal(0, 0.5, 50)
found = {
    method: kem.search.search(x, y, method, budget=12, progressbar=False)
    for method in ("cks", "boms")
}
kem.plots.search_path(found)
