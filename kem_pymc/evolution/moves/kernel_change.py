"""What every move that changes a cluster's kernel needs: its members' likelihoods, then and now."""

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.evolution.state import active_candidates
from kem_pymc.gp.likelihood import prefix_log_likelihood


@compiled
def member_reach(study, state, slot):
    """Return, by user (U,), the last time step plus one at which the slot holds their dataset."""
    reach = np.zeros(study.first.shape[0], dtype=np.int64)
    left = state.occupants[slot]
    for d in range(state.assignment.shape[0]):
        if state.assignment[d] == slot:
            reach[study.user[d]] = study.step[d] + 1  # datasets are numbered in order of time
            left -= 1
            if left == 0:
                break
    return reach


@compiled
def propose_likelihoods(study, state, slot, included, h, log_noise, reach, out):
    """Compute members' log likelihoods under another kernel.

    Parameters
    ----------
    reach : (U,) int64
        From `member_reach`.
    out : (U, T) float64
        Gets the log likelihoods of the users that have members, up to their reach.

    Returns
    -------
    float
        Log likelihood of the members under the proposed kernel minus that under the present one.
    """
    if study.power == 0.0:
        return 0.0
    active = active_candidates(included)
    change = 0.0
    for user in range(reach.shape[0]):
        if reach[user] == 0:
            continue
        prefix_log_likelihood(
            study.kernels,
            study.layout,
            active,
            h,
            log_noise,
            study.data,
            user,
            reach[user],
            out[user],
            state.counts,
            study.covariances,
        )
        first = study.first[user]
        for step in range(reach[user]):
            if state.assignment[first + step] == slot:
                change += out[user, step] - state.log_likelihood[slot, user, step]
    return study.power * change


@compiled
def commit(state, slot, reach, proposed):
    """Replace a slot's log likelihoods by those of the kernel that it has now."""
    for user in range(reach.shape[0]):
        state.valid[slot, user] = reach[user]
        state.log_likelihood[slot, user, : reach[user]] = proposed[user, : reach[user]]
