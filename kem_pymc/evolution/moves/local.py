"""Metropolis-Hastings steps on the kernel of one cluster (paper, 10.3.2, with the right ratio)."""

from kem_pymc.compiled import inlined
from kem_pymc.evolution.moves.composition import change_composition
from kem_pymc.evolution.moves.hyperparameters import walk


@inlined
def local_step(study, state, slot, joint, p_add, p_remove, p_swap, rng):
    """Make a step on an occupied slot: change its composition with these probabilities, or walk.

    Under the joint target a composition change takes the cluster's component along.
    """
    if rng.random() < p_add + p_remove + p_swap:
        change_composition(study, state, slot, joint, p_add, p_remove, p_swap, rng)
    else:
        walk(study, state, slot, rng)
