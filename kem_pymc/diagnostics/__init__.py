"""Reading a posterior: whether chains agree, what they found, and how to combine them."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.diagnostics.diagnosis import Diagnosis, diagnose
    from kem_pymc.diagnostics.groups import contrasts, relevances
    from kem_pymc.diagnostics.power_scaling import log_prior_group
    from kem_pymc.diagnostics.prediction import log_likelihood_group, next_batch
    from kem_pymc.diagnostics.representative import Representative
    from kem_pymc.diagnostics.stacking import stack

__all__ = [
    "Diagnosis",
    "Representative",
    "contrasts",
    "diagnose",
    "log_likelihood_group",
    "log_prior_group",
    "next_batch",
    "relevances",
    "stack",
]

__getattr__ = lazily(
    __name__,
    {
        "Diagnosis": "diagnosis",
        "Representative": "representative",
        "contrasts": "groups",
        "diagnose": "diagnosis",
        "log_likelihood_group": "prediction",
        "log_prior_group": "power_scaling",
        "next_batch": "prediction",
        "relevances": "groups",
        "stack": "stacking",
    },
)
