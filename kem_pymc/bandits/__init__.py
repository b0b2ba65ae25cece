"""Bandits whose objective is a known function of observed components (D-GPUCB)."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.bandits.bandit import Bandit as Bandit
    from kem_pymc.bandits.confidence import exploration as exploration
    from kem_pymc.bandits.objective import Composed as Composed
    from kem_pymc.bandits.objective import Weighted as Weighted
    from kem_pymc.bandits.regression import ComposedProcess as ComposedProcess
    from kem_pymc.bandits.regression import DecomposedPosterior as DecomposedPosterior
    from kem_pymc.bandits.regression import error_correlation as error_correlation
    from kem_pymc.bandits.space import Box as Box
    from kem_pymc.bandits.space import Points as Points
    from kem_pymc.gp.process import GaussianProcess as GaussianProcess

__getattr__, __all__ = lazily(
    __name__,
    {
        "Bandit": "bandit",
        "Box": "space",
        "Composed": "objective",
        "ComposedProcess": "regression",
        "DecomposedPosterior": "regression",
        "Points": "space",
        "GaussianProcess": "kem_pymc.gp.process",
        "Weighted": "objective",
        "error_correlation": "regression",
        "exploration": "confidence",
    },
)
