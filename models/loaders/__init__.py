"""Loaders of the data of the paper's studies and of R's tables, and their candidate pools.

Each loader reads files from the data home (see :func:`kem_pymc.data.datasets.data_home`), which its
docstring lists, and returns pilot and test users. Study files import this package as ``loaders``,
since Python finds what is beside them; all else in the repository imports ``models.loaders``.
"""

from .days import PAPER_DAYS, DayCounts
from .heartsteps import heartsteps
from .heartsteps_daily import heartsteps_daily
from .longitudinal import (
    body_weight,
    chick_weight,
    orthodont,
    oxboys,
    pbcseq,
    sleepstudy,
    theoph,
)
from .mimic import PAPER_COUNTS, Counts, mimic, mimic_demo
from .pools import candidates
from .uci import concrete, energy, fires, housing

__all__ = [
    "PAPER_COUNTS",
    "PAPER_DAYS",
    "Counts",
    "DayCounts",
    "body_weight",
    "candidates",
    "chick_weight",
    "concrete",
    "energy",
    "fires",
    "heartsteps",
    "heartsteps_daily",
    "housing",
    "mimic",
    "mimic_demo",
    "orthodont",
    "oxboys",
    "pbcseq",
    "sleepstudy",
    "theoph",
]
