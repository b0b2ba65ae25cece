"""
A difference over time
======================

Usual less coached, week by week: when does it begin, and how large is it?
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(1)
weeks = np.tile(np.arange(10), 30)
users = np.repeat(np.arange(30), 10)
coach = users % 2
steps = 50 + rng.normal(0, 6, 30)[users] + coach * 2.0 * np.maximum(weeks - 3, 0)
table = pd.DataFrame({"id": users, "week": weeks, "steps": steps + rng.normal(0, 5, len(weeks))})
table["arm"] = np.where(coach, "coach", "usual")

cohort = kem.Cohort.from_frame(table, user="id", time="week", target="steps", scope="population")
kem.plots.comparisons(kem.PopulationModel(cohort).fit(), "arm", over="week")
