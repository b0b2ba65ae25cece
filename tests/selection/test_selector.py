"""What selectors accept as the previous selection."""

from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.selector import as_composition


def test_previous_is_read(selection):
    assert as_composition(None, 1) == Composition()
    for previous in (selection, selection.composition, "PER0 + LIN0"):
        assert as_composition(previous, 1) == Composition.parse("LIN0 + PER0")
