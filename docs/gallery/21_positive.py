"""
Positive numbers
================

Concentrations whose spread grows with their mean: gamma distributed around a mean that falls.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(8)
hours = np.tile(np.arange(10), 15)
users = np.repeat(np.arange(15), 10)
mean = np.exp(2 + rng.normal(0, 0.4, 15)[users] - 0.25 * hours)
table = pd.DataFrame({"id": users, "hour": hours, "concentration": rng.gamma(4, mean / 4)})

cohort = kem.Cohort.from_frame(
    table,
    user="id",
    time="hour",
    target="concentration",
    family="positive",
    scope="population",
)
kem.plots.mean_curves(kem.PopulationModel(cohort).fit())
