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
#       final_draws: 60
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6. What do the conclusions depend on?
#
# Every analysis has settings that somebody chose: the concentration, how many candidates enter, the
# priors. A conclusion is worth reporting if it survives reasonable other choices; and what doesn't
# survive is worth reporting as such.
#
# Two tools. **Refit** with another setting: slow, exact, and fit for anything. **Power-scaling**
# (ArviZ's `psense`): reweigh the draws you have, to see what would move if the prior, or the
# likelihood, counted a little more or less; fast, and fit for continuous parameters.
#
# The data are Energy (UCI, from the folder that `KEM_DATA` names).

# %%
import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import kem_pymc as kem

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

# %%
pilot, test = kem.datasets.energy(seed=0)
pilot = pilot.subset(pilot.users[:users]).truncate(time_steps)
test = test.subset(test.users[:test_users]).truncate(time_steps + 1)
pool = kem.CandidatePool(kem.datasets.candidates("energy"), pilot.dimension)
base = kem.priors.paper().expecting(0.4, pool)
pilot

# %% [markdown]
# ## Refit
#
# One setting at a time, to values that a sceptical reader might ask for. And once no setting, but
# the seed: what changes then is Monte Carlo error.

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
sampler = {"tune": tune, "chains": chains, "progress": False}
posteriors = {
    name: kem.sample(
        kem.EvolutionModel(pilot, pool, table, alpha, shared=None),
        draws=draws,
        random_seed=seed + (name == "base, another seed"),
        **sampler,
    )
    for name, (alpha, table) in settings.items()
}

# %% [markdown]
# What to compare? Not labels, not single compositions (there are thousands), but what you would
# report: how many clusters, how large the compositions are, how large the noise, and, since it is
# what the model is for, **how well new users are predicted**.


# %%
def summary(idata):
    """Return what would be reported of a posterior."""
    last = idata["posterior"].isel(time_step=-1)
    walks = kem.walk(kem.KEMSelector(kem.Evolutions.from_posterior(idata)), test)
    scores = kem.scores(walks, test)
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
# Read down the columns. First the two rows of the base: differences of that size tell nothing of a
# setting, only that draws are few. (One repeat is a rough measure; where it matters, make more.)
# The concentration should move the number of clusters; the question is whether it moves anything
# *else*. The last column says whether a row may be read at all: rows whose chains disagree need
# more draws before they are evidence of anything.
#
# Then features. The picture has the probability that a feature is looked at, at the last time step,
# one mark per setting.

# %%
uses = np.array([[d in c.dimensions for d in range(pilot.dimension)] for c in pool])


def features(idata):
    """Return how probable it is that a dataset's composition looks at each feature."""
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
# What to look at: the *order* of the features within each setting. If it is the same everywhere,
# the ranking may be reported, with the range of probabilities; if a setting turns it around, say
# which. If another seed does, the order isn't known yet.
#
# ## Power-scaling
#
# Power-scaling needs a joint density, which `feedback="cut"` has at the first time step only. So it
# is shown on the model of the pilot users' last datasets, where the two targets are equal. (For
# evolutions, sample with `feedback="joint"`.) Both groups that ArviZ wants come from the package:

# %%
model = kem.final_model(pilot, pool, base, shared=None)
idata = kem.sample(model, draws=final_draws, random_seed=seed, **sampler)
groups = kem.log_prior_group(kem.log_likelihood_group(idata), model)
print("terms of the prior:", *groups["log_prior"].data_vars)
posterior = groups["posterior"].to_dataset()
groups["posterior"] = posterior.assign(
    size=posterior["inclusion"].sum("candidate").mean(("user", "time_step")),
    log_noise=np.log(posterior["noise"]).mean(("user", "time_step")),
)
told = ["size", "log_noise"]
rows = {
    term: az.psense_summary(groups, var_names=told, prior_var_names=[term], round_to=3)
    for term in ("hyperparameters", "noise")
}
pd.concat(rows)

# %% [markdown]
# A value above 0.05 means that the quantity moves when that part of the prior (or the likelihood)
# is raised to a power a little above or below one. The last column is ArviZ's reading of the two
# values. *Potential prior-data conflict*: both are above. *Potential strong prior / weak
# likelihood*: that of the prior alone. ✓: that of the prior is below, whatever the likelihood's. It
# is a reason to look at the prior again, not an error. In particular it doesn't say in which
# direction the two pull; that is what the picture is for.
#
# One caveat: larger compositions have densities of more dimensions, so scaling `hyperparameters`
# also moves *size*, by an amount that depends on units. Trust it for what varies within
# compositions, such as the noise; for sizes, refit.

# %%
az.plot_psense_dist(
    groups,
    var_names=told,
    prior_var_names=["hyperparameters"],
    kind="ecdf",
    figure_kwargs={"figsize": (9, 6), "layout": "constrained"},
)
plt.show()

# %% [markdown]
# Curves that lie on each other: no sensitivity. Curves that shift: you see by how much, in the
# units of the quantity, and can judge whether it matters. Compare the order of the colours on the
# left, where the prior counts less (0.8) or more (1.25), with that on the right, where the
# likelihood does. If a row has the same order on both sides, prior and likelihood pull this
# quantity the same way, and that is no conflict, whatever the label. If the order is reversed,
# they pull against each other, and the posterior is a compromise. *Inclusion* and *seating* are
# discrete, so many draws have equal densities there and importance weights have no tail to be
# smoothed; for those, refit, as above.
#
# ## What to report
#
# The range over settings of everything you conclude, and which setting does it. Where it is hardly
# wider than the distance of the two seeds, nothing moved, as far as these draws can tell:

# %%
for column in ("clusters", "size in the end", "new users: log likelihood"):
    values = report[column]
    again = values["base, another seed"]
    print(f"{column}: base {values['base']:.2f}, with another seed {again:.2f};")
    print(
        f"  from {values.min():.2f} ({values.idxmin()}) to {values.max():.2f} ({values.idxmax()})"
    )
