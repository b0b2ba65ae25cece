"""A running trial: participants' data as they accrue, and a personal model that always answers."""

from kem_pymc.trial.trial import Receipt, Served, Trial

__all__ = ["Receipt", "Served", "Trial"]
