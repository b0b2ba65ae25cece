import numpy as np
import pymc as pm
import pytest

from kem_pymc.diagnostics.representative import (
    best_partition,
    expected_information,
    representative,
)
from kem_pymc.errors import InputError
from tests.diagnostics.conftest import posterior_of

SAMPLING = {"progressbar": False, "compute_convergence_checks": False}


def partitions(n):
    """Yield all partitions of n items as restricted growth strings."""

    def grow(prefix):
        if len(prefix) == n:
            yield np.array(prefix)
            return
        for k in range(max(prefix) + 2):
            yield from grow([*prefix, k])

    yield from grow([0])


def co_clustering(draws):
    return np.mean([d[:, None] == d for d in draws], axis=0)


def entropy(label):
    share = np.bincount(label) / len(label)
    return -sum(p * np.log2(p) for p in share if p > 0)


def variation_of_information(a, b):
    return 2 * entropy(a * 100 + b) - entropy(a) - entropy(b)


def test_of_a_single_draw_it_is_the_variation_of_information_itself():
    true = np.array([0, 0, 1, 1, 2])
    together = co_clustering([true])
    constant = entropy(true) - np.log2(5)
    for label in partitions(5):
        expected = variation_of_information(label, true) + constant
        assert expected_information(together, label) == pytest.approx(expected)


def test_local_search_finds_what_brute_force_finds():
    everything = list(partitions(5))
    assert len(everything) == 52
    rng = np.random.default_rng(0)
    for _ in range(60):
        centre = everything[rng.integers(52)]
        draws = [centre if rng.random() < 0.5 else everything[rng.integers(52)] for _ in range(8)]
        together = co_clustering(draws)
        found = expected_information(together, best_partition(together))
        assert found == pytest.approx(min(expected_information(together, c) for c in everything))


def test_a_cluster_never_mixes_parents():
    # Users 0 and 1 part in most draws; together in all that they don't. At the last step all three
    # share composition LIN0, but below different parents.
    inclusion = np.zeros((1, 10, 3, 2, 3), dtype=bool)
    inclusion[:, :, :, 1, 0] = True
    inclusion[:, :, 0, 0, 0] = inclusion[:, :, 1, 0, 0] = True
    inclusion[:, :, 2, 0, 2] = True
    assignment = np.tile(np.array([[0, 1], [0, 1], [4, 5]]), (1, 10, 1, 1))
    assignment[0, :3, 1] = [2, 3]
    found = representative(posterior_of(inclusion, assignment))
    members = {(str(c.parent), str(c.composition)): c.members for c in found.clusters}
    assert members == {
        ("WHITE", "LIN0"): (("u0", 0), ("u1", 0)),
        ("WHITE", "SE0"): (("u2", 0),),
        ("LIN0", "LIN0"): (("u0", 1), ("u1", 1)),
        ("SE0", "LIN0"): (("u2", 1),),
    }
    pair = next(c for c in found.clusters if len(c.members) == 2)
    assert pair.cohesion == pytest.approx(0.7)
    assert pair.certainty == 1
    assert found.to_frame()["datasets"].sum() == 6


def test_every_dataset_has_one_cluster_whose_posterior_can_be_drawn(sampled, cohort):
    _, idata = sampled
    found = representative(idata)
    members = [member for c in found.clusters for member in c.members]
    steps = dict(zip(cohort.users, cohort.steps, strict=True))
    assert sorted(members) == [(u, t) for u, n in steps.items() for t in range(n)]
    path = {member: c for c in found.clusters for member in c.members}
    assert all(c.parent == path[u, t - 1].composition for (u, t), c in path.items() if t)
    own = max(range(len(found.clusters)), key=lambda i: len(found.clusters[i].members))
    cluster = found.model(own, cohort)
    assert cluster.members == list(found.clusters[own].members)
    assert cluster.composition == found.clusters[own].composition
    with cluster:
        drawn = pm.sample(draws=10, tune=10, chains=1, random_seed=1, **SAMPLING)
    assert np.isfinite(drawn["posterior"]["noise"]).all()
    with pytest.raises(InputError, match="no cluster 99"):
        found.model(99, cohort)
    with pytest.raises(InputError, match="the cohort has 1"):
        found.model(own, cohort.at(-1))
