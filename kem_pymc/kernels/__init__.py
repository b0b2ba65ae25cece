"""Base kernels, candidates (products of these), compositions (sums of candidates), and pools."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.kernels.base import BaseKernel as BaseKernel
    from kem_pymc.kernels.base import register_kernel as register_kernel
    from kem_pymc.kernels.checking import check_kernel as check_kernel
    from kem_pymc.kernels.composition import Candidate as Candidate
    from kem_pymc.kernels.composition import Composition as Composition
    from kem_pymc.kernels.pool import CandidatePool as CandidatePool

__getattr__, __all__ = lazily(
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
