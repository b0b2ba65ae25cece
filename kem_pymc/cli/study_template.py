"""A study: describe it here in a sentence or two.

Learn how kernels evolve with ``kem fit study.py --out results``, then select kernels for new users
with ``kem select study.py --evolutions results/evolutions.json``. Or sample as in any PyMC program:
``with model: idata = pm.sample()``.
"""

import pandas as pd
import pymc as pm

import kem_pymc as kem

# Data: a table with one row per point, each user's rows in order of time. Every distinct time is a
# time step; with batch=5, every 5 points are a time step. Without features=, the features are the
# time and all other columns except row numbers and ids; dates in the time column become days since
# the user's first row, and columns of text become categories.
table = pd.read_csv("trial.csv")
cohort = kem.Cohort.from_frame(
    table, user="id", time="week", target="steps", features=["sleep", "mood"]
)

# New users to select kernels for, if there are any yet; the table needs the same columns.
# test = kem.Cohort.from_frame(pd.read_csv("new.csv"), ..., scope="new")

# Candidates: kernels that a user's sum of kernels may include. CONST is a constant level of the
# user; LIN, PER, SE, RQ, MATERN32 and MATERN52 are kernels on one feature (counted from 0), of
# which there may be products; ARD is the product of SE over all features.
pool = kem.CandidatePool(["CONST", "LIN0", "LIN1", "SE0", "SE1", "LIN0 x SE1", "ARD"], dimension=2)

# Priors: the default table, for data scaled to unit range, which the model does automatically. The
# paper's table is kem.priors.paper(). Every entry can be any PyMC distribution; print(priors) shows
# all entries.
priors = kem.priors.default(pool).replace(
    {"SE.lengthscale": pm.InverseGamma.dist(5, 1)},  # other lengthscales keep their prior
    stay=0.9,  # probability that a candidate of the parent composition is in the child
    # noise=lambda parent: ...,  # noise variance: a distribution that may depend on parent.size
)

# The model: one Dirichlet process over next kernels for every parent composition. With
# feedback="cut", later data don't influence earlier kernels; with "joint", all data inform all
# kernels. With shared="auto", users share a mean function if that improves predictions of each
# pilot user from the others.
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared="auto")

# Sampler: arguments of pm.sample, which the command line can override.
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
