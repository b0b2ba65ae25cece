"""Gaussian processes: likelihoods, fits, evidence and predictions of one composition."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.gp.batched import log_likelihoods as log_likelihoods
    from kem_pymc.gp.draws import draw_functions as draw_functions
    from kem_pymc.gp.prediction import Prediction as Prediction

__getattr__, __all__ = lazily(
    __name__, {"Prediction": "prediction", "draw_functions": "draws", "log_likelihoods": "batched"}
)
