"""Metropolis-Hastings steps on the kernel of one cluster (paper, 10.3.2, with a correct ratio)."""

from kem_pymc._system.jit.decorators import inlined
from kem_pymc.sampler.moves.composition import change_composition, probability_of_change
from kem_pymc.sampler.moves.hyperparameters import random_walk


@inlined
def local_step(model, state, cluster, joint, odds, scale, rng):
    """Propose a new composition or new values for an occupied cluster.

    The probabilities are those of `odds`. If `joint`, a new composition is proposed for the
    cluster's whole component.
    """
    if rng.random() < probability_of_change(state.included[cluster], odds):
        change_composition(model, state, cluster, joint, odds, rng)
    else:
        random_walk(model, state, cluster, scale, rng)
