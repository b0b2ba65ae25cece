"""Compositions with fitted values."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_t

from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves import component, refit
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.fits import fit_cluster
from kem_pymc.sampler.moves.refit import FEW, MOST, chance_of_fit_to_members, refit_composition
from kem_pymc.sampler.moves.sweep import check_density
from kem_pymc.sampler.state import detach
from tests.sampler.moves.by_hand import ODDS, included, same_state, seated
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state
from tests.tiny_study import make_cohort


def test_fits_to_many_points_are_proposed_less_often(pool, table):
    cohort = make_cohort(ends=((20, 50), (60,), (22,)))
    engine = Engine(cohort, pool, table, 1.0, 1.0)
    structure, hyperparameters, noise = engine.simplest()
    state = engine.load(engine.model, structure, hyperparameters, noise)

    def chance(dataset):
        return chance_of_fit_to_members(engine.model, state, state.assignment[dataset])

    # The first datasets of all are in one cluster, the second one of the first user with them.
    assert chance(0) == pytest.approx(20_000 / (50**3 + 60**3 + 22**3))
    assert chance(0) == chance(1) == chance(2) == chance(3)
    detach(engine.model, state, 2)
    assert chance(0) == pytest.approx(20_000 / (50**3 + 22**3))
    detach(engine.model, state, 1)
    assert chance(0) == 1.0


@pytest.mark.integration
def test_compositions_of_many_candidates_are_refitted_less_often(table):
    pool = CandidatePool(["LIN0", *(f"SE{d}" for d in range(MOST + 1))], dimension=MOST + 1)
    rng = np.random.default_rng(0)
    x = [rng.uniform(size=(4, MOST + 1)) for _ in range(3)]
    y = [rng.normal(size=4) for _ in x]
    cohort = Cohort(range(3), x, y, [np.array([2, 4])] * 3, [f"x{d}" for d in range(MOST + 1)])
    engine = Engine(cohort, pool, table, 1.0, 1.0)
    structure, hyperparameters, noise = engine.simplest()
    n, odds = 400, Odds(add=0.0, remove=0.5, swap=0.5, edge=1.0)
    for size, fitted in ((FEW, 1.0), (2 * FEW, 0.25), (MOST + 1, 0.0)):
        structure[..., 1 : size + 1] = 1
        hyperparameters[..., : 2 * size] = 0.5
        state = engine.load(engine.model, structure, hyperparameters, noise)
        there, kept = copy_state(state), 0
        for _ in range(n):
            engine.model.fits.data[:] = 0.0
            before = state.factorisations[0]
            refit_composition(engine.model, state, state.assignment[0], False, odds, rng)
            kept += state.factorisations[0] > before
            for array, value in zip(state, there, strict=True):
                array[...] = value
        error = np.sqrt(fitted * (1 - fitted) * n)
        assert abs(kept - fitted * n) <= 4.5 * error, size


#: The component of a has S = {a, e} and D = {b, d}; under cut, e is outside it.
LABELS = ["abc", "ad", "ebc"]
OTHERS = {"b": ["SE0"], "c": ["LIN0", "LIN0 x PER0"], "d": ["LIN0"]}


def log_choice(own, wanted, others):
    """Return the log probability of choosing `wanted`, of three candidates, by hand."""
    size = len(own)
    add, remove, swap = ODDS[:3]
    if size in (0, 3):
        add, remove, swap = (ODDS.edge, 0, 0) if size == 0 else (0, ODDS.edge, 0)
    left, entered = len(set(own) - set(wanted)), len(set(wanted) - set(own))
    near = {(0, 1): add / max(3 - size, 1), (1, 0): remove / max(size, 1)}
    near[1, 1] = swap / max(size * (3 - size), 1)
    copies = np.mean([set(other) == set(wanted) for other in others])
    probability = near.get((left, entered), 0.0) / (add + remove + swap)
    return math.log(0.5 * probability + 0.5 * copies)


@pytest.mark.parametrize("joint", [False, True], ids=["cut", "joint"])
@pytest.mark.parametrize(
    ("names", "new", "copied"),
    [
        (["LIN0"], ["SE0"], True),
        (["LIN0"], ["SE0"], False),
        ([], ["SE0"], True),
        (["SE0"], ["LIN0", "LIN0 x PER0"], True),
        (["SE0"], ["LIN0", "SE0"], False),
        (["LIN0", "SE0", "LIN0 x PER0"], ["LIN0", "LIN0 x PER0"], False),
    ],
)
def test_ratios_are_those_of_the_joint_density_there_and_back(
    engine, interpret, monkeypatch, names, new, copied, joint
):
    """Also the choice of a composition, which there are two ways to make, and both fits."""
    interpret(refit, component, state=True)
    model = engine.model._replace(power=0.7)
    state = seated(engine, LABELS, {"a": names, "e": names, **OTHERS}, model=model, seed=1)
    before, cluster = copy_state(state), state.assignment[0]
    _, changed, _ = component.component(model, state, cluster, joint)
    clusters = np.flatnonzero(changed)
    outside = [s for s in state.live[: state.sizes[0]] if not changed[s]]
    others = [np.array(engine.pool.names)[before.included[s]] for s in outside]
    assert len(others) == (3 if joint else 4)

    def draws(wanted, copied):
        """Uniform draws: no fit is dropped; then whether to copy, and which of the others."""
        which = next((k for k, o in enumerate(others) if set(o) == set(wanted)), 0)
        return [0.0, 0.1 if copied else 0.9, *([(which + 0.5) / len(others)] if copied else [])]

    def change(own, wanted):
        """Let the neighbour be the one that is wanted."""
        places = [
            next((engine.pool.names.index(c) for c in a if c not in b), -1)
            for a, b in ((own, wanted), (wanted, own))
        ]
        monkeypatch.setattr(refit, "neighbour", lambda *_: (*places, 0.0))

    change(names, new)
    rng = Decisions(2, uniforms=draws(new, copied))
    assert refit.refit_composition(model, state, cluster, joint, ODDS, rng)
    after = copy_state(state)
    check_density(model, state)
    np.testing.assert_array_equal(
        state.included[clusters], [included(engine.pool, *new)] * len(clusters)
    )

    def log_fit(there, s):
        """Return Student's density of a cluster's values there, around the fit made there."""
        parent = there.parent[there.dp[s]]
        spots, mode, factor = fit_cluster(model, there, s, there.included[s], parent)
        upper = np.triu(factor)
        values = np.append(there.theta_unconstrained[s][spots], there.log_noise[s])
        return multivariate_t(mode, np.linalg.inv(upper.T @ upper), df=5).logpdf(values)

    expected = log_joint(model, after) - log_joint(model, before)
    expected += log_choice(new, names, others) - log_choice(names, new, others)
    expected += sum(log_fit(before, s) - log_fit(after, s) for s in clusters)
    (there,) = rng.log_ratios
    assert there == pytest.approx(expected, abs=1e-8)

    left = iter(clusters)

    def draw_what_was(centre, _factor, _rng):
        s = next(left)
        spots = np.flatnonzero(np.repeat(before.included[s], np.diff(model.layout.hyper_start)))
        assert len(centre) == len(spots) + 1
        return np.append(before.theta_unconstrained[s][spots], before.log_noise[s])

    monkeypatch.setattr(refit, "draw_values", draw_what_was)
    change(new, names)
    # Where no neighbour is the way back, a copy is.
    far = len(set(names) ^ set(new)) > 2
    reverse = Decisions(0, uniforms=draws(names, far))
    assert refit.refit_composition(model, state, cluster, joint, ODDS, reverse)
    assert same_state(before, state)
    assert reverse.log_ratios[0] + there == pytest.approx(0, abs=1e-8)
