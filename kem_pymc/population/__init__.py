"""What users share and how they differ: a linear mixed model with smooth functions."""

from kem_pymc.population.model import PopulationModel
from kem_pymc.population.posterior import PopulationPosterior

__all__ = ["PopulationModel", "PopulationPosterior"]
