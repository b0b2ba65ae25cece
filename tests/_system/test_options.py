"""What counts and objects given as options may be."""

import pytest

from kem_pymc._system.executors import make_executor
from kem_pymc.bandits.objective import Weighted
from kem_pymc.data.datasets import synthetic
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.search.run import search
from kem_pymc.selection.ard import ARDSelector
from tests.refusals import refused


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("weights", Weighted),
        ("dimension", ARDSelector),
        ("dimension", lambda count: CandidatePool(["SE0"], count)),
        ("budget", lambda count: search(range(9), [1, 2, 0, 4, 1, 3, 2, 5, 1], budget=count)),
        ("users", lambda count: synthetic(users=count)),
        ("cores", make_executor),
    ],
)
def test_counts_are_whole_and_not_too_large(name, call):
    """10**30 took all memory, or raised an OverflowError; 10**5000 can't even be printed."""
    for count in (10**30, 10**5000, 0, -1, True):
        message = refused(lambda count=count: call(count), f"{name} is ", "a whole number of 1")
        assert len(message) < 200
