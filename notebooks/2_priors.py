# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small: {draws: 40, users: 3}
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 2. Priors: elicitation and prior predictive checks
#
# With five points per user, priors matter. This notebook starts from the paper's priors, checks
# what they imply for *data* (a prior predictive check), replaces those that are implausible for
# this study, and checks again.
#
# The data are daily steps of some of the users of HeartSteps V1, read from the folder given by the
# environment variable `KEM_DATA`. No step of this notebook uses the relation between steps and
# features: priors are chosen before that. One of the features, `google_fit_steps`, is the phone's
# own count of the same day's steps, which is known only afterwards: this is a study of how kernels
# evolve, not a forecast.

# %%
import matplotlib.pyplot as plt
import numpy as np
import preliz as pz
import pymc as pm

import kem_pymc as kem
from models.loaders import candidates, heartsteps_daily

# %matplotlib inline

# %% tags=["parameters"]
draws = 1000
users = 9
seed = 1

# %%
pilot, _ = heartsteps_daily(seed=0)
pilot = pilot.subset(pilot.users[:users])
pilot

# %% [markdown]
# ## The table of priors
#
# A study has one table of priors. `paper()` is the paper's table for real data. It is meant for
# features scaled to [0, 1] and a standardised target; the model scales the data automatically, by
# the ranges of the pilot users.

# %%
priors = kem.priors.paper()
priors

# %% [markdown]
# ## Priors in units of the data
#
# It is hard to judge whether a LogNormal(-1.6, 0.5) in scaled units is plausible. Draw from it, and
# convert the draws to days: `Scaling.hyperparameters_back` applies the unit of each hyperparameter.

# %%
scaling = kem.Scaling.unit(pilot)
pool = kem.CandidatePool(candidates("heartsteps_daily"), pilot.dimension)


def in_days(table, composition):
    """Return draws of a composition's hyperparameters in the users' units."""
    return scaling.hyperparameters_back(table.draw(composition, pool, draws, rng=seed))


for name, values in in_days(priors, "PER0 + SE0").items():
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    print(f"{name:18} median {middle:8.2f}, 90 % between {low:8.2f} and {high:8.2f}")

# %% [markdown]
# `PER0` is a periodic function of the day of the study. The quantiles above show the periods that
# the paper's prior expects, in days: mostly longer than a **week**, which is the period that most
# users have. The lengthscale of `PER0` has no unit: a value far below one means many ups and downs
# within each period. `SE0` is a smooth change over the study. Its lengthscale determines how fast:
# days that are more than a few lengthscales apart are practically independent. Compare its range
# with what you know about habits.
#
# ## Elicitation
#
# PreliZ converts knowledge into a distribution: from quartiles, or as the least informative
# distribution with a given mass between two bounds. The knowledge here: the period is a week, give
# or take a fifth of a day; habits change over one to six weeks; there aren't many ups and downs
# within a week. A LogNormal in days is converted to the unit of the table, the range of the
# feature, by subtracting the log of the range from its `mu`.

# %%
week, habit, shape = pz.LogNormal(), pz.LogNormal(), pz.LogNormal()
pz.quartile(week, 6.8, 7, 7.2, plot=False)
pz.maxent(habit, 7, 42, 0.9, plot=False)
pz.maxent(shape, 0.5, 2, 0.9, plot=False)
print("period, in days:", week)
print("lengthscale of SE0, in days:", habit)
print("lengthscale of PER0:", shape)

span = float(scaling.feature_high[0] - scaling.feature_low[0])
ours = priors.replace(
    {
        "PER0.period": pm.LogNormal.dist(week.mu - np.log(span), week.sigma),
        "SE0.lengthscale": pm.LogNormal.dist(habit.mu - np.log(span), habit.sigma),
        "PER.lengthscale": shape.to_pymc(),
    }
)

# %% [markdown]
# An entry may be general or specific: `"lengthscale"` applies to all lengthscales,
# `"PER.lengthscale"` to one base kernel, `"SE0.lengthscale"` to one candidate. The most specific
# entry is used. Now plot the functions:

# %%
days = np.linspace(0, span, 300)
x = np.tile(scaling.inputs(np.median(np.concatenate(pilot.inputs), axis=0)), (len(days), 1))
x[:, 0] = days / span
figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
for column, (name, table) in enumerate({"the paper's": priors, "elicited": ours}.items()):
    for ax, candidate in zip(axes[:, column], ("PER0", "SE0"), strict=True):
        values = table.draw(candidate, pool, 3, rng=3) | {f"{candidate}.amplitude": 1.0}
        ax.plot(days, kem.gp.draw_functions(candidate, x, values, 3, rng=3).T, linewidth=1.2)
        ax.set_title(f"{candidate}, {name}", fontsize="medium")
        ax.set_xticks(np.arange(0, span, 7))
        ax.grid(axis="x", color="0.9")
figure.supxlabel("day of the study; one line a week")
figure.supylabel("sd of the target")
plt.show()

# %% [markdown]
# What to look for: whether peaks of `PER0` are a week apart, and whether `SE0` changes as slowly as
# habits do. A bad sign is a prior that the data would have to correct: five points won't.
#
# ## The noise depends on the parent
#
# Variation that isn't explained is noise, so noise should be *large where the composition is
# small*. In the paper's table the prior of the noise variance depends on the parent, the
# composition one time step earlier: below `WHITE` the variance is large, and below richer parents
# it may be small. This prevents the model from explaining five points by a function that varies
# quickly. The plot shows the noise variance in the target's unit squared, together with the
# variance of the target. Both tables have the elicited entries, and differ only in the noise.

# %%
variance = float(np.concatenate(pilot.targets).var())
parents = ("WHITE", "SE0", "LIN0 + SE0")
steeper = kem.priors.noise_by_size(mu=(0, -0.5, -1), sigma=(0.5, 1, 1))
tables = {
    "the paper's noise": ours,
    "noise in units of the target's variance": ours.replace(noise=steeper),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True, sharey=True, layout="constrained")
for ax, (name, table) in zip(axes, tables.items(), strict=True):
    noises = [
        np.log10(scaling.variance_back(table.draw("WHITE", pool, draws, parent=p, rng=2)["noise"]))
        for p in parents
    ]
    ax.boxplot(
        noises, orientation="horizontal", tick_labels=parents, whis=(5, 95), showfliers=False
    )
    ax.axvline(np.log10(variance), color="C3", label="variance of the target")
    ax.set_xlabel("log10 of the noise variance")
    ax.set_title(name, fontsize="medium")
axes[0].set_ylabel("parent")
axes[0].invert_yaxis()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
plt.show()
# %% [markdown]
# What to look for: the box of `WHITE` relative to the line. Noise can't be much larger than the
# variance of the target, whatever the kernel. Where the whole box is to the right of the line, the
# prior doesn't describe the noise of this study: its effect is to prevent larger compositions at
# the first time step. That may be intended, but it should be a deliberate choice. The right panel
# shows one alternative; `noise=` may be any function of the parent that returns a PyMC
# distribution.
#
# ## How many candidates enter
#
# In the paper, each base kernel enters with probability 0.1 at every time step and stays with 0.9.
# With the pool of this study that is many:

# %%
few = ours.expecting(0.4, pool)
tables = {"the paper's inclusion": ours, "few enter": few}
for name, table in tables.items():
    entering = sum(table.entering(candidate) for candidate in pool)
    print(f"{name}: {entering:.1f} of {len(pool)} candidates enter at a time step")

# %% [markdown]
# `Priors.expecting` sets the expected number of candidates that enter below `WHITE`; the elicited
# entries are in both tables. Now simulate whole studies. The model is a PyMC model with an exact
# simulator, so `pm.sample_prior_predictive` draws structure, hyperparameters, noise, and targets.


# %%
def prior_predictive(table):
    """Return a model of the study and draws from its prior."""
    model = kem.EvolutionModel(pilot, pool, table)
    with model:
        return model, pm.sample_prior_predictive(draws, random_seed=seed)


_, simulated = prior_predictive(ours)
_, simulated_few = prior_predictive(few)

# %%
figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
place = int(np.argmax(pilot.steps))
for k, (name, tree) in enumerate(zip(tables, (simulated, simulated_few), strict=True)):
    own = tree["prior"]["inclusion"].isel(user=place)
    sizes = own.sum("candidate").astype(float)
    low, middle, high = sizes.quantile([0.05, 0.5, 0.95], ("chain", "draw")).values
    ax.fill_between(own["time_step"], low, high, alpha=0.25, color=f"C{k}")
    ax.plot(own["time_step"], middle, "o-", color=f"C{k}", label=name)
ax.set(xlabel="time step", ylabel="candidates in the composition")
ax.set_title("prior, median and 90 % interval", fontsize="medium")
ax.legend(loc="upper left")
plt.show()
# %% [markdown]
# What to look for: the size at the last time step. If a composition of that size is too large to
# explain to a colleague, data that don't contradict it will leave it that large. The remedy is a
# smaller argument of `expecting`.
#
# ## Change one prior, and see what changes
#
# The plot shows prior predictive *targets*: simulated targets of one user, compared with the
# targets that were observed. From panel to panel one entry of the table changes.

# %%
smaller = few.replace(amplitude=pm.LogNormal.dist(-0.5, 1))
chosen = smaller.replace(noise=steeper)
trees = {
    "few enter": simulated_few,
    "... and smaller amplitudes": prior_predictive(smaller)[1],
    "... and noise by the target's variance": prior_predictive(chosen)[1],
}
y, step = pilot.targets[place], int(pilot.steps[place]) - 1
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, (name, tree) in zip(axes, trees.items(), strict=True):
    targets = tree["prior_predictive"]["targets"].isel(chain=0, user=place, time_step=step)
    values = scaling.mean_back(targets.values[:, : len(y)])
    for simulated_user in values[:40]:
        ax.ecdf(simulated_user, color="C0", alpha=0.3, linewidth=0.8)
    ax.ecdf(y, color="black", linewidth=1.8, label="the user")
    ax.axvline(0, color="0.7", linewidth=0.8)
    ax.set(xlim=(-200, 400), xlabel="root of daily steps")
    ax.set_title(name, fontsize="medium")
    beyond = np.mean((values < 0) | (values > 2 * y.max()))
    print(f"{name}: {beyond:.0%} of simulated days are below zero or above twice the maximum")
axes[0].set_ylabel("share of days below")
axes[0].legend(fontsize="small", loc="upper left")
plt.show()

# %% [markdown]
# What to look for: each thin curve is a simulated user. Most of them should be *plausible*, and the
# real user should lie among them. The printed lines show which change had a large effect, and which
# hardly any; this isn't obvious from the table alone. A vague prior isn't harmless: the probability
# that it assigns to impossible users, with fewer than zero steps, is taken from plausible ones.
#
# Nothing was fitted in this notebook. A report would contain the table below, and the reason for
# each line that differs from the paper's.

# %%
print(chosen)
