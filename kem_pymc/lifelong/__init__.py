"""Lifelong Bayesian optimisation of functions that arrive one after the other."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.lifelong.distributions import CategoricalDistribution as CategoricalDistribution
    from kem_pymc.lifelong.distributions import FloatDistribution as FloatDistribution
    from kem_pymc.lifelong.distributions import IntDistribution as IntDistribution
    from kem_pymc.lifelong.optimizer import LifelongOptimizer as LifelongOptimizer
    from kem_pymc.lifelong.sequence import minimize_sequence as minimize_sequence
    from kem_pymc.lifelong.space import Space as Space
    from kem_pymc.lifelong.tuning import Tuned as Tuned
    from kem_pymc.lifelong.tuning import tune as tune

__getattr__, __all__ = lazily(
    __name__,
    {
        "CategoricalDistribution": "distributions",
        "FloatDistribution": "distributions",
        "IntDistribution": "distributions",
        "LifelongOptimizer": "optimizer",
        "Space": "space",
        "Tuned": "tuning",
        "minimize_sequence": "sequence",
        "tune": "tuning",
    },
)
