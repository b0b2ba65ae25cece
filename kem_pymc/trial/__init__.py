"""A running trial: participants' data as they accrue, and a personal model that always answers."""

from kem_pymc.trial.artefacts import Artefact, Comparison
from kem_pymc.trial.intake import Receipt
from kem_pymc.trial.serving import Served
from kem_pymc.trial.trial import Trial

__all__ = ["Artefact", "Comparison", "Receipt", "Served", "Trial"]
