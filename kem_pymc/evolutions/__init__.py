"""What was learned: the graph of parents and children, in memory and in files."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.evolutions.evolutions import Evolutions as Evolutions

__getattr__, __all__ = lazily(__name__, {"Evolutions": "evolutions"})
