"""One cluster as a plain PyMC model: its density is the sampler's."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.sampling.mcmc import assign_step_methods

from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import ClusterModel
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.population.variance_function import MEAN, VarianceFunction
from kem_pymc.sampler.state import kernel_log_prior
from tests.clusters import cluster_of

MEMBERS = [("a", 1), ("a", 2), ("c", 2)]


def make_cluster(cohort, pool, table, **options):
    return ClusterModel(
        cohort, pool, "LIN0 x PER0 + SE0", parent="SE0", members=MEMBERS, priors=table, **options
    )


@pytest.fixture(scope="module")
def cluster(cohort, pool, table):
    return make_cluster(cohort, pool, table)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("likelihood", ["cumulative", "sequential"])
def test_cluster_density_equals_the_samplers(likelihood, known, cohort, pool, table):
    part = learn_shared(cohort, "additive") if known else None
    if part is not None:
        varying = VarianceFunction(MEAN, np.array([-1.0, 1.0]), np.array([-0.7, 0.4]))
        part = replace(part, without=[replace(p, variance_function=varying) for p in part.without])
        noise = tuple(np.linspace(0.0, 1.5, len(y)) for y in cohort.targets)
        cohort = replace(cohort, noise=noise)
    options = {"likelihood": likelihood, "shared": part}
    cluster = make_cluster(cohort, pool, table, **options)
    engine = EvolutionModel(cohort, pool, table, **options).engine
    rng = np.random.default_rng(1)
    logp = cluster.compile_logp()
    included = pool.inclusion(cluster.composition)
    names = [h.name for h in pool.hyperparameters]
    for _ in range(4):
        start = {k: v + 0.3 * rng.normal() for k, v in cluster.initial_point().items()}
        h = np.zeros(len(names))
        for name in names:
            place = names.index(name)
            h[place] = start.get(f"{name}_log__", start.get(name, 0.0))
        log_noise = float(start["noise_log__"])
        prior = kernel_log_prior(
            engine.model, pool.inclusion(cluster.parent_composition), included, h, log_noise
        )
        prior -= kernel_log_prior_of_inclusion(engine, pool, cluster)
        structure, hyperparameters, noise = engine.simplest()
        structure[..., 1:][engine.present] = included
        structure[:, 1:, 0] = np.where(structure[:, 1:, 0] >= 0, 1, -1)
        values = np.where(pool.layout.positive, np.exp(h), h)
        hyperparameters[engine.present] = np.where(pool.active(included), values, np.nan)
        noise[engine.present] = np.exp(log_noise)
        likelihood = engine.log_likelihood((structure, hyperparameters, noise))
        members = [(cohort.users.index(u), t) for u, t in MEMBERS]
        expected = prior + sum(likelihood[m] for m in members)
        assert float(logp(start)) == pytest.approx(expected, abs=1e-8)


def kernel_log_prior_of_inclusion(engine, pool, cluster):
    parent, own = pool.inclusion(cluster.parent_composition), pool.inclusion(cluster.composition)
    p = np.where(parent, engine.priors.stay, [engine.priors.entering(c) for c in pool])
    return np.log(np.where(own, p, 1 - p)).sum()


def test_a_level_adds_its_variance_everywhere(cohort, table):
    pool = CandidatePool(["CONST", "LIN0"])
    own = ClusterModel(cohort, pool, "CONST + LIN0", members=MEMBERS, priors=table)
    x = np.array([[1.0], [2.0], [4.0]])
    values = {"CONST.amplitude": 0.3, "LIN0.amplitude": 2.0, "LIN0.shift": 1.0}
    level = ClusterModel(cohort, pool, "CONST", members=MEMBERS, priors=table)
    np.testing.assert_allclose(level.composition_covariance(values, x).eval(), np.full((3, 3), 0.3))
    total = own.composition_covariance(values, x).eval()
    np.testing.assert_allclose(total, 0.3 + 2 * (x - 1) * (x - 1).T, rtol=1e-12)


def test_cluster_model_is_plain_pymc(cluster):
    assert {rv.name for rv in cluster.free_RVs} == {
        *(h.name for h in cluster.composition.hyperparameters),
        "noise",
    }
    assert len(cluster.observed_RVs) == 3
    graph = pm.model_to_graphviz(cluster)
    assert "LIN0 x PER0.PER0.period" in graph.source
    _, steps = assign_step_methods(cluster)  # needs a gradient
    assert set(steps) == {pm.NUTS}


def test_cluster_of_a_sequential_model_observes_the_last_batch(cohort, pool, table, idata):
    model = EvolutionModel(cohort, pool, table, likelihood="sequential", shared=None)
    assert 'likelihood: "sequential"' in model.coords["setting"]
    found = cluster_of(model, idata, chain=0, draw=5, user="a", time_step=1)
    observed = found.rvs_to_values[found["y[a, 1]"]].eval()
    np.testing.assert_allclose(observed, model.engine.cohort.targets[0][2:4])


def test_cluster_of_a_draw(model, idata, pool):
    found = cluster_of(model, idata, chain=0, draw=5, user="a", time_step=1)
    here = idata["posterior"].isel(chain=0, draw=5)
    assert found.composition == pool.composition(here["inclusion"].sel(user="a", time_step=1))
    assert ("a", 1) in found.members
    assert found.parent_composition == pool.composition(
        here["inclusion"].sel(user="a", time_step=0)
    )


@pytest.mark.parametrize("members", [[("z", 0)], [("b", 2)], [("a", -1)]])
def test_unknown_members_are_refused(cohort, pool, members):
    with pytest.raises(InputError, match="no dataset"):
        ClusterModel(cohort, pool, "SE0", members=members)


def test_draws_as_processes(cluster):
    """Spread over the draws, with the model's covariance, in the users' units."""
    rng = np.random.default_rng(0)
    names = [h.name for h in cluster.composition.hyperparameters]
    draws = {name: np.exp(rng.normal(size=(2, 50))) for name in [*names, "noise"]}
    posterior = xr.Dataset({name: (("chain", "draw"), own) for name, own in draws.items()})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    first, *_, last = cluster.processes(idata, 5)
    assert last.noise == draws["noise"][1, -1]
    scaling = cluster.scaling
    x = scaling.feature_low + rng.random((4, 1)) * (scaling.feature_high - scaling.feature_low)
    values = {name: own[0, 0] for name, own in draws.items()}
    exact = cluster.composition_covariance(values, scaling.inputs(x)).eval()
    np.testing.assert_allclose(first.covariance(x, x), exact * scaling.target_sd**2, rtol=1e-9)
    np.testing.assert_allclose(first.noise_at(x), values["noise"] * scaling.target_sd**2)
    assert (first.mean(x) == scaling.target_mean).all()
    with pytest.raises(InputError, match="draws is 100"):
        cluster.processes(idata, 101)
    with pytest.raises(InputError, match="noise"):
        cluster.processes(xr.DataTree.from_dict({"posterior": posterior.drop_vars("noise")}))
