# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small: {draws: 3, users: 4}
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1. Kernels and the functions that they describe
#
# A Gaussian process is a prior over functions, and its kernel contains the assumptions: how fast
# the function changes, whether it is periodic, whether it has a trend. Before there are data, the
# best way to understand a kernel is to **draw functions from it and plot them**.
#
# As an example, think of one user's daily steps (in thousands) over twenty weeks.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kem_pymc as kem
from kem_pymc.evolutions.clusters import KernelSummary
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.selection.scorer import Proposal, Scorer
from kem_pymc.selection.selector import ScaledPoints

# %matplotlib inline

# %% tags=["parameters"]
draws = 5
users = 20
seed = 1

# %% [markdown]
# ## Base kernels
#
# The package has six base kernels for numeric features. Each depends on one feature of the data,
# whose index is part of the name: `SE0` is a squared exponential of feature 0, and `MATERN320` a
# Matern 3/2. Hyperparameters have names, too, and are in the units of the data: weeks for
# lengthscales, periods and shifts; thousand steps squared for the amplitude, which is a variance.
# For `LIN0` the amplitude is in thousand steps squared *per week squared*, because it is multiplied
# by two distances from the shift.

# %%
weeks = np.linspace(0, 20, 300)

examples = {
    "LIN0": {"amplitude": 0.02, "shift": 10},
    "PER0": {"amplitude": 4, "lengthscale": 1, "period": 5},
    "SE0": {"amplitude": 4, "lengthscale": 3},
    "RQ0": {"amplitude": 4, "lengthscale": 3, "mixture": 0.3},
    "MATERN320": {"amplitude": 4, "lengthscale": 3},
    "MATERN520": {"amplitude": 4, "lengthscale": 3},
}


def named(candidate, **values):
    """Return values by the full names of a candidate's hyperparameters, like LIN0.shift."""
    return {f"{candidate}.{kind}": value for kind, value in values.items()}


def show(ax, composition, values, title=None):
    """Plot functions drawn from a composition."""
    functions = kem.gp.draw_functions(composition, weeks, values, draws, rng=seed)
    ax.plot(weeks, functions.T, linewidth=1.2)
    ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    ax.set_title(title or composition, fontsize="medium")


figure, axes = plt.subplots(2, 3, figsize=(10, 5), sharex=True, sharey=True, layout="constrained")
for ax, (name, values) in zip(axes.flat, examples.items(), strict=True):
    show(ax, name, named(name, **values))
figure.supxlabel("week")
figure.supylabel("thousand steps, around the mean")
plt.show()
# %% [markdown]
# What to look for:
#
# - **LIN** gives straight lines. They cross zero at the *shift*, here week 10, and nowhere else:
#   this is the only point where the function is certain before there are data.
# - **PER** repeats exactly, without end. Its lengthscale has no unit: it determines how much the
#   function varies within one period.
# - **SE** is smooth, and its correlations decay: values at weeks that are more than a few
#   lengthscales apart are practically independent.
# - **RQ** is a mixture of SEs of many lengthscales. **MATERN** functions are rougher, 3/2 more so
#   than 5/2.
#
# It would be a bad sign if the functions were implausible for this user. The remedy is a prior on
# the hyperparameters, which is the topic of notebook 2.

# %% [markdown]
# ## What a hyperparameter does
#
# All panels use the same random numbers, so that only the hyperparameter changes.

# %%
figure, axes = plt.subplots(2, 3, figsize=(10, 5), sharex=True, sharey=True, layout="constrained")
for ax, lengthscale in zip(axes[0], (0.5, 2, 8), strict=True):
    values = named("SE0", amplitude=4, lengthscale=lengthscale)
    show(ax, "SE0", values, f"SE0, lengthscale {lengthscale} weeks")
for ax, amplitude in zip(axes[1], (0.25, 1, 4), strict=True):
    values = named("SE0", amplitude=amplitude, lengthscale=2)
    show(ax, "SE0", values, f"SE0, amplitude {amplitude} (thousand steps)²")
figure.supxlabel("week")
figure.supylabel("thousand steps, around the mean")
plt.show()
# %% [markdown]
# Short lengthscales can lead to overfitting: such a function can pass through any points. With few
# data the likelihood alone is often largest there.
#
# ## Sums and products
#
# A **sum** of kernels describes a sum of independent functions: a trend *plus* a periodic function.
# A **product** of kernels describes one function with both properties: a periodic function whose
# size *grows* with time, or whose shape slowly changes.

# %%
parts = (
    named("LIN0", amplitude=0.02, shift=0)
    | named("PER0", amplitude=2, lengthscale=1, period=5)
    | named("SE0", amplitude=2, lengthscale=6)
)
growing = {
    "LIN0 x PER0.amplitude": 0.02,
    "LIN0 x PER0.LIN0.shift": 0,
    "LIN0 x PER0.PER0.lengthscale": 1,
    "LIN0 x PER0.PER0.period": 5,
}
changing = {
    "PER0 x SE0.amplitude": 4,
    "PER0 x SE0.PER0.lengthscale": 1,
    "PER0 x SE0.PER0.period": 5,
    "PER0 x SE0.SE0.lengthscale": 6,
}
figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
show(axes[0, 0], "LIN0 + PER0", parts, "LIN0 + PER0: a trend and a rhythm")
show(axes[1, 0], "LIN0 x PER0", growing, "LIN0 x PER0: a rhythm that grows")
show(axes[0, 1], "PER0 + SE0", parts, "PER0 + SE0: a fixed rhythm on a slow drift")
show(axes[1, 1], "PER0 x SE0", changing, "PER0 x SE0: a rhythm that changes its shape")
figure.supxlabel("week")
figure.supylabel("thousand steps, around the mean")
plt.show()
# %% [markdown]
# ## Compositions are immutable objects
#
# One additive term (a base kernel or a product) is a *candidate*, a sum of candidates is a
# *composition*. A composition is a small immutable object: it can be printed and parsed, and it is
# compared and sorted by its candidates, not by the way it was written. Therefore the model can
# assign probabilities to compositions, and files can store them as text.

# %%
composition = kem.Composition.parse("PER0 + LIN0 x SE0")
print("canonical form:", composition)
print("the same, written otherwise:", composition == kem.Composition.parse("SE0 x LIN0 + PER0"))
print("its hyperparameters:", *(h.name for h in composition.hyperparameters), sep="\n  ")
print("with one candidate more:", composition + kem.Candidate.parse("SE0"))
print("without one:", composition - kem.Candidate.parse("PER0"))

# %% [markdown]
# Compositions can also be used in PyMC: `composition.to_pymc(hyperparameters, dimension)` returns a
# `pm.gp.cov` object, for models of your own.
#
# ## The pool, and WHITE
#
# The *pool* of a study is the list of candidates that compositions are made of. The empty
# composition is called `WHITE`: it describes noise around the mean and nothing else. Every user
# starts with it.

# %%
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
print(pool)
print(f"{len(pool)} candidates make {2 ** len(pool)} compositions,")
print(f"from {kem.Composition()} with no hyperparameter but the noise")
full = kem.Composition(tuple(pool))
print(f"to all candidates at once with {len(full.hyperparameters)}, and the noise.")

# %% [markdown]
# ## Why sparse compositions
#
# Why not always use the richest composition, and let the data determine what is needed? Because a
# new user has five points. Below, three compositions are fitted by maximum likelihood to simulated
# users at 5, 10, ..., 30 points: `WHITE`, `LIN0`, and a rich composition of eleven hyperparameters
# that contains all candidates from which these users were drawn (`LIN0 + PER0` or `SE0`). The rich
# one is also fitted with a prior. Each is scored by the mean log predictive density of the user's
# true function with noise (higher is better).

# %%
rich = "LIN0 + PER0 + SE0 + PER0 x SE0"
known = kem.CandidatePool(kem.Composition.parse(rich))
priors = kem.priors.synthetic().without_parent()


class Always:
    """Selector that always fits the same composition, by maximum likelihood ("ml") or "map"."""

    def __init__(self, composition, fit):
        self.composition = kem.Composition.parse(composition)
        # For both fits, searches start from the best eight of sixty draws from the prior.
        coordinates = Coordinates(known, self.composition)
        drawn = pd.DataFrame(priors.draw(self.composition, known, 60, rng=seed))
        starts = [coordinates.from_named(row, row["noise"]) for row in drawn.to_dict("records")]
        self.start = KernelSummary(starts[0], np.ones(len(coordinates)), np.array(starts[1:]))
        self.scorer = Scorer(known, fit, "bic", 8, priors.noise_floor, priors)

    def select(self, x, y, previous=None):
        """Return the fit to one user's points."""
        only = Proposal(self.composition, "fixed", 1.0, self.start)
        points = ScaledPoints(x, y)
        fitted = self.scorer.consider([only], kem.Composition(), previous, points)
        return kem.Selection(tuple(fitted), known, kem.Scaling.identity(1), x, y, run_time=0)


people = kem.datasets.synthetic(users=users, time_steps=6, seed=4)
methods = {
    "WHITE": Always("WHITE", "ml"),
    "LIN0": Always("LIN0", "ml"),
    "rich": Always(rich, "ml"),
    "rich, with a prior": Always(rich, "map"),
}
trajectories = {name: kem.select_online(method, people) for name, method in methods.items()}
tables = {
    name: kem.scores(trajectory, people, target="truth")
    for name, trajectory in trajectories.items()
}
by_points = {name: table.groupby("points")["log_likelihood"] for name, table in tables.items()}
means = pd.DataFrame({name: own.mean() for name, own in by_points.items()})
worst = pd.DataFrame({name: own.min() for name, own in by_points.items()})
pd.concat({"mean over users": means, "worst user": worst}, axis="columns").round(2)

# %% [markdown]
# Read along the rows: which composition is best at 5 points, which at 30? Then read down the
# columns: how much does each gain from more points? The plot shows the user for whom the rich
# composition, fitted by maximum likelihood, had the lowest score at five points. Crosses are the
# user's points; the black line is the true function, which no method used.

# %%
first = tables["rich"].query("time_step == 0").set_index("user")["log_likelihood"]
person = first.idxmin()
truth = (people.truth.x_test, people.truth.f_test[people.users.index(person)])
few_and_many = {
    name: [trajectories[name][person][0], trajectories[name][person][-1]]
    for name in list(trajectories)[1:]
}
axes = kem.plots.few_and_many(few_and_many, truth=truth, study=people)

# %% [markdown]
# What to look for: places where the outer band, that of observations, is narrow and the true
# function lies outside. There the model is wrong and certain. The log density decreases with the
# *square* of the distance in sd, so a confident error costs more than a wide band, which expresses
# uncertainty. Maximum likelihood has no penalty against this: with more hyperparameters than points
# it may select a function that passes through all of them.
#
# There are two remedies: fewer hyperparameters, and a prior. The output below shows how much each
# of them improved the scores here, and at how many points.

# %%
for name, own in means.groupby(means.idxmax(axis="columns")):
    print(f"{name} is best on average at {', '.join(map(str, own.index))} points")
for name in ("WHITE", "LIN0", "rich, with a prior"):
    ahead = means.index[means[name] > means["rich"]]
    print(f"{name} is ahead of rich at {', '.join(map(str, ahead)) or 'no'} points")
for name, trajectory in trajectories.items():
    predicted = trajectory[person][0].predict(truth[0], include_noise=True)
    outside = np.mean(np.abs(truth[1] - predicted.mean) > 2 * predicted.sd)
    score = tables[name].query("user == @person and time_step == 0")["log_likelihood"].item()
    print(f"user {person} from 5 points, {name}: {score:.2f};", end=" ")
    print(f"truth outside the outer band at {outside:.0%} of the grid")

# %% [markdown]
# The table doesn't show that simple compositions are best: these soon reach their limit, and change
# little with more points. It shows that with maximum likelihood many hyperparameters are costly
# while there are few points, and that a prior removes much of this cost. This package uses both
# remedies. Every hyperparameter has a prior, and compositions grow with the data: every user starts
# with `WHITE` before the first point, and from then on, at every time step, candidates are added
# when the data support them. Which candidates are usually added next is learned from *pilot users*.
# How many may be added at a time is determined by a prior, too, and priors are the topic of the
# next notebook.
