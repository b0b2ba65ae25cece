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
# # 1. Kernels, and what they say about functions
#
# A Gaussian process is a prior over functions, and its kernel is where the assumptions are: how
# fast the function changes, whether it repeats, whether it drifts. Before any data, the way to
# understand a kernel is to **draw functions from it and look**.
#
# The example in mind: one person's steps (in thousands a day), over twenty weeks.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kem_pymc as kem
from kem_pymc.evolution.clusters import Typical
from kem_pymc.gp.objective import Coordinates
from kem_pymc.selection.judge import Judge, Option

# %matplotlib inline

# %% tags=["parameters"]
draws = 5
users = 20
seed = 1

# %% [markdown]
# ## Base kernels
#
# Six of them come with the package. Each looks at one feature of the data; its index is part of
# the name, so `SE0` is a squared exponential of feature 0, and `MATERN320` a Matern 3/2.
# Hyperparameters have names as well, and are in the units of the data: weeks for lengthscales,
# periods and shifts; thousand steps squared for the amplitude, which is a variance. For `LIN0` it
# is thousand steps squared *per week squared*: it multiplies two distances from the shift.

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
    """Return values under a candidate's full names, like LIN0.shift."""
    return {f"{candidate}.{kind}": value for kind, value in values.items()}


def show(ax, composition, values, title=None):
    """Draw functions of a composition."""
    functions = kem.draw_functions(composition, weeks, values, draws, rng=seed)
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
# What to look at:
#
# - **LIN** gives straight lines. They cross zero at the *shift*, here week 10, and nowhere else:
#   this is the one place where the function is certain before any data.
# - **PER** repeats exactly, forever. Its lengthscale has no unit: it says how wiggly one period is.
# - **SE** is smooth, and forgets: weeks further apart than a few lengthscales know nothing of each
#   other.
# - **RQ** is a mixture of SEs of many lengthscales. **MATERN** functions are rougher, 3/2 more so
#   than 5/2.
#
# A bad sign would be functions that nobody would believe of this person. The remedy is a prior on
# the hyperparameters, which is notebook 2.

# %% [markdown]
# ## What a hyperparameter does
#
# The same random numbers in each panel, so that only the hyperparameter changes.

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
# Short lengthscales are the dangerous ones: such a function can run through any points. With few
# data the likelihood alone often likes that best.
#
# ## Sums and products
#
# A **sum** of kernels is a sum of independent functions: a trend *plus* a rhythm. A **product** of
# kernels is one function with both properties at once: a rhythm whose size *grows* with time, or
# whose shape slowly changes.

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
# ## Compositions are values
#
# One additive term (a base kernel or a product) is a *candidate*, a sum of candidates a
# *composition*. A composition is a small frozen value: it prints, parses back, compares and sorts
# by what it is, not by how it was written. That is what lets the model speak of probabilities of
# compositions, and a file keep them as text.

# %%
composition = kem.Composition.parse("PER0 + LIN0 x SE0")
print("canonical form:", composition)
print("the same, written otherwise:", composition == kem.Composition.parse("SE0 x LIN0 + PER0"))
print("its hyperparameters:", *(h.name for h in composition.hyperparameters), sep="\n  ")
print("with one candidate more:", composition + kem.Candidate.parse("SE0"))
print("without one:", composition - kem.Candidate.parse("PER0"))

# %% [markdown]
# It also goes on into PyMC: `composition.to_pymc(hyperparameters, dimension)` is a `pm.gp.cov`
# object, for models of your own.
#
# ## The pool, and WHITE
#
# A study's *pool* is the list of candidates that compositions are made of. The empty composition
# is called `WHITE`: noise around the mean, nothing more. It is where every user starts.

# %%
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
print(pool)
print(f"{len(pool)} candidates make {2 ** len(pool)} compositions,")
print(f"from {kem.Composition()} with no hyperparameter but the noise")
full = kem.Composition(tuple(pool))
print(f"to all candidates at once with {len(full.hyperparameters)}, and the noise.")

# %% [markdown]
# ## Why sparse
#
# Why not always use the richest composition, and let the data sort it out? Because a new user has
# five points. Below, three compositions are fitted to simulated users at 5, 10, ..., 30 points by
# maximum likelihood: `WHITE`, `LIN0`, and a rich one of eleven hyperparameters that has all that
# these users were drawn from (`LIN0 + PER0` or `SE0`). The rich one is fitted with a prior as well.
# Each is judged by the mean log predictive density of the user's true function with noise (higher
# is better).

# %%
rich = "LIN0 + PER0 + SE0 + PER0 x SE0"
known = kem.CandidatePool(kem.Composition.parse(rich))
priors = kem.priors.synthetic().without_parent()


class Always:
    """Fits one composition to every user's points, by maximum likelihood ("ml") or "map"."""

    def __init__(self, composition, fit):
        self.composition = kem.Composition.parse(composition)
        # Searches start from the best eight of sixty draws from the prior, whichever the fit.
        coordinates = Coordinates(known, self.composition)
        drawn = pd.DataFrame(priors.draw(self.composition, known, 60, rng=seed))
        starts = [coordinates.from_named(row, row["noise"]) for row in drawn.to_dict("records")]
        self.start = Typical(starts[0], np.ones(len(coordinates)), np.array(starts[1:]))
        self.judge = Judge(known, fit, "bic", 8, priors.noise_floor, priors)

    def select(self, x, y, previous=None):
        """Return the fit to one user's points."""
        only = Option(self.composition, "fixed", 1.0, self.start)
        fitted = self.judge.consider([only], kem.Composition(), previous, x, y)
        return kem.Selection(tuple(fitted), known, kem.Scaling.identity(1), x, y, run_time=0)


people = kem.datasets.synthetic(users=users, time_steps=6, seed=4)
methods = {
    "WHITE": Always("WHITE", "ml"),
    "LIN0": Always("LIN0", "ml"),
    "rich": Always(rich, "ml"),
    "rich, with a prior": Always(rich, "map"),
}
walks = {name: kem.walk(method, people) for name, method in methods.items()}
tables = {name: kem.scores(walk, people, judged="truth") for name, walk in walks.items()}
by_points = {name: table.groupby("points")["log_likelihood"] for name, table in tables.items()}
means = pd.DataFrame({name: own.mean() for name, own in by_points.items()})
worst = pd.DataFrame({name: own.min() for name, own in by_points.items()})
pd.concat({"mean over users": means, "worst user": worst}, axis="columns").round(2)

# %% [markdown]
# Read along the rows: which composition is best at 5 points, which at 30? And down the columns:
# what more points are worth to each. The picture has the user for whom the rich composition, by
# maximum likelihood, did worst from five points. Crosses are the user's points; the black line is
# the truth, which no method saw.

# %%
first = tables["rich"].query("time_step == 0").set_index("user")["log_likelihood"]
person = first.idxmin()
truth = (people.truth.x_test, people.truth.f_test[people.users.index(person)])
few_and_many = {name: [walks[name][person][0], walks[name][person][-1]] for name in list(walks)[1:]}
kem.plots.few_and_many(few_and_many, truth=truth, study=people)[0, 0].figure

# %% [markdown]
# What to look at: where the outer band, that of observations, is narrow and the truth runs outside.
# That is a confident mistake. The log density falls with the *square* of the distance in sd, so it
# costs more than an honest "I don't know", which is a wide band. Maximum likelihood has nothing
# that holds it back: with more hyperparameters than points it may choose a function through all of
# them.
#
# Two things hold it back: fewer hyperparameters, and a prior. The lines below say how much either
# was worth here, and for how long.

# %%
for name, own in means.groupby(means.idxmax(axis="columns")):
    print(f"{name} is best on average at {', '.join(map(str, own.index))} points")
for name in ("WHITE", "LIN0", "rich, with a prior"):
    ahead = means.index[means[name] > means["rich"]]
    print(f"{name} is ahead of rich at {', '.join(map(str, ahead)) or 'no'} points")
for name, walk in walks.items():
    told = walk[person][0].predict(truth[0], include_noise=True)
    outside = np.mean(np.abs(truth[1] - told.mean) > 2 * told.sd)
    score = tables[name].query("user == @person and time_step == 0")["log_likelihood"].item()
    print(f"user {person} from 5 points, {name}: {score:.2f};", end=" ")
    print(f"truth outside the outer band at {outside:.0%} of the grid")

# %% [markdown]
# The table doesn't say that simple is best: the simple compositions soon have learned all they can,
# and change little with more points. It says that by maximum likelihood many hyperparameters are
# dear while points are few, and that a prior takes much of the price back. This package guards in
# both ways. It has a prior for every value, and compositions grow with the data: every user starts
# at `WHITE` before the first point, and from then on, at every time step, candidates are added when
# the data speak for them. What usually comes next is learned from *pilot users*. How much may come
# next at a time is a prior as well, and priors are the next notebook.
