"""Summaries of the clusters of one composition, by hand."""

import numpy as np
import pytest

from kem_pymc.evolutions.clusters import Cluster, representatives, summarise
from tests.evolutions.by_hand import LIN, WHITE, by_name, cluster, evolutions


def test_centre_and_spread_weigh_by_members():
    child = by_name(evolutions().children(WHITE))["LIN0"]
    levels, counts = np.array([1.0, 2.0, 1.5]), np.array([3, 1, 5])
    centre = np.average(levels, weights=counts)
    sd = np.sqrt(np.average((levels - centre) ** 2, weights=counts))
    np.testing.assert_allclose(child.centre, centre + np.array([0, 0.1, 0.2]))
    np.testing.assert_allclose(child.spread, sd)


def test_spread_has_a_floor_and_a_value_for_lone_clusters():
    child = by_name(evolutions().children(WHITE))["SE0"]
    np.testing.assert_array_equal(child.spread, 0.4)
    near = summarise([cluster(0, WHITE, LIN, 1, 1.0), cluster(1, WHITE, LIN, 1, 1.001)], 0.01)
    np.testing.assert_array_equal(near.spread, 0.1)


def test_noise_below_the_floor_is_raised_before_anything_is_taken():
    """Catches pilot noise far below what fits may reach as the centre of their prior."""
    noises = [-9.0, -6.0, -1.0]
    known = summarise([Cluster(0, WHITE, LIN, 1, (0.0, 0.0, v)) for v in noises], 0.01)
    raised = np.maximum(noises, np.log(0.01))
    assert known.centre[-1] == pytest.approx(raised.mean())
    assert known.spread[-1] == pytest.approx(raised.std())
    assert known.starts[:, -1].min() == pytest.approx(np.log(0.01))


def test_representatives_cover_groups_and_never_repeat():
    rng = np.random.default_rng(0)
    groups = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [9.0, 9.0]])
    values = np.repeat(groups, [40, 30, 20, 10], axis=0) + 0.1 * rng.normal(size=(100, 2))
    chosen = representatives(values, np.ones(100), np.ones(2))
    nearest = np.abs(chosen[:, None] - groups).sum(-1).argmin(axis=1)
    assert set(nearest[:4]) == {0, 1, 2, 3}
    assert len(chosen) == len(np.unique(chosen, axis=0)) == 5
    np.testing.assert_array_equal(chosen, representatives(values, np.ones(100), np.ones(2)))
    assert representatives(values[[0, 0, 1]], np.ones(3), np.ones(2)).shape == (2, 2)
