"""The mean process shared by all users in a two-level model, learned from pilot users or given."""

from kem_pymc.shared.choice import SharedPart, learn_shared
from kem_pymc.shared.fixed_mean import FixedMean

__all__ = ["FixedMean", "SharedPart", "learn_shared"]
