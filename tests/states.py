"""What tests do with states of the sampler: copy them, and check their processes."""

from kem_pymc.sampler.state import CompiledModel, State


def copy_state(state: State) -> State:
    """Return a copy that shares no arrays with the original."""
    return State(*(array.copy() for array in state))


def memberships_agree(model: CompiledModel, state: State) -> bool:
    """Return whether every dataset is in the process of its user's previous composition."""
    parents = state.parent[state.dp[state.assignment]]
    previous = state.included[state.assignment]
    for d, parent in enumerate(parents):
        expected = parent * 0 if model.time_step[d] == 0 else previous[d - 1]
        if (parent != expected).any():
            return False
    return True
