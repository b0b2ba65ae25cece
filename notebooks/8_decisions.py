# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small: {evaluations: 8, rounds: 12, people: 40}
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 8. Decisions: tuning on data that keep arriving, and when to notify
#
# The other notebooks ask which kernel describes a user. This one asks what to do next, in two
# situations: a classifier is tuned again whenever a new year's data set arrives
# (`kem_pymc.lifelong`), and the hour of a notification is chosen day by day from what is observed
# in several contexts (`kem_pymc.bandits`).

# %%
import warnings

warnings.filterwarnings("ignore", "IProgress not found")  # Optuna's progress bars aren't shown

import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from experiments.data.registry import simulated_registry
from kem_pymc.bandits import Bandit, GaussianProcess, Points, Weighted
from kem_pymc.lifelong import LifelongSampler
from kem_pymc.plots import networks

# %matplotlib inline
optuna.logging.set_verbosity(optuna.logging.WARNING)

# %% tags=["parameters"]
evaluations = 25  # number of settings that are tried on each data set
rounds = 40  # number of days on which a notification is sent
people = 80  # number of people who enter the registry in a year
seed = 1

# %% [markdown]
# ## A classifier on five data sets
#
# A registry is simulated in which both who enters and what their outcome depends on drift from year
# to year. The data sets are windows of four years that overlap by two. A support vector machine has
# two settings to tune; a score is the area under the curve, by cross-validation.

# %%
registry = simulated_registry(np.random.default_rng(seed), per_year=people)
windows = registry.windows(overlap=2, count=5)


def score(trial, x, y):
    """Return the area under the curve for the settings of a trial."""
    c = trial.suggest_float("C", 0.01, 100, log=True)
    gamma = trial.suggest_float("gamma", 1e-4, 1, log=True)
    machine = make_pipeline(StandardScaler(), SVC(C=c, gamma=gamma))
    return cross_val_score(machine, x, y, scoring="roc_auc", cv=3).mean()


# %% [markdown]
# Every data set is a study of Optuna. `LifelongSampler` learns from earlier studies: by default it
# has a Gaussian process whose prior mean they taught, or else the networks of lifelong Bayesian
# optimisation (LBO). Optuna's own sampler (TPE) begins anew with each, and random search learns
# nothing.

# %%
samplers = {
    "learned mean": LifelongSampler(seed=seed),
    "LBO": LifelongSampler(seed=seed, model="lbo"),
    "TPE": optuna.samplers.TPESampler(seed=seed),
    "random": optuna.samplers.RandomSampler(seed=seed),
}
studies = {name: {} for name in samplers}
for years, (x, y) in windows.items():
    for name, sampler in samplers.items():
        study = optuna.create_study(study_name=years, sampler=sampler, direction="maximize")
        study.optimize(lambda trial, x=x, y=y: score(trial, x, y), n_trials=evaluations)
        studies[name][years] = study
best = pd.DataFrame(
    {
        name: {years: study.best_value for years, study in own.items()}
        for name, own in studies.items()
    }
)
best.round(4)

# %% [markdown]
# How much is lacking to the best score that any method found on a data set:

# %%
lacking = best.max(axis=1).to_frame("").to_numpy() - best
ax = lacking.plot(marker="o", figsize=(6, 3), xlabel="data set", ylabel="lacking area")
plt.show()

# %% [markdown]
# Which of its networks LBO uses for each data set, and with which weight: one that is used again
# carries over what was learned.

# %%
ax = networks(samplers["LBO"].networks())

# %%
samplers["learned mean"].best(studies["learned mean"][years])

# %% [markdown]
# ## When to notify
#
# A person is sent one notification a day. Its effect on the steps of the next hours is observed in
# two contexts, at home and at work, and what counts is their sum, weighted by how often the person
# is in each. Every context has an effect of its own, a smooth function of the hour.

# %%
hours = np.arange(6, 23, 0.5)


def effect(context: str, hour: float) -> float:
    """Steps more, in hundreds: what we don't know."""
    peak, width, height = {"home": (19.0, 2.0, 3.5), "work": (11.5, 3.0, 4.0)}[context]
    return height * np.exp(-0.5 * ((hour - peak) / width) ** 2)


share = {"home": 0.6, "work": 0.4}
total = sum(share[context] * effect(context, hours) for context in share)
smooth = GaussianProcess.of(
    "SE0", {"SE0.amplitude": 4.0, "SE0.lengthscale": 3.0}, noise=0.5, mean=1.0
)

# %% [markdown]
# D-GPUCB observes each context, GP-UCB the weighted sum only.


# %%
def play(policy: str, trial: int) -> list[float]:
    """Return the regret of every day."""
    bandit = Bandit(Points(hours), [smooth, smooth], Weighted(list(share.values())), policy)
    rng = np.random.default_rng([seed, trial])
    regrets = []
    for _ in range(rounds):
        (hour,) = bandit.ask()
        observed = [effect(own, hour) + np.sqrt(0.5) * rng.normal() for own in share]
        bandit.tell([hour], observed)
        regrets.append(total.max() - sum(share[own] * effect(own, hour) for own in share))
    return regrets


policies = ("d-gpucb", "gp-ucb", "random")
regrets = pd.DataFrame(
    {policy: np.mean([play(policy, trial) for trial in range(10)], axis=0) for policy in policies},
    index=pd.RangeIndex(1, rounds + 1, name="day"),
)
regrets.cumsum().plot(figsize=(6, 3), ylabel="cumulative regret")
plt.show()

# %% [markdown]
# What was learned on the last days of one person: the effect in each context, and of the sum.

# %%
bandit = Bandit(Points(hours), [smooth, smooth], Weighted(list(share.values())))
rng = np.random.default_rng(seed)
for _ in range(rounds):
    (hour,) = bandit.ask()
    bandit.tell([hour], [effect(own, hour) + np.sqrt(0.5) * rng.normal() for own in share])
mean, variance = bandit.posterior(hours)
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(hours, total, "k", lw=0.8, label="true sum")
ax.plot(hours, mean, label="posterior mean")
ax.fill_between(
    hours, mean - 2 * np.sqrt(variance), mean + 2 * np.sqrt(variance), alpha=0.25, label="2 sd"
)
ax.plot([own.x[0] for own in bandit.rounds], np.full(rounds, -0.5), "k|", label="days")
ax.set(xlabel="hour", ylabel="effect, hundreds of steps")
ax.legend(frameon=False)
plt.show()

# %%
print(f"Send it at {hours[np.argmax(mean)]:g} h; the best hour is {hours[np.argmax(total)]:g} h.")
