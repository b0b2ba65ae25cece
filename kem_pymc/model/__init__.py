"""The PyMC models, and the step method that samples from them."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.model.ablations import final_model, stratified_models
    from kem_pymc.model.cluster_model import ClusterModel
    from kem_pymc.model.evolution_model import EvolutionModel

__all__ = ["ClusterModel", "EvolutionModel", "final_model", "stratified_models"]

__getattr__ = lazily(
    __name__,
    {
        "ClusterModel": "cluster_model",
        "EvolutionModel": "evolution_model",
        "final_model": "ablations",
        "stratified_models": "ablations",
    },
)
