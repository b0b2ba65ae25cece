"""Population parameters of priors: what may be given, and where they go.

alpha is learned as well, so that what holds for all learned parameters is tested for both.
"""

import arviz as az
import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats

import kem_pymc as kem
from kem_pymc.errors import InputError
from kem_pymc.model.cluster_model import ClusterModel
from kem_pymc.model.engine import Engine
from kem_pymc.model.evolution_model import VARIABLES, EvolutionModel
from kem_pymc.model.step import point_names
from kem_pymc.priors.population import population_parameter
from kem_pymc.runs.fingerprint import differences, fingerprint
from kem_pymc.sampler.moves.sweep import CUT, JOINT, start, sweep
from kem_pymc.selection.scorer import Scorer
from tests.clusters import cluster_of
from tests.hierarchical import LEVEL, MEDIAN, SPREAD, noise
from tests.runs.runs import same_draws

GAMMA = pm.Gamma.dist(alpha=3, beta=2)
QUICK = CUT._replace(seating=1, n_mh=3, split_merge=2)
SAMPLING = {"progressbar": False, "compute_convergence_checks": False, "quiet": True}
SHORT = {"draws": 12, "tune": 4, "chains": 2, "random_seed": 11}


@pytest.fixture(scope="module")
def engine(cohort, pool, hierarchical):
    return Engine(cohort, pool, hierarchical, GAMMA, likelihood_power=1.0)


@pytest.fixture(scope="module")
def model(cohort, pool, hierarchical):
    return EvolutionModel(cohort, pool, hierarchical, GAMMA, schedule=QUICK, shared=None)


@pytest.fixture(scope="module")
def idata(model):
    with model:
        return pm.sample(**SHORT, cores=1, **SAMPLING)


# What may be given.


@pytest.mark.parametrize("name", ["targets", "user", "log_joint"])
def test_names_of_the_model_are_taken(cohort, pool, table, name):
    taken = population_parameter(name, pm.Normal.dist(0, 1))
    with pytest.raises(InputError, match=f"name {name} of a population parameter .* another name"):
        EvolutionModel(cohort, pool, table.replace(shift=pm.Normal.dist(taken, 1)), shared=None)


def test_the_names_that_are_taken_are_those_of_the_model(model):
    own = set(model.named_vars) - {"median", "spread", "level"}
    assert own < set(VARIABLES)


def test_a_start_beyond_the_support_is_refused(model):
    with model, pytest.raises(InputError, match=r"probability zero\. Give initial values"):
        pm.sample(**SHORT, cores=1, initvals={"spread": -0.9}, **SAMPLING)


@pytest.mark.parametrize("add", ["observed", "free", "potential"])
def test_nothing_else_may_depend_on_what_a_sweep_changes(cohort, pool, hierarchical, add):
    model = EvolutionModel(cohort, pool, hierarchical, schedule=QUICK, shared=None)
    with model:
        pm.Deterministic("twice", 2 * model["median"])  # this may
        if add == "potential":
            pm.Potential("more", -(model["median"] ** 2))
        else:
            pm.Normal("more", model["median"], 1, observed=5.0 if add == "observed" else None)
    with model, pytest.raises(InputError, match=r"more depends on median.*into its prior instead"):
        pm.sample(**SHORT, cores=1, **SAMPLING)


def test_a_renamed_parameter_of_the_noise_is_another_prior(cohort, pool, table):
    def made(name):
        shift = population_parameter(name, pm.Normal.dist(0, 1))
        priors = table.replace(noise=lambda parent: pm.LogNormal.dist(shift, 1))  # noqa: ARG005
        return EvolutionModel(cohort, pool, priors, shared=None)

    one, other = (fingerprint(made(name), np.zeros(3))["priors"] for name in ("a", "b"))
    assert one != other


@pytest.mark.integration
def test_mixtures_of_them_are_listed_and_sampled(cohort, pool, table):
    """Fails where a part of the mixture keeps the parameter's first value."""
    parts = [pm.LogNormal.dist(MEDIAN, SPREAD), pm.LogNormal.dist(0, 1)]
    priors = table.replace(lengthscale=pm.Mixture.dist([0.3, 0.7], parts))
    assert "LogNormal(median, spread)" in priors.to_dict()["hyperparameters"]["lengthscale"]["text"]
    model = EvolutionModel(cohort, pool, priors, schedule=QUICK, shared=None)
    place = [h.name for h in pool.hyperparameters].index("SE0.lengthscale")
    for median, spread in ((0.3, 0.5), (-0.8, 1.2)):
        at = np.array(
            [{"median": median, "spread": spread}[p.name] for p in model.engine.population]
        )
        densities = [stats.norm(median, spread).pdf(0.4), stats.norm(0, 1).pdf(0.4)]
        found = model.engine.prior_table.log_density(
            int(model.engine.prior_table.entry[place]), 0.4, at
        )
        assert found == pytest.approx(np.log(np.dot([0.3, 0.7], densities)), abs=1e-8)
    posterior = kem.sample(model, **SHORT, cores=1, progress=False)["posterior"]
    assert len(np.unique(posterior["spread"])) == 24
    here = posterior.isel(chain=1, draw=-1)
    point = {name: here[name].to_numpy() for name in point_names(model.engine)}
    assert here["log_joint"] == pytest.approx(model.compile_logp()(point), abs=1e-9)


def test_noise_may_be_a_mixture_too(cohort, pool, table):
    def truncated(parent):  # noqa: ARG001
        return pm.Truncated.dist(pm.LogNormal.dist(LEVEL, 1.0), lower=0.01)

    made = EvolutionModel(cohort, pool, table.replace(noise=truncated), shared=None)
    assert [p.name for p in made.engine.population] == ["level"]


def test_elsewhere_than_in_priors_they_are_refused(cohort, pool, hierarchical, table):
    model = EvolutionModel(cohort, pool, hierarchical, shared=None)
    for add in (
        lambda: pm.Normal("new", MEDIAN, 1),
        lambda: pm.Deterministic("new", 2 * MEDIAN),
    ):
        with model, pytest.raises(InputError, match=r"new .* Use model\['median'\] instead"):
            add()
    assert "new" not in model.named_vars
    assert len(model.free_RVs) == 6
    with pytest.raises(InputError, match=r"stay is .*Give a number"):
        table.replace(stay=MEDIAN)
    with pytest.raises(InputError, match="concentration"):
        EvolutionModel(model.cohort, model.pool, table, pm.Gamma.dist(2, SPREAD), shared=None)


def test_methods_without_pilot_users_ask_for_numbers(pool, hierarchical):
    unknown = hierarchical.replace(noise_without_parent=noise(_Nobody())).without_parent()
    with pytest.raises(InputError, match=r"\(median, spread, level\).* by priors\.at"):
        Scorer(pool, "map", "bic", 1, 0.01, unknown)
    values = {"median": 0.1, "spread": 0.3, "level": -1.0}
    Scorer(pool, "map", "bic", 1, 0.01, hierarchical.at(values).without_parent())


class _Nobody:
    size = 0.0


# The move.


@pytest.mark.integration
@pytest.mark.parametrize("schedule", [QUICK, JOINT._replace(n_mh=3, particles=4)])
def test_the_running_density_follows(engine, schedule):
    checked, rng = schedule._replace(check=True), np.random.default_rng(0)
    model = engine.at(engine.model)
    state = start(model, checked, rng)
    np.testing.assert_array_equal(model.priors.population, model.priors.reference)
    assert state.concentration[0] == 1.5
    populations, alphas = set(), set()
    for _ in range(5):
        sweep(model, state, checked, rng)
        populations.add(tuple(model.priors.population))
        alphas.add(float(state.concentration[0]))
    assert len(populations) == len(alphas) == 5
    np.testing.assert_array_equal(engine.model.priors.population, model.priors.reference)


# The variables.


def test_log_density_is_that_of_priors_at_their_values_and_their_own(model, engine, cohort, pool):
    logp = model.compile_logp()
    names = point_names(engine)
    for seed in range(2):
        arrays = engine.simulate(np.random.default_rng(seed))
        alpha, median, spread, level = arrays[3:]
        values = {"median": median, "spread": spread, "level": level}
        plain = Engine(cohort, pool, engine.priors.at(values), alpha, likelihood_power=1.0)
        expected = (
            stats.gamma.logpdf(alpha, 3, scale=1 / 2)
            + stats.norm(0.3, 0.8).logpdf(median)
            + stats.halfnorm(scale=0.5).logpdf(spread)
            + stats.norm(-1, 0.6).logpdf(level)
            + plain.log_structure(arrays[0])
            + plain.log_hyperparameters(*arrays[:2])
            + plain.log_noise(arrays[0], arrays[2])
            + plain.log_likelihood(arrays[:3]).sum()
        )
        point = dict(zip(names, map(np.asarray, arrays), strict=True))
        assert logp(point) == pytest.approx(expected, abs=1e-10)
        for name in ("spread", "concentration"):
            assert logp(point | {name: np.array(-1.0)}) == -np.inf


@pytest.mark.integration
def test_draws_tell_the_log_density(model, engine, idata):
    logp = model.compile_logp()
    here = idata["posterior"].isel(chain=1, draw=-1)
    point = {name: here[name].to_numpy() for name in point_names(engine)}
    assert here["log_joint"] == pytest.approx(logp(point), abs=1e-9)
    state = engine.load(engine.model, *point.values())
    assert idata["sample_stats"]["log_density"][1, -1] == pytest.approx(state.log_density[0])


@pytest.mark.integration
def test_prior_predictive_draws_them_and_what_they_entail(model):
    with pytensor.config.change_flags(on_opt_error="raise"), model:  # operations are made anew
        prior = pm.sample_prior_predictive(400, random_seed=3)["prior"].isel(chain=0)
    assert stats.kstest(prior["median"], stats.norm(0.3, 0.8).cdf).pvalue > 1e-3
    assert stats.kstest(prior["spread"], stats.halfnorm(scale=0.5).cdf).pvalue > 1e-3
    first = np.log(prior["noise"].isel(user=0, time_step=0).to_numpy())  # below the empty parent
    z = (first - prior["level"].to_numpy()) / 0.7
    assert stats.kstest(z, "norm").pvalue > 1e-3
    alpha = prior["concentration"].to_numpy()
    assert stats.kstest(alpha, stats.gamma(3, scale=1 / 2).cdf).pvalue > 1e-3
    assert stats.spearmanr(alpha, prior["n_clusters"]).pvalue < 1e-6


@pytest.mark.integration
def test_a_run_gives_the_draws_of_pm_sample_and_goes_on(model, idata, tmp_path):
    whole = kem.sample(model, **SHORT, chunk=5, cores=1, folder=tmp_path / "run")
    same_draws(whole, idata)
    for name in ("spread", "concentration"):
        assert idata["posterior"][name].dims == ("chain", "draw")
        assert len(np.unique(idata["posterior"][name])) == 24
    (tmp_path / "run" / "chain-1" / "draws-000015.npz").unlink()
    (tmp_path / "run" / "chain-1" / "draws-000010.npz").unlink()
    same_draws(kem.resume(tmp_path / "run", model), whole)


@pytest.mark.integration
def test_a_run_in_processes_is_the_same(model, idata):
    same_draws(kem.sample(model, **SHORT, cores=2, progress=False), idata)
    again = cloudpickle.loads(cloudpickle.dumps(model))
    same_draws(kem.sample(again, **SHORT, cores=1, progress=False), idata)


def test_another_prior_of_a_parameter_is_another_model(model, cohort, pool, hierarchical):
    """Of the noise, which may be any function: only values tell that the prior is wider."""
    wider = population_parameter("level", pm.Normal.dist(-1, 2))
    priors = hierarchical.replace(noise=lambda p: pm.LogNormal.dist(wider - 0.2 * p.size, 0.7))
    other = EvolutionModel(cohort, pool, priors, GAMMA, schedule=QUICK, shared=None)
    prints = (fingerprint(m, np.zeros(3)) for m in (model, other))
    assert differences(*prints) == ["priors"]


# What comes after.


def test_the_posterior_is_read_with_them(idata, tmp_path):
    learned = kem.Evolutions.from_posterior(idata)
    posterior = idata["posterior"]
    assert set(learned.population) == {"median", "spread", "level"}
    assert learned.population["spread"] == tuple(posterior["spread"].values.ravel())
    assert learned.typical_population["level"] == np.median(posterior["level"])
    learned.save(tmp_path / "evolutions.json")
    again = kem.Evolutions.load(tmp_path / "evolutions.json")
    assert again == learned
    assert again.population == learned.population
    assert again.single_draw(3).population["median"] == (learned.population["median"][3],)
    assert learned.concentration == tuple(posterior["concentration"].values.ravel())
    found = kem.diagnose(idata).convergence.set_index(["quantity", "candidate"])
    assert found.loc["concentration", "mean"].item() == pytest.approx(
        np.mean(learned.concentration)
    )
    assert found.loc[("population", "median"), "mean"].item() == pytest.approx(
        posterior["median"].mean()
    )
    assert list(az.summary(idata, var_names=["median", "spread"]).index) == ["median", "spread"]


@pytest.mark.integration
def test_selection_fits_with_their_posterior_medians(cohort, pool, table, idata, model):
    priors = table.replace(lengthscale=pm.LogNormal.dist(MEDIAN, SPREAD))
    stored = EvolutionModel(cohort, pool, priors, schedule=QUICK, shared=None)
    learned = kem.Evolutions.from_posterior(
        kem.sample(stored, draws=60, tune=0, chains=1, cores=1, random_seed=2, progress=False)
    )
    x, y = cohort.inputs[0], cohort.targets[0]
    values = learned.typical_population
    given = kem.KEMSelector(learned, "map", priors=priors.at(values)).select(x, y)
    assert kem.KEMSelector(learned, "map").select(x, y).to_frame().equals(given.to_frame())
    other = priors.at(values | {"spread": values["spread"] / 9})
    assert any("SE0" in row for row in given.to_frame()["composition"])  # or nothing depends on it
    found = kem.KEMSelector(learned, "map", priors=other).select(x, y)
    assert not found.to_frame().equals(given.to_frame())
    # Functions of the parent aren't stored, and are given again.
    learned = kem.Evolutions.from_posterior(idata)
    with pytest.raises(InputError, match="stored as text"):
        kem.KEMSelector(learned, "map")
    assert kem.KEMSelector(learned, "map", priors=model.priors).select(x, y)


def test_terms_of_the_prior_add_up(idata, model):
    terms = kem.diagnostics.log_prior_group(idata, model)["log_prior"].dataset
    assert {"median", "spread", "level"} < set(terms)
    total = sum(terms.values()) + idata["posterior"]["dataset_log_likelihood"].sum(
        ["user", "time_step"]
    )
    np.testing.assert_allclose(total, idata["posterior"]["log_joint"], atol=1e-9)


def test_a_cluster_has_them_as_variables_or_numbers(cohort, pool, hierarchical, model, idata):
    cluster = ClusterModel(cohort, pool, "SE0", priors=hierarchical)
    free = {rv.name for rv in cluster.free_RVs}
    assert free == {"median", "spread", "level", "SE0.amplitude", "SE0.lengthscale", "noise"}
    assert np.isfinite(cluster.compile_logp()(cluster.initial_point()))
    in_a_draw = cluster_of(model, idata, 0, 3, "a", 0)
    assert not free & {"median", "spread", "level"} & {rv.name for rv in in_a_draw.free_RVs}
    assert np.isfinite(in_a_draw.compile_logp()(in_a_draw.initial_point()))


def test_final_users_have_them_too(cohort, pool, hierarchical):
    priors = hierarchical.replace(noise_without_parent=pm.LogNormal.dist(LEVEL, 1))
    with kem.final_model(cohort, pool, priors, schedule=QUICK, shared=None):
        idata = pm.sample(draws=4, tune=0, chains=1, cores=1, random_seed=1, **SAMPLING)
    assert len(np.unique(idata["posterior"]["level"])) == 4


def test_states_as_arrays_keep_them(engine):
    arrays = engine.simulate(np.random.default_rng(2))
    model = engine.at(engine.model, *arrays[3:])
    again = engine.dump(engine.load(model, *arrays), model)
    assert engine.learned == ("concentration", "median", "spread", "level")
    for one, other in zip(arrays, again, strict=True):
        np.testing.assert_array_equal(one, other)
