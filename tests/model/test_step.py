"""The step method: where it starts, and what its draws depend on."""

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import Competence

from kem_pymc._system.executors import Serial
from kem_pymc.errors import InputError
from kem_pymc.model.step import NAMES, EvolutionStep
from kem_pymc.sampler.moves.sweep import CUT


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


@pytest.mark.integration
def test_a_given_initial_point_is_kept_and_the_default_one_replaced(model):
    """Fails where a point with the default's values, given by a user, counts as the default."""
    still = CUT._replace(seating=0, n_mh=0, refits=0, split_merge=0)
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


def test_compiling_a_step_leaves_it_as_it_was(model):
    with model:
        step, same = EvolutionStep(rng=5), EvolutionStep(rng=5)
    step.compile(Serial())
    one, _ = step.step(step.start_point)
    other, _ = same.step(same.start_point)
    for name in NAMES:
        np.testing.assert_array_equal(one[name], other[name])


def test_the_step_is_ideal_for_its_variables_only(model):
    for rv in model.free_RVs:
        assert EvolutionStep.competence(rv, False) == Competence.IDEAL
    assert EvolutionStep.competence(pm.Normal.dist(), True) == Competence.INCOMPATIBLE
