"""
Where the variance is
=====================

Shares of the variance that time, users and noise have, with intervals.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(3)
days = np.tile(np.arange(12), 20)
users = np.repeat(np.arange(20), 12)
mood = 5 + np.sin(days / 2) + rng.normal(0, 1.5, 20)[users] + rng.normal(0, 1, len(days))
table = pd.DataFrame({"id": users, "day": days, "mood": mood})

cohort = kem.Cohort.from_frame(table, user="id", time="day", target="mood", scope="population")
kem.plots.variance_shares(kem.PopulationModel(cohort).fit())
