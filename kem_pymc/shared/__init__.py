"""The mean process shared by all users in a two-level model, learned from pilot users or given."""

from kem_pymc.shared.choice import SharedPart, learn_shared
from kem_pymc.shared.given import Given

__all__ = ["Given", "SharedPart", "learn_shared"]
