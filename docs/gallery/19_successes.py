"""
Successes of a number of trials
===============================

Tasks that were solved, of eight to twelve each week: the probability of a success.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(6)
weeks = np.tile(np.arange(8), 20)
users = np.repeat(np.arange(20), 8)
odds = -1 + rng.normal(0, 0.7, 20)[users] + 2 * (1 - np.exp(-weeks / 2))
table = pd.DataFrame({"id": users, "week": weeks, "given": rng.integers(8, 13, len(weeks))})
table["solved"] = rng.binomial(table["given"], 1 / (1 + np.exp(-odds)))

cohort = kem.Cohort.from_frame(
    table,
    user="id",
    time="week",
    target="solved",
    family="binomial",
    size="given",
    scope="population",
)
kem.plots.mean_curves(kem.PopulationModel(cohort).fit())
