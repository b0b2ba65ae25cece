"""
How groups differ
=================

Two arms of a trial: their mean curves over the weeks, with 95 % intervals, and what each user did.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(0)
weeks = np.tile(np.arange(8), 24)
users = np.repeat(np.arange(24), 8)
coach = users % 2
level = rng.normal(0, 8, 24)[users]
steps = 50 + level + coach * 12 * (1 - np.exp(-weeks / 2)) + rng.normal(0, 5, len(weeks))
table = pd.DataFrame({"id": users, "week": weeks, "steps": steps})
table["arm"] = np.where(coach, "coach", "usual")

cohort = kem.Cohort.from_frame(table, user="id", time="week", target="steps", scope="population")
posterior = kem.PopulationModel(cohort).fit()
kem.plots.mean_curves(posterior, by="arm")
