"""Weights of kernels of different origins, from pilot users as if new."""

from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.evolutions.novelty import EVEN, UNLEARNED, WEIGHTS, Novelty
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.origins import Origins, learned_novelty
from tests.selection.pilots import pilot_cluster, user, with_clusters

AT, TARGETS = np.linspace(0, 20, 4)[:, None], np.array([0.5, -1.0, 3.0, 6.0])


@pytest.fixture(scope="module")
def ending(learned):
    """Evolutions whose pilot users end up with SE0 + PER0 and LIN0, and some follow nothing."""
    early = tuple(c for c in learned.clusters if c.parent == Composition())
    ends = [pilot_cluster(d, "WHITE", "PER0 + SE0", 6, 0.4, 0.9 + d / 5) for d in range(2)]
    ends += [pilot_cluster(d, "WHITE", "LIN0", 3, 1.5, 1.1 + d / 5) for d in range(2)]
    final = replace(learned, clusters=tuple(ends))
    return with_clusters(replace(learned, clusters=early), final=final, novelty=EVEN)


def origins(selector, n=6, previous=None, **given):
    x, y = user(n)
    selection = selector.select(x, y, previous)
    return Origins.of(selector, selection, previous, 0, 0, AT, TARGETS, given)


@pytest.mark.parametrize("previous", [None, "LIN0", "PER0"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_mixture_of_origins_is_the_selection_with_that_weight(ending, previous, weight):
    """Fails where a prior or an evidence is missing, or the model's own weight isn't the least.

    No pilot user had PER0, so that only final kernels may follow it.
    """
    novelty = Novelty((1,), (weight,))
    x, y = user(6)
    direct = KEMSelector(replace(ending, novelty=novelty)).select(x, y, previous)
    expected = direct.predict(AT, include_noise=True)
    found = origins(KEMSelector(ending), previous=previous).prediction(novelty)
    # Compositions below 1 % are left out of the parts, not of the whole.
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0.02, atol=0.05)
    np.testing.assert_allclose(found.sd, expected.sd, rtol=0.02)
    rows = {row.composition: row.weight for row in direct.considered}
    selector = KEMSelector(ending)
    again = selector.with_weight(selector.select(x, y, previous), previous, weight)
    assert {row.composition: row.weight for row in again.considered} == pytest.approx(rows)


def by_hand(gains, step=0, points=3):
    """Users whose targets' log density is higher by gains (U,) with final kernels alone."""

    class Density:
        def __init__(self, value):
            self.observation, self.value = self, value

        def log_density(self, y):
            return np.full(len(y), self.value)

    return [
        Origins(u, step, points, 0.0, 0.0, np.zeros(2), [Density(0), Density(gain)], np.zeros(2))
        for u, gain in enumerate(gains)
    ]


def test_scores_in_closed_form():
    """With equal evidence, the density is the mean of both, by the weights."""
    (one,) = by_hand([0.7])
    np.testing.assert_allclose(one.scores(), np.log(1 - WEIGHTS + WEIGHTS * np.exp(0.7)))
    departing = one._replace(
        departure=0.1,
        log_evidence=np.log([1, 2, 3]),
        predictions=[*one.predictions, one.predictions[0]],
    )
    prior = np.array([0.9 * 0.5, 0.9 * 0.5 * 2, 0.1 * 3])
    np.testing.assert_allclose(departing.weights(0.5), prior / prior.sum())


def test_weights_between_doublings_of_the_number_of_points():
    """Final kernels are worse at first, by .2 or so, later as good; a lone user isn't asked.

    Fails if each of the last two time steps had a weight of its own, as one of them alone doesn't
    show what both do.
    """
    rng = np.random.default_rng(0)
    first = by_hand(rng.normal(-0.2, 0.1, 10), 0, 3)
    same = by_hand(np.zeros(10), 1, 4)
    noise = rng.normal(0, 0.5, 10)
    gains = [0.2 + noise, 0.2 - noise]
    later = [one for k, gain in enumerate(gains) for one in by_hand(gain, 5 + k, 9 + k)]
    found = learned_novelty([*first, *same, *later, *by_hand([-0.3], 9, 16)])
    assert found == Novelty((2, 4, 8), (0.0, 0.8, 1.0))
    assert learned_novelty(by_hand([-0.3], 0, 3)) == UNLEARNED
