"""The joint density doesn't depend on the order of users, nor on the labels of clusters."""

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_joint
from tests.states import copy_state
from tests.tiny_study import CONCENTRATION, cohort, engine, pool, table  # noqa: F401  fixtures

pytestmark = pytest.mark.statistical


def relabelled(structure, order):
    """Return a structure with users in another order, and its labels those of first members."""
    structure = structure[order].copy()
    labels = structure[..., 0].ravel()
    flat = labels.tolist()
    structure[..., 0] = np.reshape([flat.index(v) if v >= 0 else -1 for v in flat], (3, 3))
    return structure


@pytest.mark.parametrize("seed", range(4))
def test_order_of_users_does_not_matter(engine, pool, table, seed):  # noqa: F811
    rng = np.random.default_rng(seed)
    structure, hyperparameters, noise = engine.simulate(rng)
    order = np.array([[1, 2, 0], [2, 1, 0], [0, 2, 1], [2, 0, 1]][seed])
    before = engine.cohort
    shuffled = Cohort(
        users=tuple(before.users[u] for u in order),
        inputs=tuple(before.inputs[u] for u in order),
        targets=tuple(before.targets[u] for u in order),
        ends=tuple(before.ends[u] for u in order),
        features=before.features,
    )
    other = Engine(shuffled, pool, table, CONCENTRATION, likelihood_power=1.0)
    arrays = relabelled(structure, order), hyperparameters[order], noise[order]
    exact = log_joint(engine.model, engine.load(engine.model, structure, hyperparameters, noise))
    assert log_joint(other.model, other.load(other.model, *arrays)) == pytest.approx(
        exact, abs=1e-8
    )


def test_labels_of_clusters_do_not_matter(engine):  # noqa: F811
    rng = np.random.default_rng(3)
    state = engine.load(engine.model, *engine.simulate(rng))
    exact = log_joint(engine.model, state)
    order = rng.permutation(len(state.occupants))  # new cluster s holds what order[s] held
    new_name = np.argsort(order)
    permuted = copy_state(state)
    for name in ("occupants", "dp", "included", "theta_unconstrained", "log_noise", "log_prior"):
        getattr(permuted, name)[:] = getattr(state, name)[order]
    permuted.log_likelihood[:] = state.log_likelihood[order]
    permuted.valid[:] = state.valid[order]
    permuted.assignment[:] = new_name[state.assignment]
    n_live = state.sizes[0]
    permuted.live[:n_live] = new_name[state.live[:n_live]]
    permuted.place[permuted.live[:n_live]] = np.arange(n_live)
    assert (permuted.assignment != state.assignment).any()
    assert log_joint(engine.model, permuted) == pytest.approx(exact, abs=1e-10)
