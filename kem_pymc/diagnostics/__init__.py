"""Reading a posterior: whether chains agree, what they found, and how to combine them."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.diagnostics.diagnosis import Diagnosis as Diagnosis
    from kem_pymc.diagnostics.diagnosis import diagnose as diagnose
    from kem_pymc.diagnostics.power_scaling import log_prior_group as log_prior_group
    from kem_pymc.diagnostics.prediction import log_likelihood_group as log_likelihood_group
    from kem_pymc.diagnostics.prediction import next_batch as next_batch
    from kem_pymc.diagnostics.representative import Representative as Representative
    from kem_pymc.diagnostics.stacking import stack as stack

__getattr__, __all__ = lazily(
    __name__,
    {
        "Diagnosis": "diagnosis",
        "Representative": "representative",
        "diagnose": "diagnosis",
        "log_likelihood_group": "prediction",
        "log_prior_group": "power_scaling",
        "next_batch": "prediction",
        "stack": "stacking",
    },
)
