"""The PyMC models, and the step method that samples from them."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.model.ablations import final_model as final_model
    from kem_pymc.model.ablations import stratified_models as stratified_models
    from kem_pymc.model.cluster_model import ClusterModel as ClusterModel
    from kem_pymc.model.evolution_model import EvolutionModel as EvolutionModel

__getattr__, __all__ = lazily(
    __name__,
    {
        "ClusterModel": "cluster_model",
        "EvolutionModel": "evolution_model",
        "final_model": "ablations",
        "stratified_models": "ablations",
    },
)
