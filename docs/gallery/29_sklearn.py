"""
In scikit-learn
===============

What a regressor knows of a user: before any data, after ten rows, and after thirty. The line is the true function.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kem_pymc as kem
from kem_pymc.sklearn import KEMRegressor

learned = kem.Evolutions.load("evolutions.json")  # of the first example
others = kem.datasets.synthetic(users=2, time_steps=6, seed=0)
user = kem.datasets.synthetic(users=1, time_steps=6, seed=7)
pilots, rows = others.to_frame(), user.to_frame()
regressor = KEMRegressor(evolutions=learned, batch=5)
regressor.fit(pilots[["x"]], pilots["y"], groups=pilots["user"])

at, known = pd.DataFrame({"x": np.linspace(rows["x"].min(), rows["x"].max(), 200)}), 0
new = np.full(200, "new")
_, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for ax, n in zip(axes, (0, 10, 30), strict=True):
    if n > known:
        coming = rows[known:n]
        regressor.partial_fit(coming[["x"]], coming["y"], groups=new[known:n])
    known = n
    mean, sd = regressor.predict(at, groups=new, return_std=True)
    ax.plot(user.truth.x_test[:, 0], user.truth.f_test[0], "k", lw=1)
    ax.plot(at["x"], mean)
    ax.fill_between(at["x"], mean - 2 * sd, mean + 2 * sd, alpha=0.3)
    ax.plot(rows["x"][:n], rows["y"][:n], "k.", ms=4)
    ax.set(xlabel="x", title=f"{n} rows")
axes[0].set_ylabel("y")
