# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small:
#       draws: 40
#       tune: 40
#       chains: 2
#       cores: 1
#       pilot_users: 4
#       test_users: 3
#       time_steps: 4
#       steps: 100
#       studies: [synthetic]
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5. Online selection for new users, compared with the baselines
#
# A new user starts with a few points, and more arrive later. At every time step `KEMSelector`
# considers the compositions that followed the user's present composition among the pilot users, and
# that composition itself; it fits them to the user's own data and selects one. This takes
# milliseconds. Whether it improves predictions depends on the data, so this notebook compares
# methods on two studies: the paper's simulation, and Energy (UCI, from the folder given by the
# environment variable `KEM_DATA`).

# %%
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

import kem_pymc as kem
from experiments.kem.memoryless import MemorylessSelector
from models.loaders import candidates, energy

# %matplotlib inline

# %% tags=["parameters"]
studies = ["synthetic", "energy"]
pilot_users = 10
test_users = 16
time_steps = 10
draws = 100
tune = 100
chains = 4
steps = 1000  # number of steps of a Memoryless search
seed = 0
cores = None  # as many as the machine has

# %% [markdown]
# ## Two studies
#
# A study has data, candidates, priors, and a criterion by which predictions are scored: if the
# truth is known, the true function with noise; else the user's next batch.


# %%
@dataclass
class Study:
    """Data, candidates and priors of a study, and how its selections are scored."""

    pilot: kem.Cohort
    test: kem.Cohort
    pool: kem.CandidatePool
    priors: kem.Priors
    target: str


def load(name):
    """Return a study by name."""
    if name == "synthetic":
        size = {"time_steps": min(time_steps, 6)}
        pilot = kem.datasets.synthetic(users=pilot_users, seed=seed, **size)
        test = kem.datasets.synthetic(users=test_users, seed=seed + 1, **size)
        pool = kem.CandidatePool(candidates("synthetic"))
        return Study(pilot, test, pool, kem.priors.synthetic(), "truth")
    pilot, test = energy(seed=seed)
    pilot = pilot.subset(pilot.users[:pilot_users]).truncate(time_steps)
    test = test.subset(test.users[:test_users]).truncate(time_steps)
    pool = kem.CandidatePool(candidates("energy"), pilot.dimension)
    return Study(pilot, test, pool, kem.priors.paper(), "next")


loaded = {}
for name in studies:
    try:
        loaded[name] = study = load(name)
        print(f"{name}: pilot {study.pilot}, test {study.test}")
    except kem.datasets.DataFileNotFoundError as missing:
        print(f"{name} is skipped: {missing}")

# %% [markdown]
# ## What each method learns
#
# - **KEM**: evolutions, from all datasets of the pilot users.
# - **Final**: compositions from the pilot users' *last* datasets alone.
# - **Stratified**: a model for each time step, without evolutions between them.
# - **ARD**: always one kernel of all features, with values from the pilot users.
# - **Memoryless**: nothing; it starts a new search for every user and time step.


# %%
def learn(model):
    """Return the evolutions of a model."""
    settings = {"draws": draws, "tune": tune, "chains": chains, "random_seed": seed}
    idata = kem.sample(model, **settings, cores=cores, progress=False)
    return kem.Evolutions.from_posterior(idata)


def selectors(study):
    """Return the selectors of all methods, after learning from the pilot users."""
    parts = (study.pilot, study.pool, study.priors)
    evolutions = learn(kem.EvolutionModel(*parts))
    known = {"scaling": evolutions.scaling, "priors": study.priors}
    strata = [learn(model) for model in kem.model.stratified_models(*parts)]
    ends = np.median([ends for ends in study.pilot.ends], axis=0)
    return {
        "KEM": kem.KEMSelector(evolutions),
        "Final": kem.FinalSelector(learn(kem.final_model(*parts))),
        "Stratified": kem.selection.StratifiedSelector(strata, ends),
        "ARD": kem.ARDSelector(study.pilot.dimension, "pilot", pilot=study.pilot, **known),
        "Memoryless": MemorylessSelector(study.pool, steps=steps, **known),
    }


methods = {name: selectors(study) for name, study in loaded.items()}

# %% [markdown]
# ## One user, step by step

# %%
name = next(iter(loaded))
study, kem_selector = loaded[name], methods[name]["KEM"]
x, y, ends = study.test.inputs[0], study.test.targets[0], study.test.ends[0]

first = kem_selector.select(x[: ends[0]], y[: ends[0]])
second = kem_selector.select(x[: ends[1]], y[: ends[1]], previous=first)
second

# %% [markdown]
# The table lists all compositions that were considered: *children* of the last composition and the
# last composition itself (*current*). *Weight* is the posterior probability among these; it
# combines how probable the evolution was among the pilot users with how well the composition
# explains this user's data. **A bad sign** is a weight near one half together with very different
# predictions: then compare both.
#
# `kem.select_online` selects kernels at all time steps of all users.

# %%
trajectories = {
    study: {
        method: kem.select_online(selector, loaded[study].test) for method, selector in own.items()
    }
    for study, own in methods.items()
}
person = study.test.users[0]
own = trajectories[name]["KEM"][person]
print(*(f"{len(s.y):3} points: {s.label()}" for s in own), sep="\n")

# %%
truth = (study.test.truth.x_test, study.test.truth.f_test[0]) if study.test.truth else None
few = [own[0], own[1], own[-1]]
axes = kem.plots.few_and_many(few, truth=truth, study=study.test)

# %% [markdown]
# What to look for: the band should be wide where there are no points, and the true function, where
# it is known, should lie inside the darker band nearly everywhere. A bad sign is a narrow band
# based on few points that doesn't contain the true function: the kernel's values, learned from
# pilot users, are then too certain. The next plot shows the contribution of each candidate to the
# last prediction:

# %%
axes = kem.plots.components(own[-1], study=study.test)

# %% [markdown]
# ## All users

# %%
ax = kem.plots.trajectories(trajectories[name]["KEM"])

# %% [markdown]
# Rows are users, columns are time steps. Compositions should be small on the left and larger on the
# right, with few changes: this is the purpose of evolutions. A user whose colour changes at every
# step would be a bad sign, because such selections can't be interpreted.
#
# ## Comparison with the baselines
#
# `kem.scores` scores every selection by the data that followed it.

# %%
tables = {
    study: pd.concat(
        [
            kem.scores(trajectory, loaded[study].test, loaded[study].target).assign(method=method)
            for method, trajectory in own.items()
        ]
    )
    for study, own in trajectories.items()
}
for study, table in tables.items():
    ax = kem.plots.log_likelihood(table, value="log_likelihood", unit="user")
    ax.set_title(study, fontsize="medium")

# %% [markdown]
# Higher is better. Intervals are over users, who all share one pilot cohort: they don't contain the
# variation between pilot cohorts. The next table shows which method is best here;
# `docs/explanation/evidence.md` has many more trials.


# %%
def gains(table):
    """Return KEM's mean gain over each other method, paired by user, with a 95 % interval."""
    by_user = table.pivot_table("log_likelihood", ["user"], "method")
    difference = by_user.drop(columns="KEM").rsub(by_user["KEM"], axis="index")
    half = stats.t.ppf(0.975, len(difference) - 1) * difference.std() / np.sqrt(len(difference))
    return pd.DataFrame(
        {
            "gain": difference.mean(),
            "low": difference.mean() - half,
            "high": difference.mean() + half,
        }
    )


pd.concat({study: gains(table) for study, table in tables.items()}).round(2)

# %% [markdown]
# Where *low* is above zero, KEM was better than that method on that study; where *high* is below
# zero, it was worse; otherwise these users don't decide. The next table compares other costs: size,
# the number of features that a user's kernel loses from one step to the next (which users perceive
# as inconsistency), and time.

# %%
price = {
    study: table.groupby("method")[["size", "features", "dropped", "seconds"]].mean()
    for study, table in tables.items()
}
pd.concat(price).round(3)

# %%
for study, table in tables.items():
    found = gains(table)
    better, worse = found.index[found["low"] > 0], found.index[found["high"] < 0]
    means = table.groupby("method")["log_likelihood"].mean()
    print(f"{study}: best on average {means.idxmax()}.", end=" ")
    print(f"KEM is better than {', '.join(better) or 'none'}", end=" ")
    print(f"and worse than {', '.join(worse) or 'none'} at 95 %.")
