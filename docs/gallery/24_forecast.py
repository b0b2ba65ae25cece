"""
A forecast
==========

A year ahead, with 95 % intervals, from a search that knows the horizon.
"""

import matplotlib.pyplot as plt
import numpy as np

import kem_pymc as kem

rng = np.random.default_rng(0)
years = 1949 + np.arange(72) / 12
passengers = 110 + 25 * (years - 1949) + 20 * np.sin(2 * np.pi * years) + rng.normal(0, 3, 72)

known, coming = years[:60], years[60:]
found = kem.search.search(known, passengers[:60], budget=6, horizon=12, progressbar=False)
prediction = found.selection.predict(coming, include_noise=True)
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.plot(years, passengers, "k.", label="data")
ax.plot(coming, prediction.mean, label="forecast")
ax.fill_between(
    coming, prediction.quantile(0.025), prediction.quantile(0.975), alpha=0.3, label="95 %"
)
ax.legend()
