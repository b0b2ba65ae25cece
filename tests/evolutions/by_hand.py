"""Two draws of evolutions, written down."""

import numpy as np

from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

POOL = CandidatePool(["PER0", "LIN0", "SE0"])
WHITE, LIN, SE, BOTH = (Composition.parse(t) for t in ("WHITE", "LIN0", "SE0", "LIN0 + PER0"))


def cluster(draw, parent, child, count, level=0.0):
    size = {WHITE: 1, LIN: 3, SE: 3, BOTH: 6}[child]
    return Cluster(draw, parent, child, count, tuple(level + 0.1 * i for i in range(size)))


CLUSTERS = (
    # Draw 0: below WHITE two clusters of LIN0 and one of SE0; below LIN0 one of LIN0 + PER0.
    cluster(0, WHITE, LIN, 3, level=1.0),
    cluster(0, WHITE, LIN, 1, level=2.0),
    cluster(0, WHITE, SE, 1),
    cluster(0, LIN, BOTH, 2),
    # Draw 1: below WHITE LIN0 alone, and nothing below LIN0 but below SE0.
    cluster(1, WHITE, LIN, 5, level=1.5),
    cluster(1, SE, SE, 4),
)


def evolutions(clusters=CLUSTERS, n_draws=2, **fields):
    return Evolutions(
        **{
            "pool": POOL,
            "scaling": Scaling(np.array([0.1]), np.array([7.3]), 1 / 3, 2 / 7),
            "features": ("week",),
            "target": "steps",
            "clusters": clusters,
            "n_draws": n_draws,
            "concentration": 2.0,
            "priors": {"stay": 0.9},
            "settings": {"feedback": "cut", "likelihood_power": 0.1 + 0.2},
            "versions": {"kem_pymc": "0.1.0"},
        }
        | fields
    )


def by_name(children):
    return {str(c.composition): c for c in children}
