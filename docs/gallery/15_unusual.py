"""
Who is unusual
==============

How each user deviates in level and in line, the most unusual first. The last user was given a line of its own.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(2)
weeks = np.tile(np.arange(8), 15)
users = np.repeat(np.arange(15), 8)
score = 20 - 0.5 * weeks + rng.normal(0, 2, 15)[users] + rng.normal(0, 1, len(weeks))
score += np.where(users == 14, 1.5 * weeks, 0)
table = pd.DataFrame({"id": users, "week": weeks, "score": score})

cohort = kem.Cohort.from_frame(table, user="id", time="week", target="score", scope="population")
kem.plots.deviations(kem.PopulationModel(cohort).fit())
