"""
Prior predictive targets
========================

What the model expects of a user before there are data, under the default priors and with smaller amplitudes.
"""

import matplotlib.pyplot as plt
import pymc as pm

import kem_pymc as kem

cohort = kem.datasets.synthetic(users=2, time_steps=3, seed=0)
pool = kem.CandidatePool(["LIN0", "PER0", "SE0"])
default = kem.priors.default(pool)
priors = {
    "default": default,
    "smaller amplitudes": default.replace(amplitude=pm.LogNormal.dist(-3, 0.5)),
}
figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
for ax, (name, table) in zip(axes, priors.items(), strict=True):
    with kem.EvolutionModel(cohort, pool, table):
        prior = pm.sample_prior_predictive(30, random_seed=0)
    drawn = prior["prior_predictive"]["targets"].isel(user=0, time_step=-1, chain=0)
    ax.plot(drawn.T, color="C0", alpha=0.3)
    ax.set(title=name, xlabel="point")
