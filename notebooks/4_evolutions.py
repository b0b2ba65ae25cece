# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small:
#       users: 3
#       time_steps: 4
#       draws: 60
#       tune: 60
#       chains: 2
#       nuts: 60
#       rivals: [one candidate less]
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4. One cluster, all the way: NUTS, predictive checks, LOO
#
# Clusters are where users share a kernel. The sampler of the whole model moves between
# compositions; once a composition is worth a closer look, its cluster is a **plain PyMC model**,
# and everything that PyMC and ArviZ can do applies: NUTS, posterior predictive checks, LOO.
#
# The data are the energy efficiency study of UCI (from the folder that `KEM_DATA` names): the
# heating load of buildings, each "user" a random portion of them.

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import kem_pymc as kem

# %matplotlib inline

# %% tags=["parameters"]
users = 7
time_steps = 6
draws = 300
tune = 300
chains = 4
nuts = 300
rivals = ["ARD", "one candidate less"]
seed = 0

# %%
pilot, _ = kem.datasets.energy(seed=0)
pilot = pilot.subset(pilot.users[:users]).truncate(time_steps)
# Candidates of one feature each, so that every hyperparameter can be read by itself.
pool = kem.CandidatePool([c for c in kem.datasets.candidates("energy") if c != "ARD"], 8)
priors = kem.priors.paper().expecting(0.4, pool)
print(pilot)
print(*(f"{i}: {name}" for i, name in enumerate(pilot.features)), sep="\n")

# %% [markdown]
# ## From the posterior of all to one cluster
#
# `kem.final_model` is the model of every pilot user's last dataset: what do users have *in the
# end*? (For evolutions over time it would be `kem.EvolutionModel`, as in notebook 3; what follows
# is the same for both.) One dataset per user also makes leave-one-out mean *leave one user out*.

# %%
model = kem.final_model(pilot, pool, priors, shared=None)
settings = {"draws": draws, "tune": tune, "chains": chains, "random_seed": seed}
idata = kem.sample(model, **settings, progress=False)
kem.diagnose(idata)

# %% [markdown]
# Where chains disagree about the composition, several explain these data about as well. What
# follows is then about *one* explanation, not the only one. The representative clustering stands
# for all draws. Look at *certainty*, the probability of the composition, and *cohesion*, how
# probable it is that its members are together. *Members* are datasets, as user/time step: `1/0` is
# the first time step of user 1, and here the only one.

# %%
representative = kem.representative(idata)
representative.to_frame().round(2)

# %% [markdown]
# Features are named by index; the list is above. Where the certainty is low, several compositions
# explain the data about as well, and this one is only the most frequent. Here is how the posterior
# is spread over candidates:

# %%
kem.plots.inclusion(idata, features=True).figure

# %% [markdown]
# Features that say the same thing share their probability: no single one is certain, though one of
# them is needed. Don't read a pale tile as "this feature doesn't matter".
#
# ## NUTS on the largest cluster

# %%
sizes = [len(cluster.members) for cluster in representative.clusters]
largest = int(np.argmax(sizes))
cluster = representative.model(largest, model.cohort)  # the cohort of last datasets
print(f"{cluster.composition}, shared by {len(cluster.members)} users")

options = {"chains": 2, "cores": 1, "random_seed": seed, "progressbar": False}
with cluster:
    fitted = pm.sample(draws=nuts, tune=nuts, **options)
    fitted.update(pm.sample_prior_predictive(nuts, random_seed=seed))
az.summary(fitted)

# %%
constrained = {"figure_kwargs": {"figsize": (10, 6), "layout": "constrained"}}
az.plot_rank(fitted, **constrained)
plt.show()

# %% [markdown]
# What to look at: R-hat of 1.00 and ESS in the hundreds in the table; rank lines near zero, and
# no *p* below the α beside it. **Bad signs**: divergences (PyMC prints a warning) mean that the
# posterior has corners that NUTS can't turn, often a noise near zero or a lengthscale that runs
# away; raise `target_accept`, then look at the prior.
#
# ## What the data have taught

# %%
names = list(fitted["posterior"].data_vars)
positive = [name for name in names if not name.endswith("shift")]
logs = {g: np.log10(fitted[g].to_dataset()[positive]) for g in ("prior", "posterior")}
az.plot_prior_posterior(xr.DataTree.from_dict(logs), kind="ecdf", **constrained)
plt.show()

# %% [markdown]
# Curves are shares of draws below a value, on a scale of log10. Where the two of a hyperparameter
# are the same, the data had nothing to say about it, and
# what you report is your prior. Where the posterior sits in a tail of the prior, they disagree.
#
# Intervals belong in the units of the data: lengthscales and shifts in that of the feature.
# Amplitudes and noise are variances, in the target's unit squared; with LIN an amplitude is the
# variance of a slope, so it is per unit of the feature squared as well. The sd of the noise,
# printed first, is in the target's unit.

# %%
scaling = cluster.scaling
values = {name: fitted["posterior"][name].values.ravel() for name in names}
back = pd.DataFrame(scaling.hyperparameters_back(values))
table = back.quantile([0.055, 0.5, 0.945]).T.set_axis(["5.5 %", "median", "94.5 %"], axis="columns")
print(f"noise sd: {np.sqrt(back['noise']).median():.2f} {pilot.target} (posterior median)")
table.style.format("{:.3g}")

# %% [markdown]
# ## Would the model make such users?
#
# A posterior predictive check draws new users from the cluster: hyperparameters from the posterior,
# a *new* function from the Gaussian process, at the same inputs. It asks whether a user of this
# kind could look like those we saw.

# %%
with cluster:
    predictive = pm.sample_posterior_predictive(fitted, random_seed=seed, progressbar=False)
fitted.update(predictive)
shown = [name for name in fitted["posterior_predictive"].data_vars][:4]
az.plot_ppc_dist(fitted, var_names=shown, kind="ecdf", num_samples=40, col_wrap=2, **constrained)
plt.show()

# %% [markdown]
# Each thin curve is the distribution of one simulated user's targets, the black one that of a real
# user (in sd of the target); `y[1, 0]` are the targets of user 1 at time step 0. The real one
# should look like one of many. **A bad sign** is a shape that no simulated user has: two separate
# groups, a long tail. The remedy is a different transformation of the target, or a candidate that
# is missing from the pool.
#
# ## LOO, and what Pareto k says
#
# `az.loo` estimates how well each user would be predicted by a cluster learned from the others. It
# reweighs draws instead of refitting, and *Pareto k* says for each user whether that can be
# trusted. How large it may be depends on the number of draws S: ArviZ's limit is `1 - 1/log10(S)`,
# and 0.7 at most, since few draws say less of a long tail. It warns where a k is above.

# %%
with cluster:
    fitted = pm.compute_log_likelihood(fitted, progressbar=False)
fitted = kem.log_likelihood_group(fitted)
loo = az.loo(fitted, pointwise=True)
print(f"elpd of all users: {loo.elpd:.2f}")
print(f"limit of Pareto k with {loo.n_samples} draws: {loo.good_k:.2f}")
pd.DataFrame({"elpd": loo.elpd_i, "Pareto k": loo.pareto_k}, index=loo.elpd_i["user"]).round(2)

# %% [markdown]
# A user with a k above the limit may be one without whom the cluster would be another: influential,
# or misplaced. Look at that user's data, and at the cohesion of the cluster. With few draws k
# itself is rough; see whether it stays with more. The remedy for the *number* is a refit without
# the user; the remedy for the *model* may be a cluster of its own.
#
# ## Is the composition better than others?
#
# The same users, other compositions, by leave-one-user-out. One rival is ARD, all features in one
# product, which wasn't among the candidates; the other lacks the last candidate of ours.

# %%
others = {
    "ARD": "ARD",
    "one candidate less": cluster.composition - cluster.composition.candidates[-1],
}
compared = {"ours": fitted}
for name in rivals:
    rival = kem.ClusterModel(
        model.cohort,
        kem.CandidatePool([*pool, "ARD"], 8),
        others[name],
        members=cluster.members,
        priors=model.priors,
        scaling=model.scaling,
    )
    with rival:
        draws_of_rival = pm.sample(draws=nuts, tune=nuts, **options)
        draws_of_rival = pm.compute_log_likelihood(draws_of_rival, progressbar=False)
    compared[name] = kem.log_likelihood_group(draws_of_rival)
comparison = az.compare(compared, round_to=2)
comparison

# %% [markdown]
# What to look at: the difference of elpd against its standard error. With a handful of users the
# standard error is rough; a difference of less than about two of them decides nothing, and then the
# *simpler* composition is the better report.
#
# *elpd* of ours is that of the table above; *elpd_diff* is the difference to the best, and *dse*
# its standard error. `N < 100` in *diag_diff* says that there are fewer than 100 observations (here
# they are users), so the normal approximation behind *p_worse* isn't to be trusted; the difference
# and its standard error still tell of the size. `1 k̂ > 0.52` in *diag_elpd* would say that one
# user's Pareto k is above a limit of 0.52, so that the elpd may be biased, mostly in favour of that
# composition.

# %%
best = comparison.index[0]
print(f"{pilot}")
print(f"largest cluster: {cluster.composition}, {len(cluster.members)} users")
print(f"largest Pareto k: {float(loo.pareto_k.max()):.2f}, with a limit of {loo.good_k:.2f}")
print(f"best by leave-one-user-out: {best}")
