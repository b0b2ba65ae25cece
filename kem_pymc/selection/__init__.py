"""Selection of kernels for one user, one time step at a time: one protocol, and its methods."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.selection.ablations import FinalSelector as FinalSelector
    from kem_pymc.selection.ablations import StratifiedSelector as StratifiedSelector
    from kem_pymc.selection.ard import ARDSelector as ARDSelector
    from kem_pymc.selection.kem import KEMSelector as KEMSelector
    from kem_pymc.selection.online import select_online as select_online
    from kem_pymc.selection.selection import Selection as Selection
    from kem_pymc.selection.two_level import TwoLevelSelector as TwoLevelSelector

__getattr__, __all__ = lazily(
    __name__,
    {
        "ARDSelector": "ard",
        "FinalSelector": "ablations",
        "KEMSelector": "kem",
        "Selection": "selection",
        "StratifiedSelector": "ablations",
        "TwoLevelSelector": "two_level",
        "select_online": "online",
    },
)
