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
# # 3. Fitting a pilot cohort and checking the diagnostics
#
# Pilot users are the users from whom the model learns how kernels evolve. This notebook fits the
# model to a simulated cohort, whose true functions are known, so that you can check whether the
# diagnostics are right. It needs no data files. To use your own table, change only the line that
# makes the cohort.

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
# Users have five new points at every time step. The functions of every other user are drawn from
# `LIN0 + PER0`, those of the remaining users from `SE0`; the model doesn't use this information.

# %%
cohort = kem.datasets.synthetic(users=users, time_steps=time_steps, seed=seed)
# From your own table: cohort = kem.Cohort.from_frame(df, user="id", time="week", target="steps")
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
# Colours are time steps, from dark to light; the grey line is the true function. A *dataset*
# consists of one user's data at one time step: all points up to it.
#
# ## The model
#
# A model needs data, candidates and priors. `kem.sample` is `pm.sample` with the option to write
# draws to disk while it samples (`folder=`); `pm.sample` inside `with model:` returns the same
# draws.

# %%
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
priors = kem.priors.synthetic()
model = kem.EvolutionModel(cohort, pool, priors)
idata = kem.sample(model, draws=draws, tune=tune, chains=chains, random_seed=seed, progress=False)
idata["posterior"].sizes

# %% [markdown]
# ## Do the chains agree?
#
# Check this before you interpret any result. `kem.diagnose` computes R-hat and effective sample
# sizes of all quantities that don't depend on cluster labels, and reports problems and remedies.

# %%
diagnosis = kem.diagnose(idata)
diagnosis

# %%
diagnosis.summary.round(2)

# %%
diagnosis.convergence.nlargest(5, "r_hat").round(2)

# %% [markdown]
# How to read the tables:
#
# - **R-hat** compares the variance between chains with the variance within chains. Above 1.05 the
#   chains don't agree about that quantity, and no summary of it is reliable.
# - **ESS**, the effective sample size, is the number of independent draws with the same precision.
#   Below 200 a quantile is a rough estimate; below 100 a mean is, too.
# - Rows are kinds of quantities: the log joint density, the number of clusters, sizes and noises by
#   dataset, inclusion by dataset and candidate. One bad inclusion among hundreds doesn't matter, as
#   long as you don't report that one; a bad log joint density does. The second table lists the five
#   worst quantities: if they all belong to one user, the problem is limited to that user and the
#   other results are valid.
#
# Short runs like this one usually have some notes. It matters which quantities they are about;
# warnings are about probabilities of parts and of evolutions:

# %%
traces = kem.plots.traces(idata)

# %% [markdown]
# What to look for: the traces of all chains should overlap, and look like noise without trends. In
# the rank plots the line of a chain is away from zero where the chain has more than its share of
# high or low values; the *p* next to them is small (below the α printed there) where chains differ.
#
# **Bad signs and remedies.** If there is a trend at the beginning, increase `tune`. Chains on
# different levels, each without a trend, are in different modes. `diagnosis.modes` lists the chains
# in each mode:

# %%
for mode in diagnosis.modes:
    print(f"chains {mode.chains}: log joint {mode.log_joint:.1f}, {mode.n_clusters:.1f} clusters")

# %% [markdown]
# One line means that the log joint densities of the chains overlap. Several lines mean that some
# chains never reach the mode of others: don't pool them. Increase `tune`, or weight the chains, as
# described at the end.
#
# ## Was the run long enough?
#
# To find out, check what changes with more draws. Below, the diagnosis of the first half of the
# draws is compared with that of all draws.

# %%
half = kem.diagnose(idata.isel(draw=slice(0, draws // 2)))
for name, found in {"half": half, "all": diagnosis}.items():
    table = found.convergence
    worst, least = table["r_hat"].max(), table["ess_bulk"].min()
    print(f"{name:5} worst R-hat {worst:.2f}, least ESS {least:.0f}, ", end="")
    print(f"largest difference of an edge between chains {found.edges['difference'].max():.2f}")

# %% [markdown]
# R-hat should fall and ESS grow about in proportion. If they do, more draws will suffice. If the
# worst quantities stay where they were, a slightly longer run won't help: look up in the table
# above what they are, run several times as long, and don't report quantities on which the chains
# still disagree.
#
# ## Why labels can't switch here, and how label switching would look
#
# In a mixture, "cluster 1" of one draw may be "cluster 2" of the next, because the density doesn't
# depend on labels. A trace of a parameter *of cluster 1* then jumps, R-hat is large, and means are
# averages of different quantities. This looks like bad mixing, but isn't.
#
# All variables of this model are indexed by **user and time step** instead: the noise of the
# cluster of *this dataset*, the candidates of *its* composition. No draw can change the index of a
# dataset. The plots below show the same draws twice. The upper one shows the effect of labels that
# are fixed within a chain: every chain calls some cluster "1", and nothing makes all chains choose
# the same one; here even chains have chosen the cluster of user 0's first dataset, odd chains that
# of the last. The lower one shows one dataset in all chains.

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
# ## Results
#
# First by dataset: the probability of each candidate, by time step, for one user of each type.

# %%
figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
for ax, user in zip(axes, idata["posterior"]["user"].values.tolist(), strict=False):
    kem.plots.inclusion(idata, user, ax=ax)
plt.show()

# %% [markdown]
# What to look for: pale columns on the left (few points, much uncertainty) and darker ones on the
# right. Where a candidate is dark at the first time step, check whether this comes from the prior
# or from the data: compare with its prior probability, printed below. Here that is 0.1 at most, so
# the evidence comes from the data, the user's own or those of other users in the cluster; five
# points along a line can suffice. Evidence from data can still be wrong: five points can be
# misleading. A bad sign would be an equally high prior probability.

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
# Next by pairs: the probability that two datasets are in the same cluster, which means that they
# share a kernel and its hyperparameters.

# %%
ax = kem.plots.co_clustering(idata)

# %% [markdown]
# Blocks on the diagonal are time steps. Within a block, dark squares off the diagonal are pairs of
# users who learn from each other. If everything except the diagonal is pale, no users share a
# cluster: either the concentration is larger than needed, or the users really are different.
#
# No single draw is *the* clustering. `kem.representative` returns one clustering that represents
# all draws, and reports how certain its compositions are.

# %%
kem.representative(idata).to_frame().drop(columns="members").round(2)

# %% [markdown]
# ## Evolutions
#
# Selection for a new user is based on the graph: which composition follows which, and how often.

# %%
evolutions = kem.Evolutions.from_posterior(idata)
ax = kem.plots.evolution_graph(evolutions)

# %%
ax = kem.plots.edges_by_chain(idata, max_edges=12)

# %% [markdown]
# The second plot is a check of the first: each mark is the estimate of one chain. Marks far apart
# on a long grey bar belong to parents that few datasets have. Marks far apart on a short bar mean
# that the chains learned different graphs, about which `kem.diagnose` warns.
#
# ## Chains that disagree
#
# `kem.diagnostics.stack` weights chains by how well they predict the pilot users' next batches. The
# chains have learned from these users: the weights compare chains, and don't show how well any of
# them would predict new users. The method is meant for chains that stay in different modes. Where
# chains agree, the weights are nearly arbitrary, and for any weights the two log scores below
# differ by little relative to the number of batches: then don't use them.

# %%
weights = kem.diagnostics.stack(idata, model)
print("weights:", weights.values.round(2))
print(
    f"log score of {cohort.n_datasets - cohort.n_users} batches: {weights.log_score:.1f};", end=" "
)
print(f"with equal weights {weights.equal:.1f}")

# %% [markdown]
# ## What to report
#
# Report the settings, the diagnosis, the graph, and a comparison with the truth if it is known. The
# lines below are the same for the same seed, on any number of cores.
# `evolutions.save("evolutions.json")` stores everything that selection for new users needs.
#
# The number of users is a strict test: each candidate of the true composition has to have a
# probability above one half. If the number is low, or none, these draws haven't found the
# compositions that the users were drawn from, and none should be reported as found. This doesn't
# mean that predictions are bad: over a few points other candidates can be indistinguishable (for
# example `LIN0 x LIN0`, a parabola, from `LIN0`), and they share the probability. The line after it
# is a weaker test: are true candidates more probable than the others?

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
