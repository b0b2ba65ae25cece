"""Lifelong Bayesian optimisation of functions that arrive one after the other, for Optuna."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.lifelong.sampler import LifelongSampler as LifelongSampler
    from kem_pymc.lifelong.sampler import unfinished as unfinished

__getattr__, __all__ = lazily(__name__, {"LifelongSampler": "sampler", "unfinished": "sampler"})
