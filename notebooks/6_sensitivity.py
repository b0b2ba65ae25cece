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
#       test_users: 2
#       time_steps: 3
#       draws: 30
#       tune: 20
#       chains: 2
#       cores: 1
#       final_draws: 60
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6. Sensitivity of the conclusions
#
# Every analysis depends on settings that the analyst chose: the concentration, how many candidates
# enter, the priors. A conclusion should be reported if it holds under other reasonable choices; if
# it doesn't, that should be reported, too.
#
# There are two methods. **Refitting** with another setting is slow, exact, and works for any
# setting. **Power-scaling** (ArviZ's `psense`) reweights existing draws to show what would change
# if the prior, or the likelihood, had a little more or less weight; it is fast, and works for
# continuous parameters.
#
# The data are Energy (UCI, from the folder given by the environment variable `KEM_DATA`).

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import kem_pymc as kem
from models.loaders import candidates, energy

# %matplotlib inline

# %% tags=["parameters"]
users = 7
test_users = 8
time_steps = 6
draws = 200
tune = 200
chains = 2
final_draws = 1000
seed = 0
cores = None  # as many as the machine has

# %%
pilot, test = energy(seed=0)
pilot = pilot.subset(pilot.users[:users]).truncate(time_steps)
test = test.subset(test.users[:test_users]).truncate(time_steps + 1)
pool = kem.CandidatePool(candidates("energy"), pilot.dimension)
base = kem.priors.paper().expecting(0.4, pool)
pilot

# %% [markdown]
# ## Refitting
#
# Change one setting at a time, to values that a sceptical reader might suggest. And change only the
# seed once: the differences are then Monte Carlo error.

# %%
steady = kem.priors.noise_by_size(mu=(0, -1, -2), sigma=(0.5, 1, 2))
settings = {
    "base": (1.0, base),
    "base, another seed": (1.0, base),
    "concentration 0.3": (0.3, base),
    "concentration 3": (3.0, base),
    "concentration learned": (pm.Gamma.dist(alpha=2, beta=2), base),
    "0.2 candidates enter": (1.0, base.expecting(0.2, pool)),
    "the paper's inclusion": (1.0, kem.priors.paper()),
    "smaller amplitudes": (1.0, base.replace(amplitude=pm.LogNormal.dist(-0.5, 1))),
    "smaller noise": (1.0, base.replace(noise=steady)),
}
sampler = {"tune": tune, "chains": chains, "cores": cores, "progress": False}
posteriors = {
    name: kem.sample(
        kem.EvolutionModel(pilot, pool, table, alpha),
        draws=draws,
        random_seed=seed + (name == "base, another seed"),
        **sampler,
    )
    for name, (alpha, table) in settings.items()
}

# %% [markdown]
# What should be compared? Not labels or single compositions (there are thousands), but the
# quantities that you would report: the number of clusters, the size of the compositions, the noise,
# and, since this is the purpose of the model, **how well new users are predicted**.


# %%
def summary(idata):
    """Return the quantities that would be reported from a posterior."""
    last = idata["posterior"].isel(time_step=-1)
    trajectories = kem.select_online(kem.KEMSelector(kem.Evolutions.from_posterior(idata)), test)
    scores = kem.scores(trajectories, test)
    return {
        "clusters": float(idata["posterior"]["n_clusters"].mean()),
        "size in the end": float(last["inclusion"].sum("candidate").mean()),
        "noise in the end (median)": float(last["noise"].median()),
        "new users: log likelihood": scores["log_likelihood"].mean(),
        "of which sd over users": scores.groupby("user")["log_likelihood"].mean().std(),
        "worst R-hat": kem.diagnose(idata).convergence["r_hat"].max(),
    }


report = pd.DataFrame({name: summary(idata) for name, idata in posteriors.items()}).T
report.round(2)

# %% [markdown]
# Read down the columns. Start with the two rows of the base: differences of that size aren't
# evidence of an effect of a setting, only of the small number of draws. (One repeat is a rough
# measure; make more where it matters.) The concentration should change the number of clusters; the
# question is whether it changes anything *else*. The last column shows whether a row is reliable at
# all: rows whose chains disagree need more draws before they are evidence of anything.
#
# Next, compare features. The plot shows the probability that a composition uses a feature at the
# last time step, one mark per setting.

# %%
uses = np.array([[d in c.dimensions for d in range(pilot.dimension)] for c in pool])


def features(idata):
    """Return the probability that a dataset's composition uses each feature."""
    last = idata["posterior"]["inclusion"].isel(time_step=-1).values.astype(bool)
    return (last[..., None] & uses).any(axis=-2).mean(axis=(0, 1, 2))


figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for k, (name, idata) in enumerate(posteriors.items()):
    marker, shift = "ops^vDPX*"[k], 0.07 * (k - 4)
    ax.plot(np.arange(pilot.dimension) + shift, features(idata), marker, color=f"C{k}", label=name)
ax.set_xticks(range(pilot.dimension), [f.replace("_", "\n") for f in pilot.features], fontsize=8)
ax.set(ylabel="probability of being looked at", ylim=(0, 1))
ax.grid(axis="y", color="0.9")
figure.legend(loc="outside right upper", fontsize="small")
plt.show()

# %% [markdown]
# What to look for: the *order* of the features within each setting. If it is the same everywhere,
# the ranking may be reported, with the range of probabilities; if a setting reverses it, report
# which one. If another seed reverses it, the order isn't known yet.
#
# ## Power-scaling
#
# Power-scaling needs a joint density, which `feedback="cut"` has at the first time step only.
# Therefore it is shown for the model of the pilot users' last datasets, where the two targets are
# equal. (For evolutions, sample with `feedback="joint"`.) The package adds both groups that ArviZ
# needs:

# %%
model = kem.final_model(pilot, pool, base)
idata = kem.sample(model, draws=final_draws, random_seed=seed, **sampler)
groups = kem.diagnostics.log_prior_group(kem.diagnostics.log_likelihood_group(idata), model)
print("terms of the prior:", *groups["log_prior"].data_vars)
posterior = groups["posterior"].to_dataset()
groups["posterior"] = posterior.assign(
    size=posterior["inclusion"].sum("candidate").mean(("user", "time_step")),
    log_noise=np.log(posterior["noise"]).mean(("user", "time_step")),
)
quantities = ["size", "log_noise"]
rows = {
    term: az.psense_summary(groups, var_names=quantities, prior_var_names=[term], round_to=3)
    for term in ("hyperparameters", "noise")
}
pd.concat(rows)

# %% [markdown]
# A value above 0.05 means that the quantity changes when that part of the prior (or the likelihood)
# is raised to a power slightly above or below one. The last column is ArviZ's interpretation of the
# two values. *Potential prior-data conflict*: both are above. *Potential strong prior / weak
# likelihood*: only that of the prior is. ✓: that of the prior is below, whatever the likelihood's.
# A value above is a reason to check the prior again, not an error. In particular it doesn't show in
# which direction the two act; the plot below shows this.
#
# One caveat: larger compositions have densities of more dimensions, so scaling `hyperparameters`
# also changes *size*, by an amount that depends on units. Use it for quantities that vary within
# compositions, such as the noise; for sizes, refit.

# %%
az.plot_psense_dist(
    groups,
    var_names=quantities,
    prior_var_names=["hyperparameters"],
    kind="ecdf",
    figure_kwargs={"figsize": (9, 6), "layout": "constrained"},
)
plt.show()

# %% [markdown]
# Curves that coincide show no sensitivity. Where curves differ, the plot shows by how much, in the
# units of the quantity, so that you can decide whether it matters. Compare the order of the colours
# on the left, where the prior has less (0.8) or more (1.25) weight, with that on the right, where
# the likelihood has. If a row has the same order on both sides, prior and likelihood change this
# quantity in the same direction, and that is no conflict, whatever the label. If the order is
# reversed, they act in opposite directions, and the posterior is a compromise. *Inclusion* and
# *seating* are discrete, so many draws have equal densities there and importance weights have no
# tail to be smoothed; for those, refit, as above.
#
# ## What to report
#
# Report the range over settings of every conclusion, and which settings give the extremes. Where
# the range is hardly wider than the difference between the two seeds, the settings had no effect
# that these draws can show:

# %%
for column in ("clusters", "size in the end", "new users: log likelihood"):
    values = report[column]
    again = values["base, another seed"]
    print(f"{column}: base {values['base']:.2f}, with another seed {again:.2f};")
    print(
        f"  from {values.min():.2f} ({values.idxmin()}) to {values.max():.2f} ({values.idxmax()})"
    )
