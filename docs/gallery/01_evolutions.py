"""
Evolutions that pilot users teach
=================================

Eight simulated pilot users with a line and a rhythm, or a smooth curve: from no kernel at all to those that are used once
there are more data. The posterior and the evolutions are kept for the next examples.
"""

import pymc as pm

import kem_pymc as kem

cohort = kem.datasets.synthetic(users=8, time_steps=4, seed=0)
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"])
with kem.EvolutionModel(cohort, pool, priors=kem.priors.synthetic()):
    idata = pm.sample(draws=100, tune=100, chains=2, cores=1, random_seed=1, progressbar=False)

learned = kem.Evolutions.from_posterior(idata)
idata.to_zarr("posterior.zarr", mode="w")
learned.save("evolutions.json")
kem.plots.evolution_graph(learned)
