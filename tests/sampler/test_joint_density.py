import copy
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kem_pymc.data.datasets.simulate import covariance
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.model.engine import Engine
from kem_pymc.model.shared_functions import KnownByUser
from kem_pymc.sampler.joint_density import simulate, simulate_targets
from tests.statistical.geweke import SharedFunction
from tests.tiny_study import CONCENTRATION, make_cohort

PRIORS = {  # of natural values, as in the `table` fixture
    "amplitude": stats.lognorm(s=1),
    "lengthscale": stats.lognorm(s=1, scale=math.exp(0.2)),
    "period": stats.lognorm(s=0.25, scale=5),
    "shift": stats.norm(0.5, 1),
}
NOISE = [stats.lognorm(s=0.5, scale=math.exp(2)), stats.lognorm(s=1, scale=math.e)]


def conditional(covariance, y, known):
    """Mean and covariance of targets given the first `known` of y."""
    old, across = covariance[:known, :known], covariance[:known, known:]
    weights = np.linalg.solve(old, across).T
    return weights @ y[:known], covariance[known:, known:] - weights @ across


def joint_by_hand(cohort, pool, structure, hyperparameters, noise, sequential=False, shared=None):
    """The spec's joint density, written with dictionaries and scipy."""
    dps = defaultdict(lambda: defaultdict(list))
    for u, ends in enumerate(cohort.ends):
        parent = Composition()
        for t in range(len(ends)):
            dps[parent][structure[u, t, 0]].append((u, t))
            parent = pool.composition(structure[u, t, 1:])
    prior, likelihood = 0.0, 0.0
    for parent, clusters in dps.items():
        members = sum(len(m) for m in clusters.values())
        prior -= sum(math.log(CONCENTRATION + i) for i in range(members))
        for datasets in clusters.values():
            u, t = datasets[0]
            own = pool.composition(structure[u, t, 1:])
            prior += math.log(CONCENTRATION) + math.lgamma(len(datasets))
            for candidate in pool:
                p = 0.9 if candidate in parent else 0.02 if candidate.is_interaction else 0.1
                prior += math.log(p if candidate in own else 1 - p)
            values = dict(
                zip(
                    (theta.name for theta in pool.hyperparameters),
                    hyperparameters[u, t],
                    strict=True,
                )
            )
            for theta in own.hyperparameters:
                prior += PRIORS[theta.kind].logpdf(values[theta.name])
            below = NOISE[len(parent)] if len(parent) < 2 else stats.lognorm(s=2)
            prior += below.logpdf(noise[u, t])
            for user, step in datasets:
                n = cohort.ends[user][step]
                x = cohort.inputs[user][:n, 0]
                active = {theta.name: values[theta.name] for theta in own.hyperparameters}
                k = covariance(str(own), active, x, x) if len(own) else np.zeros((n, n))
                mean, points = np.zeros(n), cohort.inputs[user][:n]
                if shared is not None:
                    mean, k = shared.mean(points), k + shared.covariance(points, points)
                    k = k + np.diag(cohort.noise[user][:n] ** 2)
                    k = k + noise[u, t] * np.diag(shared.noise_factors(points) - 1)
                known = cohort.ends[user][step - 1] if sequential and step else 0
                y = cohort.targets[user][:n] - mean
                law = conditional(k + noise[u, t] * np.eye(n), y, known)
                likelihood += stats.multivariate_normal(*law).logpdf(y[known:])
    return prior, likelihood


def with_likelihood(engine, sequential):
    """The same study under either likelihood."""
    other = copy.copy(engine)
    other.__dict__.pop("study", None)
    other.sequential = sequential
    return other


@pytest.fixture(scope="module")
def sharing(cohort, pool, table):
    """An engine of users who share a mean, with known noise and noise that varies."""
    cohort = replace(cohort, noise=noise_of(cohort))
    fixed = KnownByUser.at([SharedFunction()] * cohort.n_users, cohort)
    return Engine(cohort, pool, table, CONCENTRATION, likelihood_power=1.0, known_by_user=fixed)


def noise_of(cohort):
    return tuple(np.linspace(0.0, 1.5, len(y)) for y in cohort.targets)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_known_is_in_the_likelihood(sharing, pool, seed):
    cohort = sharing.cohort
    arrays = sharing.simulate(np.random.default_rng(seed))
    _, likelihood = joint_by_hand(cohort, pool, *arrays, shared=SharedFunction())
    assert sharing.log_likelihood(arrays).sum() == pytest.approx(likelihood, abs=1e-8)
    assert sharing.log_likelihood(arrays, sharing.targets).sum() == pytest.approx(likelihood)


def test_targets_are_simulated_around_what_is_known(sharing):
    # Of noise alone: the covariance by hand is that of the mean function plus the noise's.
    arrays = sharing.simplest()
    rng = np.random.default_rng(0)
    drawn = np.array([sharing.simulate_targets(arrays, rng)[0, 2] for _ in range(4000)])
    x, own = sharing.cohort.inputs[0], sharing.cohort.noise[0]
    varying = arrays[2][0, 2] * SharedFunction().noise_factors(x)
    expected = SharedFunction().covariance(x, x) + np.diag(varying + own**2)
    z = np.linalg.solve(np.linalg.cholesky(expected), (drawn - SharedFunction().mean(x)).T)
    error = 1 / math.sqrt(4000)
    assert np.abs(z.mean(axis=1)).max() < 4 * error
    assert np.abs(z @ z.T / 4000 - np.eye(6)).max() < 6 * error


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_densities_equal_those_by_hand(engine, cohort, pool, seed, sequential):
    engine = with_likelihood(engine, sequential)
    arrays = engine.simulate(np.random.default_rng(seed))
    structure, hyperparameters, noise = arrays
    prior, likelihood = joint_by_hand(cohort, pool, *arrays, sequential)
    ours = (
        engine.log_structure(structure)
        + engine.log_hyperparameters(structure, hyperparameters)
        + engine.log_noise(structure, noise)
    )
    assert ours == pytest.approx(prior, abs=1e-8)
    assert engine.log_likelihood(arrays).sum() == pytest.approx(likelihood, abs=1e-8)


@pytest.mark.parametrize("sequential", [False, True])
def test_running_density_is_the_joint_density_of_logs(engine, cohort, pool, sequential):
    engine = with_likelihood(engine, sequential)
    arrays = engine.simulate(np.random.default_rng(5))
    structure, hyperparameters, noise = arrays
    prior, likelihood = joint_by_hand(cohort, pool, *arrays, sequential)
    first = np.unique(structure[..., 0][structure[..., 0] >= 0])
    places = np.unravel_index(first, engine.shape)
    positive = pool.layout.positive
    jacobian = np.nansum(np.log(hyperparameters[places][:, positive]))
    jacobian += np.log(noise[places]).sum()
    running = engine.load(engine.model, *arrays).log_density[0]
    assert running == pytest.approx(prior + likelihood + jacobian, abs=1e-8)


def test_arrays_that_no_state_has_get_density_zero(engine):
    structure, hyperparameters, noise = engine.simulate(np.random.default_rng(1))
    assert np.isfinite(engine.log_structure(structure))
    own_label = structure.copy()
    own_label[1, 0, 0] = 4  # a label points to the first member, which can't come later
    assert engine.log_structure(own_label) == -np.inf
    split = structure.copy()
    d = np.argwhere(split[..., 0] != np.arange(9).reshape(3, 3))
    u, t = next((u, t) for u, t in d if split[u, t, 0] >= 0)
    split[u, t, 1] ^= 1  # members of one cluster with different compositions
    assert engine.log_structure(split) == -np.inf
    other = noise.copy()
    other[u, t] *= 2
    assert engine.log_noise(structure, other) == -np.inf
    assert engine.log_noise(structure, -noise) == -np.inf
    assert engine.log_hyperparameters(structure, np.nan_to_num(hyperparameters, nan=1)) == -np.inf


@pytest.fixture(scope="module")
def many(pool, table):
    """Prior draws of 12 users at 2 time steps."""
    cohort = make_cohort(ends=((1, 2),) * 8)
    engine = Engine(cohort, pool, table, concentration=CONCENTRATION, likelihood_power=0.0)
    rng = np.random.default_rng(0)
    return engine, [simulate(engine.prior_model, rng) for _ in range(3000)]


def test_simulated_structure_has_the_moments_of_the_process(many):
    engine, states = many
    first = engine.model.time_step == 0
    clusters = np.array([len(np.unique(s.assignment[first])) for s in states])
    expected = sum(CONCENTRATION / (CONCENTRATION + i) for i in range(8))
    error = clusters.std() / math.sqrt(len(states))
    assert abs(clusters.mean() - expected) < 4 * error
    included = np.array([s.included[s.assignment[0]] for s in states])
    for c, p in enumerate([0.1, 0.1, 0.02]):
        assert abs(included[:, c].mean() - p) < 4 * math.sqrt(p * (1 - p) / len(states))


def test_a_child_keeps_what_its_parent_has(many):
    # Below an empty parent a dataset may sit with its own past, which tells of the parent.
    engine, states = many
    d = engine.model.first_dataset[0]
    kept, entered = [], []
    for s in states:
        before, after = s.included[s.assignment[d]], s.included[s.assignment[d + 1]]
        kept += list(after[before])
        entered += list(after[:2][~before[:2]]) if before.any() else []
    assert abs(np.mean(kept) - 0.9) < 4 * math.sqrt(0.09 / len(kept))
    assert abs(np.mean(entered) - 0.1) < 4 * math.sqrt(0.09 / len(entered))


def test_noise_depends_on_the_size_of_the_parent(many):
    _, states = many
    by_size = defaultdict(list)
    for s in states[:1500]:
        for cluster in s.live[: s.sizes[0]]:
            by_size[int(s.parent[s.dp[cluster]].sum())].append(s.log_noise[cluster])
    for size, (mean, sd) in {0: (2, 0.5), 1: (1, 1)}.items():
        draws = np.array(by_size[size])
        assert stats.kstest(draws, stats.norm(mean, sd).cdf).pvalue > 1e-3


def test_simulated_targets_have_the_covariance_of_the_kernel(engine, pool):
    structure, hyperparameters, noise = engine.simplest()
    structure[..., 1] = 1
    active = pool.active(np.array([True, False, False]))
    values = np.array([0.7, 0.4])
    hyperparameters[engine.present] = np.where(active, 0.0, np.nan)
    hyperparameters[..., :2][engine.present] = values
    # All datasets in one cluster would have to share a process: give each its parent's.
    structure[:, 1:, 0] = np.where(structure[:, 1:, 0] >= 0, 1, -1)
    state = engine.load(engine.prior_model, structure, hyperparameters, noise)
    rng = np.random.default_rng(2)
    draws = np.array([simulate_targets(engine.prior_model, state, rng) for _ in range(6000)])
    x = engine.cohort.inputs[0][:6, 0]
    expected = 0.7 * np.outer(x - 0.4, x - 0.4) + noise[0, 0] * np.eye(6)
    sample = draws[:, 0, 2].T @ draws[:, 0, 2] / len(draws)
    error = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / len(draws))
    assert (np.abs(sample - expected) < 4.5 * error).all()
    assert abs(np.mean(draws[:, 0, 1, 0] * draws[:, 0, 2, 0])) < 4 * error[0, 0]


def test_sequential_targets_are_drawn_given_those_before(engine):
    """Of kernels that change, so that a past under another kernel, or none, would be noticed."""
    engine = with_likelihood(engine, True)
    structure, hyperparameters, noise = engine.simplest()
    structure[:, :, 0] = np.where(engine.present, np.arange(9).reshape(3, 3), -1)
    structure[:, 1:, 1] = engine.present[:, 1:]  # WHITE, then LIN0 with another noise every time
    hyperparameters[:, 1:, :2][engine.present[:, 1:]] = [0.7, 0.4]
    noise *= np.array([1.0, 0.3, 0.05])
    rng = np.random.default_rng(2)
    state = engine.load(engine.model, structure, hyperparameters, noise)
    draws = np.array([simulate_targets(engine.model, state, rng)[0] for _ in range(6000)])
    for t in (1, 2):  # a dataset begins with the one before, exactly
        known = engine.cohort.ends[0][t - 1]
        np.testing.assert_array_equal(draws[:, t, :known], draws[:, t - 1, :known])
    x = engine.cohort.inputs[0][:6, 0]
    expected = noise[0, 0] * np.eye(2)
    for t, n in ((1, 4), (2, 6)):
        k = 0.7 * np.outer(x[:n] - 0.4, x[:n] - 0.4) + noise[0, t] * np.eye(n)
        weights = np.linalg.solve(k[: n - 2, : n - 2], k[: n - 2, n - 2 :]).T
        rest = conditional(k, np.zeros(n), n - 2)[1]
        across = expected @ weights.T
        expected = np.block([[expected, across], [across.T, weights @ across + rest]])
    sample = draws[:, 2].T @ draws[:, 2] / len(draws)
    error = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / len(draws))
    assert (np.abs(sample - expected) < 4.5 * error).all()


def test_sequential_targets_have_to_agree(engine):
    y = with_likelihood(engine, True).targets.copy()
    y[0, 1, 0] += 1.0
    with pytest.raises(InputError, match="begin with those of the"):
        with_likelihood(engine, True).with_targets(y)
    assert not with_likelihood(engine, False).with_targets(y).data.nested
