"""Search for the kernel of one data set: compositional kernel search, BOMS and EvoCov."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.search.evocov.result import EvolutionResult as EvolutionResult
    from kem_pymc.search.evocov.run import evolve as evolve
    from kem_pymc.search.grammar import Grammar as Grammar
    from kem_pymc.search.hyperpriors import Hyperpriors as Hyperpriors
    from kem_pymc.search.result import SearchResult as SearchResult
    from kem_pymc.search.result import describe as describe
    from kem_pymc.search.run import search as search

__getattr__, __all__ = lazily(
    __name__,
    {
        "EvolutionResult": "evocov.result",
        "Grammar": "grammar",
        "Hyperpriors": "hyperpriors",
        "SearchResult": "result",
        "describe": "result",
        "evolve": "evocov.run",
        "search": "run",
    },
)
