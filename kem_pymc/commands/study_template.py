"""A study: what this is about, in a sentence or two.

Learn how kernels evolve with ``kem fit study.py --out results``, then select kernels for new users
with ``kem select study.py --evolutions results/evolutions.json``. Or sample as in any PyMC program:
``with model: idata = pm.sample()``.
"""

import pandas as pd
import pymc as pm

import kem_pymc as kem

# Data. A table with one row per point; a user's rows are in order of time. Every distinct time is
# a time step, or every so many points with batch=5. Without features=, the time and all other
# columns but row numbers and ids; dates of the time, as a feature, are days since a user's first
# row, and text is categories.
table = pd.read_csv("trial.csv")
cohort = kem.Cohort.from_frame(
    table, user="id", time="week", target="steps", features=["sleep", "mood"]
)

# New users to select kernels for, if there are any yet: the same columns.
# test = kem.Cohort.from_frame(pd.read_csv("new.csv"), ..., scope="new")

# Candidates: what may be switched on and added up. CONST, a user's own level; LIN, PER, SE, RQ,
# MATERN32 or MATERN52 on a feature (counted from 0), products of them, and ARD, the product of SE
# over all features.
pool = kem.CandidatePool(["CONST", "LIN0", "LIN1", "SE0", "SE1", "LIN0 x SE1", "ARD"], dimension=2)

# Priors: the table for data that are scaled to unit range, as the model does by itself; the paper's
# is kem.priors.paper(). Every entry can be any PyMC distribution; print(priors) shows them all.
priors = kem.priors.default(pool).replace(
    {"SE.lengthscale": pm.InverseGamma.dist(5, 1)},  # other kernels' lengthscales as before
    stay=0.9,  # probability that a candidate of the parent composition is in the child
    # noise=lambda parent: ...,  # variance: a distribution that may look at parent.size
)

# The model: one Dirichlet process over next kernels for every parent composition. With
# feedback="cut" no kernel looks at later data; with "joint" all data speak about all kernels. With
# shared="auto" users share a mean, if that predicts pilot users better from the others.
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared="auto")

# How to sample it: arguments of pm.sample, which the command line can override.
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
