"""Laplace's approximation of clusters, and the memory of those made already."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import f, kstest, multivariate_t

from kem_pymc.gp.problem import evaluate
from kem_pymc.sampler.fit_cache import no_fits
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves.fits import (
    ENOUGH,
    RIDGE,
    draw_values,
    fit_cluster,
    log_density,
    problem_of,
)
from kem_pymc.sampler.moves.sweep import CUT, start, sweep
from kem_pymc.sampler.state import cluster_log_likelihood, cluster_log_prior
from tests.sampler.moves.by_hand import seated
from tests.states import copy_state


@pytest.fixture(
    params=[(True, False), (False, False), (True, True)],
    ids=["prefixes", "independent", "sequential"],
)
def crowded(engine, request):
    """A cluster with several datasets of several users, targets nested or not."""
    data = engine.model.data
    nested, sequential = request.param
    model = engine.model._replace(
        data=data._replace(y=data.y.copy(), nested=nested, sequential=sequential),
        fits=no_fits(len(engine.model.user), len(engine.pool)),
    )
    if not nested:
        model.data.y[:] = np.random.default_rng(5).normal(size=model.data.y.shape)
    structure, hyperparameters, noise = engine.simplest()
    structure[:, 0, 1] = engine.present[:, 0]  # all first datasets share LIN0, the rest
    structure[:, 1:, 0] = np.where(engine.present[:, 1:], 1, -1)  # share WHITE below it
    hyperparameters[:, 0, :2] = [1.3, 0.4]
    structure[:, 2:, 0] = np.where(engine.present[:, 2:], 2, -1)
    state = engine.load(model, structure, hyperparameters, noise)
    return model, state, state.assignment[0]


def test_fits_are_about_the_members(crowded):
    model, state, cluster = crowded
    parent, included = state.parent[state.dp[cluster]], state.included[cluster]
    problem = problem_of.py_func(model, state.assignment == cluster, included, parent)
    values = np.append(state.theta_unconstrained[cluster][problem.places], state.log_noise[cluster])
    likelihood, density = evaluate(problem, values, np.empty(len(values)))
    out = np.empty(3)
    expected = 0.0
    for d in np.flatnonzero(state.assignment == cluster):
        user, step, counts = model.user[d], model.time_step[d], np.zeros(2, dtype=np.int64)
        cluster_log_likelihood(model, state, cluster, user, step + 1, out, counts)
        expected += out[step]
    assert likelihood == pytest.approx(expected, rel=1e-12)
    kernel = cluster_log_prior(model, state, cluster)
    stay = math.log(0.1) + math.log(0.9) + math.log(0.98)  # LIN0 in; SE0, LIN0 x PER0 out
    assert density + stay == pytest.approx(kernel, rel=1e-12)


@pytest.mark.integration
def test_proposals_of_fits_have_the_density_that_is_said(crowded):
    model, state, cluster = crowded
    parent = state.parent[state.dp[cluster]]
    included = np.array([False, True, False])
    _, mode, factor = fit_cluster(model, state, cluster, included, parent)
    upper = np.triu(factor)
    shape = np.linalg.inv(upper.T @ upper)
    expected = multivariate_t(mode, shape, df=5)
    rng = np.random.default_rng(0)
    draws = np.array([draw_values(mode, factor, rng) for _ in range(4000)])
    for values in draws[:20]:
        assert log_density(mode, factor, values) == pytest.approx(expected.logpdf(values))
    distance = np.einsum("ij,ij->i", (draws - mode) @ np.linalg.inv(shape), draws - mode)
    assert kstest(distance / len(mode), f(len(mode), 5).cdf).pvalue > 1e-3


def test_the_mode_and_the_curvature_are_those_of_the_joint_density(engine, crowded):
    """By finite differences of the density from scratch, for another composition.

    A member left out, counted twice, or a prior's term that is missing, changes the curvature by
    more than a tenth; no refit would be wrong then, but hardly any accepted.
    """
    model, _, _ = crowded
    state = seated(engine, ["aaa", "aa", "aab"], {"a": [], "b": ["LIN0"]}, model=model)
    cluster = state.assignment[0]
    included = np.array([False, True, False])
    parent = state.parent[state.dp[cluster]]
    _, mode, factor = fit_cluster(model, state, cluster, included, parent)
    upper = np.triu(factor)
    places, trial = [2, 3], copy_state(state)
    trial.included[cluster] = included

    def density(values):
        trial.theta_unconstrained[cluster, places], trial.log_noise[cluster] = values[:2], values[2]
        return log_joint(model, trial)

    steps = 1e-3 * np.eye(3)
    gradient = np.array([density(mode + s) - density(mode - s) for s in steps]) / 2e-3
    hessian = np.empty((3, 3))
    for i, j in product(range(3), repeat=2):
        corners = [
            a * b * density(mode + a * steps[i] + b * steps[j]) for a in (1, -1) for b in (1, -1)
        ]
        hessian[i, j] = sum(corners) / 4e-6
    ridge = RIDGE / np.append(model.priors.scale[places], 1.0) ** 2
    curvature = upper.T @ upper - np.diag(ridge)
    np.testing.assert_allclose(curvature, -hessian, rtol=0.01, atol=0.02)
    assert 0.5 * gradient @ np.linalg.solve(curvature, gradient) < ENOUGH


def test_another_question_gets_another_fit(crowded):
    model, state, cluster = crowded
    parent = state.parent[state.dp[cluster]]
    included = np.array([False, True, False])
    fitted = fit_cluster(model, state, cluster, included, parent)[1]
    other = next(s for s in state.live[: state.sizes[0]] if s != cluster)
    assert not np.array_equal(fit_cluster(model, state, other, included, parent)[1], fitted)
    assert not np.array_equal(fit_cluster(model, state, cluster, included, ~parent)[1], fitted)
    model.data.y[:] *= 1.5
    assert not np.array_equal(fit_cluster(model, state, cluster, included, parent)[1], fitted)
    model.data.y[:] /= 1.5
    model.data.y[:2, ..., 0] *= -1  # catches digests in which an even number of signs cancels
    assert not np.array_equal(fit_cluster(model, state, cluster, included, parent)[1], fitted)
    model.data.y[:2, ..., 0] *= -1


def test_draws_do_not_depend_on_what_is_remembered(engine):
    schedule = CUT._replace(n_mh=5, refits=8)
    densities = []
    for forgetful in (False, True):
        rng = np.random.default_rng(3)
        model = engine.model
        model.fits.data[:] = 0.0
        state = start(model, schedule, rng)
        for _ in range(20):
            if forgetful:
                model.fits.data[:] = 0.0
            sweep(model, state, schedule, rng)
        densities.append((state.log_density[0], int(state.factorisations[0])))
    assert densities[0][0] == densities[1][0]
    assert densities[0][1] < densities[1][1]
