"""Likelihoods of a cluster's members before and after a change of its kernel."""

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.likelihood import prefix_log_likelihood


@compiled
def member_reach(model, state, cluster):
    """Return each user's last time step in the cluster plus one (U,); 0 for users without any."""
    reach = np.zeros(model.first_dataset.shape[0], dtype=np.int64)
    left = state.occupants[cluster]
    for d in range(state.assignment.shape[0]):
        if state.assignment[d] == cluster:
            reach[model.user[d]] = model.time_step[d] + 1  # datasets are numbered in order of time
            left -= 1
            if left == 0:
                break
    return reach


@compiled
def propose_likelihoods(model, state, cluster, included, theta, log_noise, reach, out):
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
    if model.power == 0.0:
        return 0.0
    kernel = model.kernels, model.layout, np.flatnonzero(included), theta, log_noise
    change = 0.0
    for user in np.flatnonzero(reach):
        prefix_log_likelihood(
            *kernel, model.data, user, reach[user], out[user], state.factorisations
        )
        first_dataset = model.first_dataset[user]
        for time_step in range(reach[user]):
            if state.assignment[first_dataset + time_step] == cluster:
                change += out[user, time_step] - state.log_likelihood[cluster, user, time_step]
    return model.power * change


@compiled
def commit(state, cluster, reach, proposed):
    """Replace a cluster's log likelihoods by those of its new kernel."""
    for user in range(reach.shape[0]):
        state.valid[cluster, user] = reach[user]
        state.log_likelihood[cluster, user, : reach[user]] = proposed[user, : reach[user]]
