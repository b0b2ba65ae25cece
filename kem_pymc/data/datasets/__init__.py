"""Data sets of the papers: loaders of files that the user supplies, simulators, candidate pools."""

from kem_pymc.data.cohort import Split
from kem_pymc.data.datasets._days import PAPER_DAYS, DayCounts
from kem_pymc.data.datasets._home import DataFileNotFoundError, data_home
from kem_pymc.data.datasets.heartsteps import heartsteps
from kem_pymc.data.datasets.heartsteps_daily import heartsteps_daily
from kem_pymc.data.datasets.longitudinal import chick_weight, orthodont, sleepstudy, theoph
from kem_pymc.data.datasets.mimic import PAPER_COUNTS, Counts, mimic, mimic_demo
from kem_pymc.data.datasets.panel import panel
from kem_pymc.data.datasets.pools import candidates, default_pool
from kem_pymc.data.datasets.simulate import Truth, synthetic
from kem_pymc.data.datasets.uci import concrete, energy, fires, housing

__all__ = [
    "PAPER_COUNTS",
    "PAPER_DAYS",
    "Counts",
    "DataFileNotFoundError",
    "DayCounts",
    "Split",
    "Truth",
    "candidates",
    "chick_weight",
    "concrete",
    "data_home",
    "default_pool",
    "energy",
    "fires",
    "heartsteps",
    "heartsteps_daily",
    "housing",
    "mimic",
    "mimic_demo",
    "orthodont",
    "panel",
    "sleepstudy",
    "synthetic",
    "theoph",
]
