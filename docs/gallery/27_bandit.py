"""
When to notify
==============

Steps are observed at home and at work, and their weighted sum counts: what D-GPUCB knows of it after twenty days.
"""

import matplotlib.pyplot as plt
import numpy as np

from kem_pymc.bandits import Bandit, GaussianProcess, Points, Weighted

hours = np.arange(6, 23, 0.5)
share = {"home": 0.6, "work": 0.4}
peak = {"home": 19, "work": 11}
effect = {context: 4 * np.exp(-((hours - peak[context]) ** 2) / 12) for context in share}

smooth = GaussianProcess.of("SE0", {"SE0.amplitude": 4.0, "SE0.lengthscale": 3.0}, noise=0.5)
bandit = Bandit(Points(hours), [smooth, smooth], Weighted(list(share.values())))
rng = np.random.default_rng(0)
for _ in range(20):
    (hour,) = bandit.ask()
    seen = [effect[context][hours == hour].item() + rng.normal(0, 0.7) for context in share]
    bandit.tell([hour], seen)

mean, variance = bandit.posterior(hours)
_, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.plot(hours, sum(share[context] * effect[context] for context in share), "k", label="truth")
ax.plot(hours, mean, label="mean")
ax.fill_between(hours, *(mean + k * np.sqrt(variance) for k in (-2, 2)), alpha=0.3)
ax.plot([own.x[0] for own in bandit.rounds], np.full(20, -0.5), "|", color="C1", label="days")
ax.set(xlabel="hour", ylabel="effect")
ax.legend()
