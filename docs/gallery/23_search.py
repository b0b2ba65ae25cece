"""
What is in a series
===================

A search without pilot users: the components of the best model, with their shares of the variance.
"""

import numpy as np

import kem_pymc as kem

rng = np.random.default_rng(0)
years = 1949 + np.arange(72) / 12
passengers = 110 + 25 * (years - 1949) + 20 * np.sin(2 * np.pi * years) + rng.normal(0, 3, 72)

found = kem.search.search(years, passengers, "cks", budget=12, progressbar=False)
print(found.verdict)
kem.plots.components(found.selection)
