"""
Base kernels
============

Functions drawn from each of six kernels of one feature, before there are data.
"""

import matplotlib.pyplot as plt
import numpy as np

import kem_pymc as kem

weeks = np.linspace(0, 20, 300)
kernels = {
    "LIN0": {"amplitude": 0.02, "shift": 10},
    "PER0": {"amplitude": 4, "lengthscale": 1, "period": 5},
    "SE0": {"amplitude": 4, "lengthscale": 3},
    "RQ0": {"amplitude": 4, "lengthscale": 3, "mixture": 0.3},
    "MATERN320": {"amplitude": 4, "lengthscale": 3},
    "MATERN520": {"amplitude": 4, "lengthscale": 3},
}
figure, axes = plt.subplots(2, 3, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained")
for ax, (name, values) in zip(axes.flat, kernels.items(), strict=True):
    values = {f"{name}.{kind}": value for kind, value in values.items()}
    ax.plot(weeks, kem.gp.draw_functions(name, weeks, values, 4, rng=0).T)
    ax.set(title=name)
figure.supxlabel("week")
