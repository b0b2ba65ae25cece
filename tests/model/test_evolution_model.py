import json
import pickle

import arviz as az
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import Competence

from kem_pymc import priors as prior_tables
from kem_pymc._system.executors import Here
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import ClusterModel
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import NAMES, EvolutionStep
from kem_pymc.sampler.moves.sweep import CUT, JOINT
from kem_pymc.sampler.state import kernel_log_prior
from kem_pymc.shared import learn_shared
from tests.clusters import cluster_of
from tests.tiny_study import CONCENTRATION

QUICK = CUT._replace(seating=1, steps=5)
SAMPLING = {"progressbar": False, "compute_convergence_checks": False}


@pytest.fixture(scope="module")
def model(cohort, pool, table):
    return EvolutionModel(
        cohort, pool, table, CONCENTRATION, schedule=QUICK, scaling=Scaling.identity(1), shared=None
    )


@pytest.fixture(scope="module")
def idata(model):
    with model:
        return pm.sample(draws=40, tune=10, chains=2, cores=1, random_seed=11, **SAMPLING)


def point_of(arrays):
    return dict(zip(NAMES, arrays, strict=True))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        # Labels are numbers of datasets that open a cluster; these aren't, or don't exist.
        *(("structure", (0, 0, 0), label) for label in (-7, -1, 1, 10_000, 2**31 - 1)),
        *(("structure", (1, 1, 0), label) for label in (-1, 10_000)),
        *(("noise", ..., noise) for noise in (np.nan, np.inf, -1.0, 0.0)),
    ],
)
def test_what_is_impossible_has_no_density(model, name, place, value):
    logp, point = model.compile_logp(), model.initial_point()
    assert np.isfinite(logp(point))
    point[name][place] = value
    assert logp(point) == -np.inf


def test_log_density_equals_the_joint_density(model, engine):
    # Whose terms are compared with a computation by hand in test_joint_density.
    logp = model.compile_logp()
    for seed in range(3):
        structure, hyperparameters, noise = arrays = engine.simulate(np.random.default_rng(seed))
        expected = (
            engine.log_structure(structure)
            + engine.log_hyperparameters(structure, hyperparameters)
            + engine.log_noise(structure, noise)
            + engine.log_likelihood(arrays).sum()
        )
        assert logp(point_of(arrays)) == pytest.approx(expected, abs=1e-8)


def test_sampling_finds_the_step_and_names_the_dimensions(idata, cohort, pool):
    posterior = idata["posterior"]
    assert dict(posterior["inclusion"].sizes) == {
        "chain": 2,
        "draw": 40,
        "user": 3,
        "time_step": 3,
        "candidate": 3,
    }
    assert list(posterior["user"].values) == list(cohort.users)
    assert list(posterior["candidate"].values) == pool.names
    assert posterior["noise"].dims == ("chain", "draw", "user", "time_step")
    assert posterior["hyperparameters"].dims[-1] == "hyperparameter"
    assert idata["sample_stats"]["factorisations"].min() > 0
    assert (idata["sample_stats"]["failed_factorisations"] == 0).all()


def test_posterior_is_consistent_with_itself(idata, engine):
    posterior = idata["posterior"].isel(chain=0)
    for draw in (0, 17, 39):
        here = posterior.isel(draw=draw)
        structure = here["structure"].to_numpy()
        arrays = (structure, here["hyperparameters"].to_numpy(), here["noise"].to_numpy())
        assert np.isfinite(engine.log_structure(structure))
        assert (here["inclusion"].to_numpy() == structure[..., 1:]).all()
        labels = structure[..., 0][engine.present]
        assert here["n_clusters"] == len(np.unique(labels))
        np.testing.assert_allclose(here["dataset_log_likelihood"], engine.log_likelihood(arrays))
        active = np.isfinite(arrays[1])[..., 0]  # the amplitude of the first candidate
        assert (active == (structure[..., 1] == 1)).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # of what never changes, R-hat is undefined
def test_diagnostics_come_out_of_summary(idata):
    table = az.summary(idata, var_names=["n_clusters", "log_joint"])
    assert np.isfinite(table["r_hat"].astype(float)).all()
    inclusion = az.summary(idata, var_names=["inclusion"])
    assert len(inclusion) == 27


def test_serial_and_parallel_chains_are_the_same(model, idata):
    with model:
        parallel = pm.sample(draws=40, tune=10, chains=2, cores=2, random_seed=11, **SAMPLING)
    for name in idata["posterior"].data_vars:
        np.testing.assert_array_equal(parallel["posterior"][name], idata["posterior"][name])


def test_a_step_depends_on_the_point_and_the_generator_alone(model):
    with model:
        step = EvolutionStep()
    point, _ = step.step(model.initial_point())
    before = {k: v.copy() for k, v in point.items()}
    step.rng = np.random.default_rng(5)
    once, _ = step.step(point)
    with model:
        other = EvolutionStep(rng=5)
    again, _ = other.step(point)
    for name in NAMES:
        np.testing.assert_array_equal(once[name], again[name])
        np.testing.assert_array_equal(point[name], before[name])


def test_a_given_initial_point_is_kept_and_the_default_one_replaced(model):
    """Fails where a point with the default's values, given by a user, counts as the default."""
    still = CUT._replace(seating=0, steps=0, refits=0, split_merge=0)
    with model:
        step = EvolutionStep(schedule=still, rng=5)
    default = model.initial_point()
    given = default | {"hyperparameters": np.full_like(default["hyperparameters"], np.nan)}
    assert np.isfinite(model.compile_logp()(default))
    assert model.compile_logp()(given) == model.compile_logp()(default)
    kept, _ = step.step(given)
    for name in NAMES:
        np.testing.assert_array_equal(kept[name], given[name])
    replaced, _ = step.step(default)
    assert not np.array_equal(replaced["structure"], default["structure"])
    assert not np.isinf(replaced["hyperparameters"]).any()
    with pytest.raises(InputError, match="for noise, but not for hyperparameters"):
        step.step(default | {"noise": 2.0 * default["noise"]})


@pytest.mark.parametrize("what", ["compile", "time"])
def test_compiling_or_timing_a_step_leaves_it_as_it_was(model, what):
    with model:
        step, same = EvolutionStep(rng=5), EvolutionStep(rng=5)
    if what == "compile":
        step.compile(Here())
    else:
        assert 0 < step.seconds_per_draw(draws=3) < 60
    assert step.made == 0
    one, _ = step.step(step.start_point)
    other, _ = same.step(same.start_point)
    for name in NAMES:
        np.testing.assert_array_equal(one[name], other[name])


def test_the_step_is_ideal_for_its_variables_only(model):
    for rv in model.free_RVs:
        assert EvolutionStep.competence(rv, False) == Competence.IDEAL
    assert EvolutionStep.competence(pm.Normal.dist(), True) == Competence.INCOMPATIBLE


def test_an_engine_survives_pickling_without_its_pointers(model, engine):
    copy = pickle.loads(pickle.dumps(model.engine))
    arrays = engine.simulate(np.random.default_rng(0))
    np.testing.assert_allclose(copy.log_likelihood(arrays), engine.log_likelihood(arrays))


def test_joint_feedback_samples_too(cohort, pool, table):
    quick = JOINT._replace(steps=2, particles=4, heating=10)
    with EvolutionModel(cohort, pool, table, feedback="joint", schedule=quick, shared=None):
        idata = pm.sample(draws=10, tune=0, chains=1, random_seed=1, **SAMPLING)
    assert idata["posterior"].sizes["draw"] == 10
    assert np.isfinite(idata["sample_stats"]["acceptance_path"]).all()


def test_other_targets_can_be_observed(engine):
    """As simulation-based calibration does: the model's own draws become the data."""
    y = engine.simulate_targets(engine.simplest(), np.random.default_rng(0))
    free = EvolutionModel(
        engine.cohort, engine.pool, engine.priors, schedule=QUICK, observed=False, shared=None
    )
    with pm.observe(free, {"targets": y}):
        idata = pm.sample(draws=3, tune=0, chains=1, random_seed=1, **SAMPLING)
    np.testing.assert_array_equal(idata["observed_data"]["targets"], y)
    last = idata["posterior"].isel(chain=0, draw=-1)
    arrays = [last[name].to_numpy() for name in NAMES]
    np.testing.assert_allclose(last["dataset_log_likelihood"], engine.log_likelihood(arrays, y))


def test_prior_predictive_draws_from_the_simulator(model, engine):
    with model:
        idata = pm.sample_prior_predictive(60, random_seed=3)
    prior = idata["prior"].isel(chain=0)
    structure = prior["structure"].to_numpy()
    assert all(np.isfinite(engine.log_structure(s)) for s in structure)
    noise = np.log(prior["noise"].to_numpy()[:, :, 0])
    assert abs(noise.mean() - 2) < 0.25  # LogNormal(2, 0.5) below the empty composition
    assert idata["prior_predictive"]["targets"].shape == (1, 60, *engine.targets.shape)


def test_settings_travel_with_the_posterior(idata, model):
    lines = [str(s) for s in idata["constant_data"]["setting"].values]
    settings = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in lines}
    assert settings["pool"] == ["LIN0", "SE0", "LIN0 x PER0"]
    assert settings["feedback"] == "cut"
    assert settings["likelihood"] == "cumulative"
    assert settings["concentration"] == CONCENTRATION
    assert settings["scaling"] == model.scaling.to_dict()
    assert set(settings["versions"]) == {"kem-pymc", "pymc", "pytensor"}


def test_data_travel_with_the_posterior(idata, model):
    constant = idata["constant_data"]
    assert constant["inputs"].dims == ("user", "point", "feature")
    scaled = model.engine.cohort
    for u, (x, ends) in enumerate(zip(scaled.inputs, scaled.ends, strict=True)):
        own = constant["n_points"].values[u]
        np.testing.assert_array_equal(own[own > 0], ends)
        np.testing.assert_array_equal(constant["inputs"].values[u, : own.max()], x)


def test_unit_priors_scale_with_pilot_users_only(cohort, pool):
    scaled = EvolutionModel(cohort, pool, shared=None)
    assert scaled.priors.scaling == "unit"
    every = np.concatenate(scaled.engine.cohort.inputs)
    assert every.min() == 0
    assert every.max() == pytest.approx(1)
    raw = EvolutionModel(cohort, pool, prior_tables.synthetic(), shared=None)
    np.testing.assert_array_equal(raw.engine.cohort.inputs[0], cohort.inputs[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"concentration": 0.0}, "concentration"),
        ({"feedback": "both"}, "'cut' or 'joint'"),
        ({"likelihood_power": 2.0}, "power"),
        ({"likelihood": "batch"}, "'cumulative' or 'sequential'"),
        ({"schedule": JOINT}, "schedule isn't for"),
    ],
)
def test_bad_arguments(cohort, pool, arguments, message):
    with pytest.raises(InputError, match=message):
        EvolutionModel(cohort, pool, **arguments, shared=None)


def test_dimensions_must_agree(cohort):
    with pytest.raises(InputError, match="1 features"):
        EvolutionModel(cohort, CandidatePool(["SE0"], dimension=2), shared=None)


# One cluster as a plain PyMC model.

MEMBERS = [("a", 1), ("a", 2), ("c", 2)]


def make_cluster(cohort, pool, table, **options):
    return ClusterModel(
        cohort, pool, "LIN0 x PER0 + SE0", parent="SE0", members=MEMBERS, priors=table, **options
    )


@pytest.fixture(scope="module")
def cluster(cohort, pool, table):
    return make_cluster(cohort, pool, table)


@pytest.mark.parametrize("shared", [None, "CONST + SE0"])
@pytest.mark.parametrize("likelihood", ["cumulative", "sequential"])
def test_cluster_density_equals_the_samplers(likelihood, shared, cohort, pool, table):
    part = None if shared is None else learn_shared(cohort, shared)
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
            engine.study, pool.inclusion(cluster.parent_composition), included, h, log_noise
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
    with cluster:
        idata = pm.sample(draws=20, tune=20, chains=1, random_seed=1, **SAMPLING)
    assert "diverging" in idata["sample_stats"]


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
