"""Terms of the prior density, against closed forms, and what ArviZ makes of them."""

import math

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

from kem_pymc.diagnostics.power_scaling import log_prior_group
from kem_pymc.diagnostics.prediction import log_likelihood_group
from kem_pymc.model.evolution_model import EvolutionModel

TERMS = ("seating", "inclusion", "hyperparameters", "noise")


def noise_by_hand(noise, size):
    """Return the log density of a noise variance below a parent of this size."""
    mu, sigma = [(2, 0.5), (1, 1), (0, 2), (0, 2)][size]
    return stats.lognorm(sigma, scale=math.exp(mu)).logpdf(noise)


def by_hand(model, here, alpha):
    """Return the terms of one draw from the formulas of docs/explanation/model.md."""
    label = here["assignment"].values
    inclusion = here["inclusion"].values.astype(bool)
    terms = dict.fromkeys(TERMS, 0.0)
    processes: dict[bytes, list[int]] = {}
    for u, t in np.argwhere(label >= 0):
        parent = inclusion[u, t - 1] if t else np.zeros(inclusion.shape[-1], bool)
        processes.setdefault(parent.tobytes(), []).append(label[u, t])
        if label[u, t] != u * label.shape[1] + t:
            continue
        own = inclusion[u, t]
        for c, candidate in enumerate(model.pool):
            p = model.priors.stay if parent[c] else model.priors.entering(candidate)
            terms["inclusion"] += math.log(p if own[c] else 1 - p)
        values = here["hyperparameters"].isel(user=u, time_step=t)
        for h in model.pool.composition(own).hyperparameters:
            value = float(values.sel(hyperparameter=h.name))
            terms["hyperparameters"] += float(pm.logp(model.priors.of(h), value).eval())
        terms["noise"] += noise_by_hand(here["noise"].values[u, t], parent.sum())
    for seated in processes.values():
        counts = np.unique(seated, return_counts=True)[1]
        terms["seating"] += len(counts) * math.log(alpha) + sum(map(math.lgamma, counts))
        terms["seating"] -= sum(math.log(alpha + i) for i in range(len(seated)))
    return terms


def test_terms_are_those_of_the_density(sampled):
    model, idata = sampled
    found = log_prior_group(idata, model)["log_prior"]
    assert tuple(found.data_vars) == TERMS
    for draw in (0, 19):
        expected = by_hand(model, idata["posterior"].isel(chain=1, draw=draw), alpha=1.0)
        for name, value in expected.items():
            assert float(found[name][1, draw]) == pytest.approx(value, abs=1e-6), name
    assert "log_prior" not in idata.children


@pytest.mark.integration
def test_terms_and_likelihood_add_up_where_the_concentration_is_learned(cohort, pool, table):
    model = EvolutionModel(cohort, pool, table, pm.Gamma.dist(2, 4), shared=None)
    with model:
        idata = pm.sample(
            **{"draws": 5, "tune": 2, "chains": 2, "cores": 1, "random_seed": 1},
            **{"progressbar": False, "compute_convergence_checks": False},
        )
    groups = log_prior_group(log_likelihood_group(idata), model)
    alpha = idata["posterior"]["concentration"].values
    expected = stats.gamma(2, scale=1 / 4).logpdf(alpha)
    np.testing.assert_allclose(groups["log_prior"]["concentration"].values, expected, atol=1e-8)
    total = sum(groups["log_prior"][name] for name in groups["log_prior"].data_vars)
    total = total + groups["log_likelihood"]["targets"].sum("dataset")
    np.testing.assert_allclose(total.values, idata["posterior"]["log_joint"].values, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # 40 draws of a tiny study
def test_arviz_scales_the_prior(sampled):
    """Fails where ArviZ takes no notice of the groups, or of the names of terms."""
    model, idata = sampled
    groups = log_prior_group(log_likelihood_group(idata), model)
    asked = {"var_names": ["n_clusters", "log_joint"], "round_to": 6}
    every, noise = (
        az.psense_summary(groups, prior_var_names=names, **asked) for names in (None, ["noise"])
    )
    assert noise["likelihood"].equals(every["likelihood"])
    assert not noise["prior"].equals(every["prior"])
