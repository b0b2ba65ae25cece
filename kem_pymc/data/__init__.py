"""Users' data: cohorts read from tables, checked, transformed and scaled."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.data.cohort import Cohort as Cohort
    from kem_pymc.data.columns import Columns as Columns
    from kem_pymc.data.columns import feature_columns as feature_columns
    from kem_pymc.data.scaling import Scaling as Scaling

__getattr__, __all__ = lazily(
    __name__,
    {"Cohort": "cohort", "Columns": "columns", "Scaling": "scaling", "feature_columns": "columns"},
)
