"""What users share, from a model to its posterior, the evolutions and what is predicted."""

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import kem_pymc as kem
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.ablations import final_model, final_model_of, stratified_models
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.shared_functions import KnownByUser, shared_arrays
from kem_pymc.population.fixed_mean import FixedMean
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.population.variance_function import VarianceFunction
from kem_pymc.runs.fingerprint import differences, fingerprint
from kem_pymc.runs.sampling import sample
from kem_pymc.sampler.moves.sweep import CUT
from kem_pymc.selection.kem import KEMSelector
from tests.tiny_study import make_cohort

QUICK = CUT._replace(seating=1, n_mh=2, split_merge=1, refits=1)
GRID = np.linspace(0, 3, 7)[:, None]


@pytest.fixture(scope="module")
def model(cohort, pool, table):
    """A model of users who share a mean process and noise that varies."""
    part = learn_shared(cohort, "additive", progress=False)
    varying = VarianceFunction(cohort.features[0], np.array([0.0, 3.0]), np.log([0.5, 2.0]))
    process, *without = (
        replace(p, variance_function=varying) for p in (part.process, *part.without)
    )
    part = replace(part, process=process, without=without)
    return EvolutionModel(cohort, pool, table, shared=part, schedule=QUICK)


OPTIONS = {"draws": 4, "tune": 1, "chains": 1, "cores": 1, "random_seed": 1, "progress": False}


@pytest.fixture(scope="module")
def posterior(model):
    return sample(model, **OPTIONS)


@pytest.fixture(scope="module")
def evolutions(model, posterior):
    return Evolutions.from_posterior(posterior, final=sample(final_model_of(model), **OPTIONS))


def test_the_number_of_threads_of_linear_algebra_changes_no_bit():
    """With two, sums are rounded differently, and chains of the same seed differ by more."""
    cohort = kem.datasets.synthetic(users=4, time_steps=3, seed=1)
    learned = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            part = learn_shared(cohort)
            arrays = [values for values, _ in shared_arrays(part, cohort.users).values()]
            by_user = KnownByUser.at(part.functions(cohort), cohort)
            process = part.process
        learned.append([*arrays, by_user.mean, by_user.covariance, process.weights, process.root])
    for one, two in zip(*learned, strict=True):
        np.testing.assert_array_equal(one, two)


def test_each_users_mean_is_that_of_all_others(model, cohort):
    fixed = model.engine.known_by_user
    for u, (user, x) in enumerate(zip(cohort.users, cohort.inputs, strict=True)):
        others = model.shared.without[u]
        np.testing.assert_array_equal(fixed.factors[u, : len(x)], others.noise_factors(x))
        np.testing.assert_array_equal(fixed.mean[u, : len(x)], others.mean(x))
        np.testing.assert_array_equal(model.shared.function(user).mean(x), others.mean(x))
        np.testing.assert_allclose(
            fixed.covariance[u, : len(x), : len(x)], others.covariance(x, x), atol=1e-14
        )


def test_posterior_and_file_carry_the_mean_process(evolutions, model, tmp_path):
    evolutions.save(tmp_path / "evolutions.json")
    for learned in (evolutions, Evolutions.load(tmp_path / "evolutions.json")):
        expected = model.shared.process
        np.testing.assert_allclose(learned.shared.mean(GRID), expected.mean(GRID), atol=1e-10)
        found = learned.shared.covariance(GRID, GRID)
        np.testing.assert_allclose(found, expected.covariance(GRID, GRID), atol=1e-10)
        np.testing.assert_allclose(learned.shared.noise_factors(GRID[[0, -1]]), [0.5, 2.0])
    assert evolutions.final.shared is None  # once is enough


def test_selections_predict_with_what_is_shared(evolutions, cohort):
    selection = KEMSelector(evolutions).select(cohort.inputs[0][:2], cohort.targets[0][:2])
    prediction = selection.predict(GRID)
    assert "shared" in prediction.components
    low, high = selection.predict(GRID[[0, -1]], include_noise=True, single=True).noises[0]
    assert high == pytest.approx(4 * low)
    assert low == pytest.approx(0.5 * selection.noise_in_target_units)
    far = selection.predict(np.array([[3.0]]), single=True)
    assert far.sd[0] ** 2 <= evolutions.shared.covariance(GRID[-1:], GRID[-1:])[0, 0] + 50


def test_methods_share_the_same(model, cohort, pool, table):
    assert final_model_of(model).shared is model.shared
    options = {"shared": model.shared}
    assert final_model(cohort, pool, table, **options).shared is model.shared
    # Users whom a stratum lacks still tell the others what they share.
    last = stratified_models(cohort, pool, table, **options)[-1]
    np.testing.assert_array_equal(
        last.engine.known_by_user.mean[0], model.shared.function("a").mean(cohort.inputs[0])
    )


def test_runs_know_what_is_shared(model, cohort, pool, table):
    other = EvolutionModel(cohort, pool, table, schedule=QUICK, shared=None)
    then, now = (fingerprint(m, m.engine.targets) for m in (other, model))
    assert differences(then, now) == ["what users share"]


def test_users_whom_nothing_was_learned_from_are_refused(cohort, pool, table):
    part = learn_shared(cohort.subset(["a", "b"]), "linear")
    with pytest.raises(InputError, match="wasn't learned from user 'c'"):
        EvolutionModel(cohort, pool, table, shared=part)


def test_what_users_share_is_learned_before_the_model():
    cohort = make_cohort(((4, 8),) * 6)
    rng = np.random.default_rng(1)
    targets = tuple(3 * x[:, 0] + rng.normal(0, 0.3, len(x)) for x in cohort.inputs)
    cohort = replace(cohort, targets=targets)
    pool = CandidatePool(["CONST", "LIN0"], dimension=1)
    model = EvolutionModel.from_cohort(cohort, pool, schedule=QUICK)
    assert model.shared.unexplained.total < 0.1
    options = {"priors": model.priors, "shared": model.shared}
    last, strata = (make(cohort, pool, **options) for make in (final_model, stratified_models))
    for other in (last, strata[1]):
        found, expected = other.engine.known_by_user, model.engine.known_by_user
        np.testing.assert_array_equal(found.mean, expected.mean)
    assert EvolutionModel(cohort, pool, schedule=QUICK).shared is None
    with pytest.raises(InputError, match=r"from_cohort\(cohort, pool, shared='auto'\)"):
        EvolutionModel(cohort, pool, shared="auto")


def test_a_given_mean_goes_all_the_way(cohort, pool, table, tmp_path):
    """From a function to what a file predicts with, which has no function any more."""
    model = EvolutionModel.from_cohort(
        cohort, pool, table, shared=FixedMean(lambda x: 0.7 * x[:, 0] - 0.2), schedule=QUICK
    )
    for u, x in enumerate(cohort.inputs):
        scaled = model.scaling.inputs(x)
        fixed = model.engine.known_by_user
        np.testing.assert_allclose(fixed.mean[u, : len(x)], 0.7 * scaled[:, 0] - 0.2, atol=0.01)
    learned = Evolutions.from_posterior(sample(model, **OPTIONS))
    learned.save(tmp_path / "evolutions.json")
    again = Evolutions.load(tmp_path / "evolutions.json")
    np.testing.assert_allclose(again.shared.mean(GRID), 0.7 * GRID[:, 0] - 0.2, atol=0.03)
