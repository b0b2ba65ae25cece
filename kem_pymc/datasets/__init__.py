"""The papers' data: loaders of files a user supplies, simulators, candidate pools."""

from kem_pymc.datasets._home import DataFileNotFoundError, data_home
from kem_pymc.datasets.pools import candidates
from kem_pymc.datasets.simulate import Truth, synthetic
from kem_pymc.datasets.uci import Study, concrete, energy, fires, housing

__all__ = [
    "DataFileNotFoundError",
    "Study",
    "Truth",
    "candidates",
    "concrete",
    "data_home",
    "energy",
    "fires",
    "housing",
    "synthetic",
]
