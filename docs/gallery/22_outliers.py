"""
Outliers
========

One reading in twenty is wrong. A normal model follows them, Student's t doesn't.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(9)
weeks = np.tile(np.arange(8), 20)
users = np.repeat(np.arange(20), 8)
score = 10 + rng.normal(0, 1, 20)[users] + 0.3 * weeks + rng.normal(0, 0.7, len(weeks))
score[rng.random(len(weeks)) < 0.05] += 20
table = pd.DataFrame({"id": users, "week": weeks, "score": score})

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for ax, family in zip(axes, (None, "student"), strict=True):
    cohort = kem.Cohort.from_frame(
        table, user="id", time="week", target="score", family=family, scope="population"
    )
    kem.plots.mean_curves(kem.PopulationModel(cohort).fit(), ax=ax)
    ax.set(title=family or "normal", ylim=(5, 18))
