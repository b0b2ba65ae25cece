"""Likelihoods of a cluster's members before and after a change of its kernel."""

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.gp.likelihood import prefix_log_likelihood
from kem_pymc.sampler.state import active_candidates


@compiled
def member_reach(study, state, slot):
    """Return for each user (U,) the last time step with a dataset in the slot, plus one; else 0."""
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
        Result of `member_reach`.
    out : (U, T) float64
        Output: log likelihoods of the users with members, up to their reach.

    Returns
    -------
    float
        Log likelihood of the members under the proposed kernel minus that under the present one,
        times the likelihood power.
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
    """Replace a slot's log likelihoods by those of its new kernel."""
    for user in range(reach.shape[0]):
        state.valid[slot, user] = reach[user]
        state.log_likelihood[slot, user, : reach[user]] = proposed[user, : reach[user]]
