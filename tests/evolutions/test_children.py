"""Children of a parent, by hand: probabilities over the draws that have it."""

import numpy as np
import pytest

from kem_pymc.evolutions.children import children_below
from tests.evolutions.by_hand import LIN, SE, WHITE, by_name, cluster, evolutions


def test_probabilities_are_posterior_means_over_draws_with_the_parent():
    children = by_name(evolutions().children(WHITE))
    assert children["LIN0"].probability == pytest.approx((4 / 7 + 5 / 7) / 2)
    assert children["SE0"].probability == pytest.approx((1 / 7 + 0) / 2)
    assert children["LIN0"].count == pytest.approx(4.5)
    assert children["SE0"].count == pytest.approx(0.5)
    below = by_name(evolutions().children("LIN0"))
    assert below["LIN0 + PER0"].probability == pytest.approx(2 / 4)  # draw 1 has no such parent
    assert below["LIN0 + PER0"].occurrence == pytest.approx(1 / 2)


def test_children_by_hand():
    """Two clusters of LIN0 in draw 0, one in draw 2; draw 1 has no members. Fails where it counts.

    The interval is over the draws with members, the count and the occurrence over all draws.
    """
    clusters = [
        cluster(0, WHITE, LIN, 3),
        cluster(0, WHITE, LIN, 1),
        cluster(0, WHITE, SE, 2),
        cluster(2, WHITE, LIN, 1),
    ]
    members, alpha = np.array([6, 0, 1]), np.array([2.0, 9.0, 1.0])
    found = by_name(children_below(clusters, members, alpha, 0.01))
    lin, se = found["LIN0"], found["SE0"]
    assert lin.probability == pytest.approx((4 / 8 + 1 / 2) / 2)
    assert se.probability == pytest.approx((2 / 8 + 0) / 2)
    assert (lin.count, se.count) == pytest.approx((5 / 3, 2 / 3))
    assert (lin.occurrence, se.occurrence) == pytest.approx((2 / 3, 1 / 3))
    assert lin.interval == pytest.approx((0.5, 0.5))
    assert se.interval == pytest.approx((0.05 * 0.25, 0.95 * 0.25))
