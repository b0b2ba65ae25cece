"""
Ordered levels
==============

Pain from 1 to 5: the difference of the mean level between two arms, week by week.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(7)
weeks = np.tile(np.arange(6), 40)
users = np.repeat(np.arange(40), 6)
treated = users % 2
latent = rng.normal(0, 0.7, 40)[users] - 0.3 * treated * weeks + rng.normal(0, 1, len(weeks))
table = pd.DataFrame({"id": users, "week": weeks})
table["pain"] = np.digitize(latent, [-1.5, -0.5, 0.5, 1.5]) + 1
table["arm"] = np.where(treated, "exercise", "usual")

cohort = kem.Cohort.from_frame(
    table, user="id", time="week", target="pain", family="ordinal", scope="population"
)
kem.plots.comparisons(kem.PopulationModel(cohort).fit(), "arm", over="week")
