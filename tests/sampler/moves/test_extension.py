"""A factor more or less: what may become of a candidate, what is kept, and with what density."""

import math

import numpy as np
import pytest

from kem_pymc.gp.covariance import covariance
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves import component, extension
from kem_pymc.sampler.moves.extension import (
    COPY_SHARE,
    JITTER,
    draw_factor,
    extensions,
    is_product,
    keep_shared,
    log_factor,
)
from kem_pymc.sampler.moves.sweep import check_density
from tests.sampler.moves.by_hand import (
    factors,
    included,
    log_jitter,
    places,
    prior,
    same_state,
    seated,
)
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state

PRODUCTS = ["LIN0 x PER0", "PER0 x PER0", "PER0 x SE0", "LIN0 x LIN0"]
POOL = CandidatePool(["LIN0", "PER0", "SE0", *PRODUCTS, "CONST"])


@pytest.fixture(scope="module")
def large(cohort, table):
    return Engine(cohort, POOL, table, concentration=1.3, likelihood_power=1.0)


def choices(pool, composition, candidate):
    found = extensions(pool.layout, included(pool, *composition), pool.names.index(candidate))
    return [pool.names[other] for other, _ in found]


def test_what_differs_by_one_factor():
    more = ["LIN0 x PER0", "LIN0 x LIN0", "LIN0 x LIN0"]
    assert choices(POOL, ["LIN0"], "LIN0") == [*more, "CONST"]
    assert choices(POOL, ["CONST", "LIN0"], "LIN0") == more
    assert choices(POOL, ["CONST"], "CONST") == ["LIN0", "PER0", "SE0"]  # a level is no factor
    assert choices(POOL, ["LIN0 x PER0"], "LIN0 x PER0") == ["LIN0", "PER0"]
    assert choices(POOL, ["LIN0", "LIN0 x PER0"], "LIN0 x PER0") == ["PER0"]
    assert choices(POOL, ["PER0 x PER0"], "PER0 x PER0") == ["PER0", "PER0"]


def test_factors_in_other_dimensions_are_others():
    pool = CandidatePool(["SE0", "SE1", "SE0 x PER1", "SE0 x SE1"], dimension=2)
    assert choices(pool, ["SE0"], "SE0") == ["PER1 x SE0", "ARD"]
    assert choices(pool, ["SE1"], "SE1") == ["ARD"]


def test_every_choice_can_be_undone():
    layout = POOL.layout
    for c in range(len(POOL)):
        own = np.zeros(len(POOL), dtype=bool)
        own[c] = True
        for other, factor in extensions(layout, own, c):
            back = np.zeros(len(POOL), dtype=bool)
            back[other] = True
            assert [c, factor] in extensions(layout, back, other).tolist()
            assert is_product(layout, c, factor, other) != is_product(layout, other, factor, c)


def test_what_is_kept_comes_back():
    layout, rng = POOL.layout, np.random.default_rng(0)
    for c in range(len(POOL)):
        alone = np.zeros(len(POOL), dtype=bool)
        alone[c] = True
        own = slice(layout.hyper_start[c], layout.hyper_start[c + 1])
        for other, factor in extensions(layout, alone, c):
            before = rng.normal(size=len(layout.positive))
            values = before.copy()
            keep_shared(layout, c, other, factor, values)
            np.testing.assert_array_equal(values[own], before[own])
            values[own] = np.nan
            dropped = layout.factor_hyper[factor] + np.arange(layout.factor_size[factor])
            if is_product(layout, c, factor, other):
                values[dropped] = before[dropped]  # as the move draws them on the way back
            keep_shared(layout, other, c, factor, values)
            np.testing.assert_array_equal(values[own], before[own])


def test_a_flat_factor_changes_nothing(large):
    pool, layout = large.pool, large.pool.layout
    source, target = pool.names.index("SE0"), pool.names.index("PER0 x SE0")
    own = included(pool, "SE0")
    (factor,) = (f for other, f in extensions(layout, own, source) if other == target)
    theta = np.zeros(len(pool.hyperparameters))
    theta[layout.hyper_start[source] : layout.hyper_start[source] + 2] = [0.7, -0.3]
    theta[layout.factor_hyper[factor]] = 12.0  # the log of PER's lengthscale
    keep_shared(layout, source, target, factor, theta)
    x = np.linspace(0, 3, 7)[None]
    before, after = np.empty((2, 7, 7))
    for active, out in ((source, before), (target, after)):
        covariance(kernels(), layout, np.array([active]), theta, x, out, np.empty((7, 7)))
    upper = np.triu_indices(7)
    np.testing.assert_allclose(after[upper], before[upper], rtol=1e-9)


@pytest.mark.integration
def test_the_density_of_a_factor_is_that_of_its_draws(large):
    model = large.model
    factor = int(model.layout.factor_start[large.pool.names.index("PER0 x SE0")])
    place = model.layout.factor_hyper[factor]
    rng = np.random.default_rng(1)
    theta = np.zeros((2, len(model.layout.positive)))
    theta[0, place : place + 2] = [1.1, 1.4]
    drawn = np.empty((20_000, 2))
    for i in range(len(drawn)):
        draw_factor(model, factor, theta, 0, 1, rng)
        drawn[i] = theta[1, place : place + 2]
    width = 2 * JITTER * model.priors.scale[place : place + 2]
    near = (np.abs(drawn - theta[0, place : place + 2]) < width).all(1).mean()
    # Midpoint rule over the same box.
    offsets = (np.arange(40) + 0.5) / 20 - 1
    total = 0.0
    for a in offsets:
        for b in offsets:
            theta[1, place : place + 2] = theta[0, place : place + 2] + width * [a, b]
            total += math.exp(log_factor(model, factor, theta, 0, 1))
    expected = total * np.prod(width / 20)
    assert near == pytest.approx(expected, abs=4 * math.sqrt(expected / len(drawn)))
    assert near > COPY_SHARE * 0.9  # most copies are there
    prior = log_factor(model, factor, theta, 1, 1)
    entries = model.priors.entry[place : place + 2]
    by_hand = sum(
        model.priors.log_density(int(e), v, model.priors.population)
        for e, v in zip(entries, theta[1, place : place + 2], strict=True)
    )
    assert prior == pytest.approx(by_hand, rel=1e-12)


#: The component of a has S = {a, e} and D = {b, d}.
LABELS = ["abc", "ad", "ebc"]
OTHERS = {"b": ["SE0"], "c": ["LIN0 x PER0"], "d": ["PER0"]}


@pytest.mark.parametrize("joint", [False, True], ids=["cut", "joint"])
@pytest.mark.parametrize(
    ("names", "leaving", "entering", "number", "there", "back"),
    [
        # Where it is among the choices, how many these are, and how many there are on the way back.
        (["LIN0", "SE0"], "LIN0", "LIN0 x PER0", 0, 4, 2),
        (["LIN0", "LIN0 x LIN0"], "LIN0", "CONST", 1, 2, 3),
        (["SE0", "LIN0"], "SE0", "PER0 x SE0", 0, 2, 2),
        (["LIN0", "PER0 x SE0"], "PER0 x SE0", "PER0", 0, 2, 5),
        (["CONST"], "CONST", "SE0", 2, 3, 2),
    ],
)
def test_ratios_are_those_of_the_joint_density_there_and_back(
    large, interpret, monkeypatch, names, leaving, entering, number, there, back, joint
):
    """Also without the number of choices, or with the factor's density inverted, this would fail.

    The density of the factor is here by hand: the prior in the first cluster, half a copy of the
    first one's values in the second.
    """
    pool, model = large.pool, large.model._replace(power=0.7)
    new = [c for c in [*names, entering] if c != leaving]
    found = choices(pool, names, leaving)
    returns = choices(pool, new, entering)
    assert (len(found), found.index(entering), len(returns)) == (there, number, back)
    interpret(extension, component, state=True)
    state = seated(large, LABELS, {"a": names, "e": names, **OTHERS}, model=model, seed=1)
    before, cluster = copy_state(state), state.assignment[0]
    _, changed, moved = component.component(model, state, cluster, joint)
    clusters = np.flatnonzero(changed)

    def uniforms(own, name, k, n):
        row = [c for c in pool.names if c in own]
        return [(row.index(name) + 0.5) / len(row), (k + 0.5) / n]

    rng = Decisions(1, uniforms=uniforms(names, leaving, number, there))
    assert extension.extend_or_contract(model, state, cluster, joint, rng)
    after = copy_state(state)
    check_density(model, state)
    np.testing.assert_array_equal(state.included[clusters], [included(pool, *new)] * len(clusters))
    counted = np.column_stack([after.proposed - before.proposed, after.accepted - before.accepted])
    assert counted[extension.EXTEND].tolist() == [1, 1]
    assert counted.sum() == 2

    expected = log_joint(model, after) - log_joint(model, before) + math.log(there / back)
    one, other = pool.names.index(leaving), pool.names.index(entering)
    shorter, longer = sorted((one, other), key=lambda c: len(places(large, c)))
    kept = {factor.base for factor, *_ in factors(large, shorter)}
    (factor,) = (range(s, s + n) for f, s, n in factors(large, longer) if f.base not in kept)
    values = (after if longer == other else before).theta_unconstrained
    for k, s in enumerate(clusters):
        log_q = sum(prior(large, p).logpdf(values[s, p]) for p in factor)
        if k > 0:
            around = values[clusters[0], list(factor)]
            log_copy = log_jitter(large, factor, values[s], around, 0.3)
            log_q = np.logaddexp(log_q, log_copy) - math.log(2)
        expected += -log_q if longer == other else log_q
    assert rng.log_ratios == pytest.approx([expected], abs=1e-8)

    rows = np.flatnonzero(changed | moved)

    def draw_what_was(_model, _factor, theta, _first, row, _rng):
        theta[row, list(factor)] = before.theta_unconstrained[rows[row], list(factor)]

    monkeypatch.setattr(extension, "draw_factor", draw_what_was)
    reverse = Decisions(0, uniforms=uniforms(new, entering, returns.index(leaving), back))
    assert extension.extend_or_contract(model, state, cluster, joint, reverse)
    assert same_state(before, state)
    np.testing.assert_allclose(
        state.theta_unconstrained[clusters][:, list(places(large, one))],
        before.theta_unconstrained[clusters][:, list(places(large, one))],
    )
    assert reverse.log_ratios[0] + rng.log_ratios[0] == pytest.approx(0, abs=1e-8)
