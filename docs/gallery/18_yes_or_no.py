"""
Yes or no
=========

Whether a message was read: the probability over the days, with and without reminders.
"""

import numpy as np
import pandas as pd

import kem_pymc as kem

rng = np.random.default_rng(5)
days = np.tile(np.arange(10), 40)
users = np.repeat(np.arange(40), 10)
reminded = users % 2
odds = 1 + rng.normal(0, 1, 40)[users] - 0.3 * days * (1 - reminded)
table = pd.DataFrame({"id": users, "day": days})
table["read"] = rng.binomial(1, 1 / (1 + np.exp(-odds)))
table["arm"] = np.where(reminded, "reminded", "not reminded")

cohort = kem.Cohort.from_frame(
    table, user="id", time="day", target="read", family="binary", scope="population"
)
kem.plots.mean_curves(kem.PopulationModel(cohort).fit(), by="arm")
