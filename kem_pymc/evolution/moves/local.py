"""Metropolis-Hastings steps on the kernel of one cluster (paper, 10.3.2, with the right ratio)."""

from kem_pymc.compiled import inlined
from kem_pymc.evolution.moves.composition import change_composition, probability_of_change
from kem_pymc.evolution.moves.hyperparameters import walk


@inlined
def local_step(study, state, slot, joint, odds, step, rng):
    """Make a step on an occupied slot: change its composition with these `Odds`, or walk.

    Under the joint target a composition change takes the cluster's component along.
    """
    if rng.random() < probability_of_change(state.included[slot], odds):
        change_composition(study, state, slot, joint, odds, rng)
    else:
        walk(study, state, slot, step, rng)
