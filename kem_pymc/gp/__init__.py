"""Gaussian processes: likelihoods, fits, evidence and predictions of one composition."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.gp.prediction import Prediction as Prediction
    from kem_pymc.gp.process import draw_functions as draw_functions

__getattr__, __all__ = lazily(__name__, {"Prediction": "prediction", "draw_functions": "process"})
