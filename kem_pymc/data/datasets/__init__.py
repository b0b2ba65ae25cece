"""Simulated cohorts, default candidates, and what loaders of tables need to read files."""

from kem_pymc.data.cohort import Split
from kem_pymc.data.datasets.files import (
    DataFileNotFoundError,
    data_home,
    find_file,
    not_csv,
    read_csv,
)
from kem_pymc.data.datasets.pools import default_pool
from kem_pymc.data.datasets.simulate import Truth, synthetic

__all__ = [
    "DataFileNotFoundError",
    "Split",
    "Truth",
    "data_home",
    "default_pool",
    "find_file",
    "not_csv",
    "read_csv",
    "synthetic",
]
