"""
Sums and products
=================

A sum adds independent functions, a product makes one function with both properties.
"""

import matplotlib.pyplot as plt
import numpy as np

import kem_pymc as kem

weeks = np.linspace(0, 20, 300)
compositions = {
    "LIN0 + PER0": "a trend and a rhythm",
    "LIN0 x PER0": "a rhythm that grows",
    "PER0 x SE0": "a rhythm that changes its shape",
}
values = {"amplitude": 2.0, "shift": 0.0, "lengthscale": 3.0, "period": 5.0}
figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharex=True, layout="constrained")
for ax, (name, what) in zip(axes, compositions.items(), strict=True):
    hyperparameters = kem.Composition.parse(name).hyperparameters
    given = {h.name: values[h.name.rpartition(".")[2]] for h in hyperparameters}
    given |= {n: 0.02 for n in given if n.startswith("LIN0") and n.endswith("amplitude")}
    ax.plot(weeks, kem.gp.draw_functions(name, weeks, given, 3, rng=2).T)
    ax.set(title=f"{name}\n{what}", xlabel="week")
