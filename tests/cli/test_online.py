"""Online selection as the commands do it."""

import warnings

from kem_pymc.cli.online import select_online
from kem_pymc.data.datasets import synthetic
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import DataWarning
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.online import select_online as library
from tests.evolutions.by_hand import evolutions


class Warns(KEMSelector):
    """Warns of each selection."""

    def select(self, x, y, previous=None):
        warnings.warn("a warning", DataWarning, stacklevel=2)
        return super().select(x, y, previous)


def test_all_selections_are_the_librarys():
    """Fails where the selection that only compiles is kept, or its warnings are seen twice."""
    cohort = synthetic(users=2, time_steps=2, seed=0)
    learned = evolutions(scaling=Scaling.identity(1))
    quiet = library(KEMSelector(learned), cohort)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = select_online(Warns(learned), cohort, "Selecting")
    assert len([w for w in caught if w.category is DataWarning]) == 4
    assert found.keys() == quiet.keys()
    for user, own in quiet.items():
        assert [s.label() for s in found[user]] == [s.label() for s in own]
