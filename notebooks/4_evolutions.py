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
# # 4. Analysis of one cluster: NUTS, predictive checks, LOO
#
# A cluster is a set of datasets that share a kernel. The sampler of the whole model moves between
# compositions; once a composition is of interest, its cluster is an **ordinary PyMC model**, and
# all methods of PyMC and ArviZ can be used: NUTS, posterior predictive checks, LOO.
#
# The data are the energy efficiency study of UCI (from the folder given by the environment variable
# `KEM_DATA`): the heating load of buildings, where each "user" is a random subset of them.

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import kem_pymc as kem
from models.loaders import candidates, energy

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
pilot, _ = energy(seed=0)
pilot = pilot.subset(pilot.users[:users]).truncate(time_steps)
# Candidates of one feature each, so that every hyperparameter has an interpretation of its own.
pool = kem.CandidatePool([c for c in candidates("energy") if c != "ARD"], 8)
priors = kem.priors.paper().expecting(0.4, pool)
print(pilot)
print(*(f"{i}: {name}" for i, name in enumerate(pilot.features)), sep="\n")

# %% [markdown]
# ## From the posterior of all datasets to one cluster
#
# `kem.final_model` is the model of every pilot user's last dataset: which compositions do users
# have *in the end*? (For evolutions over time it would be `kem.EvolutionModel`, as in notebook 3;
# the steps below are the same for both.) Because there is one dataset per user, leave-one-out means
# *leave one user out*.

# %%
model = kem.final_model(pilot, pool, priors)
settings = {"draws": draws, "tune": tune, "chains": chains, "random_seed": seed}
idata = kem.sample(model, **settings, progress=False)
kem.diagnose(idata)

# %% [markdown]
# Where chains disagree about the composition, several compositions explain these data about equally
# well. The results below then refer to *one* explanation, not the only one. The representative
# clustering represents all draws. Look at *certainty*, the probability of the composition, and
# *cohesion*, the probability that its members are in the same cluster. *Members* are datasets,
# written as user/time step: `1/0` is the first time step of user 1, and here the only one.

# %%
representative = kem.representative(idata)
representative.to_frame().round(2)

# %% [markdown]
# Features are given by index; they are listed above. Where the certainty is low, several
# compositions explain the data about equally well, and this one is only the most frequent. The next
# plot shows how the posterior probability is distributed over candidates:

# %%
ax = kem.plots.inclusion(idata)

# %% [markdown]
# Features that contain the same information share their probability: no single one is certain,
# though one of them is needed. A pale tile doesn't mean that the feature has no influence.
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
# What to look for: in the table R-hat of 1.00 and ESS in the hundreds; rank lines near zero, and no
# *p* below the α next to it. **Bad signs**: divergences (PyMC prints a warning) mean that NUTS
# can't explore some regions of the posterior, often where the noise is near zero or a lengthscale
# is very large; increase `target_accept`, then check the prior.
#
# ## Prior and posterior

# %%
names = list(fitted["posterior"].data_vars)
positive = [name for name in names if not name.endswith("shift")]
logs = {g: np.log10(fitted[g].to_dataset()[positive]) for g in ("prior", "posterior")}
az.plot_prior_posterior(xr.DataTree.from_dict(logs), kind="ecdf", **constrained)
plt.show()

# %% [markdown]
# Curves show the share of draws below a value, on a log10 scale. Where the two curves of a
# hyperparameter are the same, the data contain no information about it, and the reported posterior
# is the prior. Where the posterior is in a tail of the prior, the two conflict.
#
# Intervals should be reported in the units of the data: lengthscales and shifts in the unit of the
# feature. Amplitudes and noise are variances, in the target's unit squared; for LIN the amplitude
# is the variance of a slope, so it is also per unit of the feature squared. The sd of the noise,
# printed first, is in the target's unit.

# %%
scaling = cluster.scaling
values = {name: fitted["posterior"][name].values.ravel() for name in names}
back = pd.DataFrame(scaling.hyperparameters_back(values))
table = back.quantile([0.055, 0.5, 0.945]).T.set_axis(["5.5 %", "median", "94.5 %"], axis="columns")
print(f"noise sd: {np.sqrt(back['noise']).median():.2f} {pilot.target} (posterior median)")
table.style.format("{:.3g}")

# %% [markdown]
# ## Posterior predictive check
#
# A posterior predictive check draws new users from the cluster: hyperparameters from the posterior,
# and a *new* function from the Gaussian process, at the same inputs. It shows whether users drawn
# from the model look like the observed users.

# %%
with cluster:
    predictive = pm.sample_posterior_predictive(fitted, random_seed=seed, progressbar=False)
fitted.update(predictive)
shown = [name for name in fitted["posterior_predictive"].data_vars][:4]
az.plot_ppc_dist(fitted, var_names=shown, kind="ecdf", num_samples=40, col_wrap=2, **constrained)
plt.show()

# %% [markdown]
# Each thin curve is the distribution of one simulated user's targets, the black one that of a real
# user (in sd of the target); `y[1, 0]` are the targets of user 1 at time step 0. The real curve
# should look like one of the simulated ones. **A bad sign** is a shape that no simulated user has:
# two separate groups, a long tail. The remedy is a different transformation of the target, or a
# candidate that is missing from the pool.
#
# ## LOO and Pareto k
#
# `az.loo` estimates how well each user would be predicted by a cluster learned from the other
# users. It reweights draws instead of refitting, and *Pareto k* shows for each user whether this is
# reliable. The limit for k depends on the number of draws S: ArviZ uses `1 - 1/log10(S)`, and 0.7
# at most, because few draws contain little information about a long tail. ArviZ warns if a k is
# above the limit.

# %%
with cluster:
    fitted = pm.compute_log_likelihood(fitted, progressbar=False)
fitted = kem.diagnostics.log_likelihood_group(fitted)
loo = az.loo(fitted, pointwise=True)
print(f"elpd of all users: {loo.elpd:.2f}")
print(f"limit of Pareto k with {loo.n_samples} draws: {loo.good_k:.2f}")
pd.DataFrame({"elpd": loo.elpd_i, "Pareto k": loo.pareto_k}, index=loo.elpd_i["user"]).round(2)

# %% [markdown]
# A user with a k above the limit may be one without whom the cluster would be different:
# influential, or assigned to the wrong cluster. Check that user's data, and the cohesion of the
# cluster. With few draws k itself is imprecise; check whether it is still large with more draws.
# The remedy for the *estimate* is a refit without the user; the remedy for the *model* may be a
# separate cluster.
#
# ## Is the composition better than others?
#
# Leave-one-user-out also compares compositions for the same users. One alternative is ARD, all
# features in one product, which wasn't among the candidates; the other lacks the last candidate of
# the composition above.

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
    compared[name] = kem.diagnostics.log_likelihood_group(draws_of_rival)
comparison = az.compare(compared, round_to=2)
comparison

# %% [markdown]
# What to look for: the difference of elpd relative to its standard error. With few users the
# standard error is imprecise; a difference of less than about two standard errors isn't conclusive,
# and then the *simpler* composition is the better one to report.
#
# The *elpd* of `ours` is that of the table above; *elpd_diff* is the difference to the best, and
# *dse* its standard error. `N < 100` in *diag_diff* means that there are fewer than 100
# observations (here these are users), so the normal approximation behind *p_worse* isn't reliable;
# the difference and its standard error still show the size of the effect. `1 k̂ > 0.52` in
# *diag_elpd* would mean that one user's Pareto k is above a limit of 0.52, so that the elpd may be
# biased, usually in favour of that composition.

# %%
best = comparison.index[0]
print(f"{pilot}")
print(f"largest cluster: {cluster.composition}, {len(cluster.members)} users")
print(f"largest Pareto k: {float(loo.pareto_k.max()):.2f}, with a limit of {loo.good_k:.2f}")
print(f"best by leave-one-user-out: {best}")
