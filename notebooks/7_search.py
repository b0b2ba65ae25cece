# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: kem
#     text_representation:
#       extension: .py
#       format_name: percent
#   kem:
#     small: {budget: 6, kernels: 60, years: 6}
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 7. One series, without pilot users: from a table to a forecast
#
# The other notebooks learn from pilot users. Sometimes there is one series only, and the question
# is which kernel explains it. `kem_pymc.search` looks for it among sums of products of base
# kernels: *compositional kernel search* greedily, *BOMS* by Bayesian optimisation. *EvoCov* evolves
# formulas instead.
#
# The series is simulated: monthly sales that grow, with a yearly rhythm that grows along, and slow
# ups and downs. We know the truth, so we can see whether the search finds it.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kem_pymc as kem
from kem_pymc.plots import components, evolved_kernel, search_path

# %matplotlib inline

# %% tags=["parameters"]
budget = 30  # number of models that each search evaluates
kernels = 1410  # number of formulas that EvoCov fits
years = 11
seed = 3

# %%
rng = np.random.default_rng(seed)
n = 12 * years
year = 2010 + np.arange(n) / 12
since = year - 2010
slow = np.cumsum(rng.normal(0, 1.0, n))
sales = 100 + 12 * since + (4 + 3 * since) * np.sin(2 * np.pi * year) + slow + rng.normal(0, 2, n)
table = pd.DataFrame({"year": year, "sales": sales}).round({"year": 3, "sales": 1})
table.head()

# %% [markdown]
# The last 12 months are kept for checking the forecast.

# %%
known, coming = table.iloc[:-12], table.iloc[-12:]

# %% [markdown]
# ## Two searches
#
# A model is scored by its log evidence, approximated by Laplace's method: a richer kernel has to
# explain the data so much better that its additional hyperparameters are paid for. So more complex
# models don't win by themselves.

# %%
found = {
    method: kem.search.search(
        known["year"], known["sales"], method, budget=budget, seed=seed, progressbar=False
    )
    for method in ("cks", "boms")
}
ax = search_path(found)

# %% [markdown]
# Crosses are the models that were evaluated, lines the best one so far. BOMS predicts the scores of
# models before it evaluates them, from how similar they are to those that it has evaluated, and so
# makes larger steps at first; the greedy search changes one base kernel at a time.

# %%
best = max(found.values(), key=lambda result: result.path["score"].max())
columns = ["model", "score", "score_per_point", "seconds"]
best.path.sort_values("score", ascending=False)[columns].head()

# %% [markdown]
# ## What was found
#
# The components of the best model, in plain English and in the units of the table, with the share
# of the variance that each of them explains:

# %%
kem.search.describe(best.selection, ["year"])

# %% [markdown]
# And their posterior pictures: what each component contributes, and how certain that is. Components
# that explain the same thing are each uncertain, although their sum isn't.

# %%
axes = components(best.selection)

# %% [markdown]
# ## Forecast
#
# Predictions average over all models with at least one per cent of the weight, and over draws of
# their hyperparameters.

# %%
prediction = best.selection.predict(coming["year"], include_noise=True)
low, high = prediction.quantile(0.025), prediction.quantile(0.975)

figure, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
ax.plot(known["year"].tail(48), known["sales"].tail(48), "k.", label="known")
ax.plot(coming["year"], coming["sales"], "kx", label="kept for checking")
ax.plot(coming["year"], prediction.mean, label="forecast")
ax.fill_between(coming["year"], low, high, alpha=0.25, label="95 % interval")
ax.set(xlabel="year", ylabel="sales")
ax.legend(frameon=False)
plt.show()

# %%
inside = ((coming["sales"] >= low) & (coming["sales"] <= high)).mean()
error = np.sqrt(np.mean((coming["sales"] - prediction.mean) ** 2))
naive = np.sqrt(np.mean((coming["sales"].to_numpy() - known["sales"].tail(12).to_numpy()) ** 2))
print(
    f"{best.best}: root mean square error {error:.1f}, of last year's values {naive:.1f}; "
    f"{inside:.0%} of the months lie in the 95 % interval."
)

# %% [markdown]
# ## A formula instead
#
# EvoCov starts from random formulas, fits their hyperparameters, and selects, crosses and mutates
# those with the smallest BIC.

# %%
evolved = kem.search.search(
    known["year"], known["sales"], "evocov", budget=kernels, seed=seed, progressbar=False
)
evolved

# %% [markdown]
# As a formula has no components, the kernel itself is drawn: the covariance of any two times, and
# functions that have it.

# %%
axes = evolved_kernel(evolved.selection)

# %% [markdown]
# Its forecast beside those of the other searches, and of a single smooth kernel:

# %%
smooth = kem.search.search(
    known["year"], known["sales"], "cks", budget=1, bases=("SE",), progressbar=False
)
forecasts = {**found, "evocov": evolved, "SE alone": smooth}
rows = []
for method, result in forecasts.items():
    own = result.selection.predict(coming["year"], include_noise=True)
    missed = np.sqrt(np.mean((coming["sales"] - own.mean) ** 2))
    rows.append((method, missed, own.log_predictive_density(coming["sales"]).mean()))
print(pd.DataFrame(rows, columns=["method", "RMSE", "log density"]).round(2).to_string(index=False))
