# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small: {users: 4, time_steps: 4, draws: 60, tune: 60, chains: 2}
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 3. Fitting a pilot cohort, and reading the diagnostics
#
# Pilot users are those from whom the model learns how kernels evolve. This notebook fits it to a
# simulated cohort, whose truth is known, so that you can see whether what the diagnostics say is
# true. It needs no data files. With your own table, the only line to change is the one that makes
# the cohort.

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import kem_pymc as kem

# %matplotlib inline

# %% tags=["parameters"]
users = 10
time_steps = 6
draws = 300
tune = 300
chains = 4
seed = 0

# %% [markdown]
# ## The cohort
#
# Users see five points at every time step. Functions of every other user are drawn from
# `LIN0 + PER0`, those of the others from `SE0`; the model isn't told.

# %%
cohort = kem.datasets.synthetic(users=users, time_steps=time_steps, seed=seed)
# Your own: cohort = kem.Cohort.from_frame(df, user="id", time="week", target="steps")
cohort

# %%
figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), layout="constrained")
for u, ax in enumerate(axes):
    colours = np.repeat(np.arange(time_steps), 5)
    ax.scatter(cohort.inputs[u][:, 0], cohort.targets[u], c=colours, cmap="viridis", s=14)
    ax.plot(cohort.truth.x_test[:, 0], cohort.truth.f_test[u], color="0.6", zorder=0)
    ax.set(title=f"user {cohort.users[u]}: {cohort.truth.compositions[u]}", xlabel="x")
axes[0].set_ylabel("y")
plt.show()
# %% [markdown]
# Colours are time steps, dark first; the grey line is the truth. A *dataset* is what one user has
# at one time step: all points up to it.
#
# ## The model
#
# Data, candidates, priors. `kem.sample` is `pm.sample` that also writes draws as they come, if you
# give it a `folder`; `pm.sample` inside `with model:` gives the same draws.

# %%
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
priors = kem.priors.synthetic()
model = kem.EvolutionModel(cohort, pool, priors, shared=None)
idata = kem.sample(model, draws=draws, tune=tune, chains=chains, random_seed=seed, progress=False)
idata["posterior"].sizes

# %% [markdown]
# ## Do the chains agree?
#
# Ask first, look at results later. `kem.diagnose` computes R-hat and effective sample sizes of
# everything that doesn't depend on labels, and says what is wrong and what helps.

# %%
diagnosis = kem.diagnose(idata)
diagnosis

# %%
diagnosis.summary.round(2)

# %%
diagnosis.convergence.nlargest(5, "r_hat").round(2)

# %% [markdown]
# How to read the table:
#
# - **R-hat** compares variance between chains with variance within. Above 1.05 the chains don't
#   agree about that quantity, and no summary of it can be trusted.
# - **ESS**, the effective sample size, is how many independent draws the draws are worth. Below 200
#   a quantile is a rough guess; below 100 so is a mean.
# - Rows are kinds of quantities: the log joint density, the number of clusters, sizes and noises by
#   dataset, inclusion by dataset and candidate. One bad inclusion among hundreds is no tragedy, as
#   long as you don't report that one; a bad log joint is. The second table names the worst five:
#   if they are all about one user, the trouble is there and the rest stands.
#
# Some warnings are to be expected from short runs like this one. What they are *about* decides:

# %%
kem.plots.traces(idata).viz["figure"].item()

# %% [markdown]
# What to look at: traces of all chains should lie on top of each other, and look like noise without
# trends. In the rank plots a chain's line leaves zero where it has more than its share of high or
# low values; the *p* beside them is small (below the α printed there) where chains differ.
#
# **Bad signs and remedies.** A trend at the beginning: tune for longer. Chains on different levels,
# each flat: different modes. `diagnosis.modes` tells which chains sit where:

# %%
for mode in diagnosis.modes:
    print(f"chains {mode.chains}: log joint {mode.log_joint:.1f}, {mode.n_clusters:.1f} clusters")

# %% [markdown]
# One line means that the chains' log joint densities overlap. Several lines mean that chains never
# meet: don't pool them. Tune for longer; try `feedback="joint"`; or weigh them, see the end.
#
# ## Was it long enough?
#
# The honest check is to look at what changes with more draws. Below, the diagnosis of the first
# half of the draws beside that of all.

# %%
half = kem.diagnose(idata.isel(draw=slice(0, draws // 2)))
for name, found in {"half": half, "all": diagnosis}.items():
    table = found.convergence
    worst, least = table["r_hat"].max(), table["ess_bulk"].min()
    print(f"{name:5} worst R-hat {worst:.2f}, least ESS {least:.0f}, ", end="")
    print(f"largest difference of an edge between chains {found.edge_agreement:.2f}")

# %% [markdown]
# R-hat should fall and ESS grow about in proportion. If they do, more draws will do the rest. If
# the worst ones stay where they were, a little more of the same won't help: see in the table above
# what they are about, run several times as long, and leave out of the report what still disagrees.
#
# ## Why labels can't switch here, and what it would look like
#
# In a mixture, "cluster 1" of one draw may be "cluster 2" of the next: the density doesn't know
# names. A trace of a parameter *of cluster 1* then jumps, R-hat is large, and means are averages of
# different things. It looks like bad mixing, and isn't.
#
# Everything that this model stores is indexed by **user and time step** instead: the noise of *this
# dataset's* cluster, the candidates of *its* composition. Datasets have names that no draw can
# change. Below, the same draws twice. Above, what sticky labels do: every chain calls some cluster
# "1", and nothing makes them choose the same one; here even chains have chosen that of user 0's
# first dataset, odd ones that of the last. Below, one dataset in all chains.

# %%
noise = np.log10(idata["posterior"]["noise"].isel(user=0))
label = xr.DataArray(np.where(np.arange(chains) % 2, time_steps - 1, 0), dims="chain")
views = {
    "by label: noise of 'cluster 1'": noise.isel(time_step=label),
    "by dataset: noise of user 0 at the last time step": noise.isel(time_step=-1),
}
figure, axes = plt.subplots(2, 1, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, views.items(), strict=True):
    ax.plot(values.values.T, linewidth=0.6)
    r_hat = float(az.rhat(values.rename("noise").to_dataset())["noise"])
    ax.set_title(f"{name}, R-hat {r_hat:.2f}", fontsize="medium")
axes[1].set_xlabel("draw, one colour per chain")
figure.supylabel("log10 of the noise variance")
plt.show()

# %% [markdown]
# ## What was learned
#
# First by dataset: how probable each candidate is, by time step, for a user of either type.

# %%
kem.plots.inclusion_by_user(idata, idata["posterior"]["user"].values[:2].tolist())[0].figure

# %% [markdown]
# What to look at: pale columns on the left (few points, little is known) and darker ones on the
# right. Where a candidate is dark at the first time step, ask who said so, the prior or the data:
# compare with its probability before any data, printed below. Here that is 0.1 at most, so the data
# must have said it, the user's own or those of others in the cluster; five points along a line can
# do that. Said by data isn't true, though: five points can mislead. A bad sign would be a prior
# that is as dark itself.

# %%
at_first = idata["posterior"]["inclusion"].isel(time_step=0).mean(("chain", "draw"))
for user, shares in zip(cohort.users[:2], at_first.values, strict=False):
    print(f"user {user}, drawn from {cohort.truth.compositions[user]}:", end=" ")
    for candidate, share in zip(pool, shares, strict=True):
        if share > 0.5:
            before = priors.entering(candidate)
            print(f"{candidate} {share:.2f}, before any data {before:.2f};", end=" ")
    print(f"{np.sum(shares > 0.5) or 'none'} of {len(pool)} probable")

# %% [markdown]
# Then by pairs: how probable it is that two datasets share a cluster, so that they share a kernel
# and its values.

# %%
kem.plots.co_clustering(idata).figure

# %% [markdown]
# Blocks on the diagonal are time steps. Within a block, dark squares off the diagonal are users who
# learn from each other. Where everything is pale but the diagonal, nobody shares anything: a larger
# concentration than needed, or users who really are different.
#
# No single draw is *the* clustering. `kem.representative` gives one that stands for all draws, and
# says how certain its compositions are.

# %%
kem.representative(idata).to_frame().drop(columns="members").round(2)

# %% [markdown]
# ## Evolutions
#
# What a new user will need is the graph: which composition follows which, and how often.

# %%
evolutions = kem.Evolutions.from_posterior(idata)
kem.plots.evolution_graph(evolutions).figure

# %%
kem.plots.edges_by_chain(idata, max_edges=12).figure

# %% [markdown]
# The second picture is the check of the first: each mark is a chain's own estimate. Marks far apart
# on a long grey bar belong to parents that few datasets have. Marks far apart on a short bar mean
# that the chains learned different graphs, which `kem.diagnose` warns of.
#
# ## Chains that disagree
#
# `kem.stack` weighs chains by how well they predict the pilot users' next batches. These are
# users that the chains have learned from: the weights compare chains, and don't say how well any
# would predict new users. It is for chains that stay in different modes. Where they agree, weights
# are nearly arbitrary, and whatever they are the two log scores below differ by little beside the
# number of batches: then leave them alone.

# %%
weights = kem.stack(idata, model)
print("weights:", weights.values.round(2))
print(
    f"log score of {cohort.n_datasets - cohort.n_users} batches: {weights.log_score:.1f};", end=" "
)
print(f"with equal weights {weights.equal:.1f}")

# %% [markdown]
# ## What to report
#
# The settings, the diagnosis, the graph, and the truth if you know it. The lines below are the same
# for the same seed, on any number of cores. For new users, `evolutions.save("evolutions.json")`
# keeps all that selection needs.
#
# The count of users is a hard test: each candidate of the truth has to be more probable than not.
# If it is low, or none, these draws haven't found the compositions that the users were drawn from,
# and none should be reported as found. It needn't mean that predictions are bad: over a few points
# other candidates can look the same (`LIN0 x LIN0`, a parabola, and `LIN0`, say), and they share
# the probability. The line after it is milder: are true candidates more probable than the others?

# %%
in_the_end = idata["posterior"]["inclusion"].isel(time_step=-1).mean(("chain", "draw"))
true = np.array([pool.inclusion(kem.Composition.parse(c)) for c in cohort.truth.compositions])
right = ((in_the_end.values > 0.5) | ~true).all(axis=1)
print(f"{cohort}; {chains} x {draws} draws")
print(f"users whose true candidates are all probable in the end: {right.sum()} of {len(right)}")
print(f"true candidates have probability {in_the_end.values[true].mean():.2f} on average,", end=" ")
print(f"the others {in_the_end.values[~true].mean():.2f}")
print(f"clusters: {float(idata['posterior']['n_clusters'].mean()):.4f} on average")
for child in evolutions.children("WHITE")[:5]:
    print(f"WHITE -> {child.composition}: {child.probability:.4f}")
