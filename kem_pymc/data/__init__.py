"""Users' data: cohorts read from tables, checked, transformed and scaled."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.data.cohort import Cohort
    from kem_pymc.data.columns import Columns, feature_columns
    from kem_pymc.data.scaling import Scaling

__all__ = ["Cohort", "Columns", "Scaling", "feature_columns"]

__getattr__ = lazily(
    __name__,
    {"Cohort": "cohort", "Columns": "columns", "Scaling": "scaling", "feature_columns": "columns"},
)
