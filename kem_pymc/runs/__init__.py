"""Sampling that writes draws as they come, and resumes."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.runs.sampling import resume as resume
    from kem_pymc.runs.sampling import sample as sample

__getattr__, __all__ = lazily(__name__, {"resume": "sampling", "sample": "sampling"})
