"""Simulated cohorts, loaders of public tables, and what all loaders need to read files."""

from kem_pymc.data.cohort import Split
from kem_pymc.data.datasets.files import (
    DataFileNotFoundError,
    data_home,
    find_file,
    not_csv,
    read_csv,
)
from kem_pymc.data.datasets.longitudinal import chick_weight, orthodont, sleepstudy, theoph
from kem_pymc.data.datasets.pools import default_pool
from kem_pymc.data.datasets.simulate import Truth, synthetic
from kem_pymc.data.datasets.split import split_table

__all__ = [
    "DataFileNotFoundError",
    "Split",
    "Truth",
    "chick_weight",
    "data_home",
    "default_pool",
    "find_file",
    "not_csv",
    "orthodont",
    "read_csv",
    "sleepstudy",
    "split_table",
    "synthetic",
    "theoph",
]
