"""Base kernels, candidates (products of these), compositions (sums of candidates), and pools."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.kernels.base import BaseKernel, register_kernel
    from kem_pymc.kernels.checking import check_kernel
    from kem_pymc.kernels.composition import Candidate, Composition
    from kem_pymc.kernels.pool import CandidatePool

__all__ = [
    "BaseKernel",
    "Candidate",
    "CandidatePool",
    "Composition",
    "check_kernel",
    "register_kernel",
]

__getattr__ = lazily(
    __name__,
    {
        "BaseKernel": "base",
        "Candidate": "composition",
        "CandidatePool": "pool",
        "Composition": "composition",
        "check_kernel": "checking",
        "register_kernel": "base",
    },
)
