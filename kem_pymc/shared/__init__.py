"""What users share: the mean process of a two-level model, learned from pilot users."""

from kem_pymc.shared.choice import SharedPart, learn_shared

__all__ = ["SharedPart", "learn_shared"]
