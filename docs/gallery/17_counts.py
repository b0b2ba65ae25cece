"""
Counts by group
===============

Seizures in two groups: the rates, and the rate ratio. At the command line it is ``kem effects --family count --by group``.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(4)
weeks = np.tile(np.arange(6), 40)
users = np.repeat(np.arange(40), 6)
treated = users % 2
rate = np.exp(1.5 + rng.normal(0, 0.5, 40)[users] - 0.15 * treated * weeks)
table = pd.DataFrame({"id": users, "week": weeks, "seizures": rng.poisson(rate)})
table["group"] = np.where(treated, "drug", "placebo")

cohort = kem.Cohort.from_frame(
    table, user="id", time="week", target="seizures", family="count", scope="population"
)
posterior = kem.PopulationModel(cohort).fit()
print(posterior.comparisons("group").round(2).T)
kem.plots.mean_curves(posterior, by="group")
