"""What selectors accept as the previous selection."""

from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.selector import previous_composition


def test_previous_is_read(selection):
    pool = selection.pool
    assert previous_composition(None, pool) == Composition()
    for previous in (selection, selection.composition, "PER0 + LIN0"):
        assert previous_composition(previous, pool) == Composition.parse("LIN0 + PER0")
