"""
Functions that keep arriving
============================

The same kind of function every year, shifted a little: from the second one on the sampler begins near the best points.
"""

import matplotlib.pyplot as plt
import numpy as np
import optuna

from kem_pymc.lifelong import LifelongSampler

optuna.logging.set_verbosity(optuna.logging.WARNING)


def loss(trial, year):
    a = trial.suggest_float("a", -5, 5)
    b = trial.suggest_float("b", -5, 5)
    return (a - 1 - 0.1 * year) ** 2 + (b + 2) ** 2 + np.sin(3 * a)


samplers = {"lifelong": LifelongSampler(seed=0), "TPE": optuna.samplers.TPESampler(seed=0)}
_, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
for name, sampler in samplers.items():
    for year, ax in enumerate(axes):
        study = optuna.create_study(sampler=sampler)
        study.optimize(lambda trial, year=year: loss(trial, year), n_trials=10)
        ax.plot(np.minimum.accumulate([t.value for t in study.trials]), label=name)
        ax.set(title=f"year {year}", xlabel="trial", yscale="symlog")
axes[0].legend()
