"""Regressors for scikit-learn: kernels that evolve, a population model, and search for a kernel."""

from kem_pymc.sklearn.kem import KEMRegressor
from kem_pymc.sklearn.population import PopulationRegressor
from kem_pymc.sklearn.search import KernelSearchRegressor

__all__ = ["KEMRegressor", "KernelSearchRegressor", "PopulationRegressor"]
