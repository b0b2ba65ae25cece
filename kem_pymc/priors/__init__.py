"""Priors of a study: tables of PyMC distributions, and what the sampler makes of them."""

from typing import TYPE_CHECKING

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc.priors.noise import noise_by_size as noise_by_size
    from kem_pymc.priors.standard import default as default
    from kem_pymc.priors.standard import paper as paper
    from kem_pymc.priors.standard import synthetic as synthetic
    from kem_pymc.priors.table import Priors as Priors
    from kem_pymc.priors.unexplained import Unexplained as Unexplained

# PyMC is imported with the first table of distributions.
__getattr__, __all__ = lazily(
    __name__,
    {
        "Priors": "table",
        "Unexplained": "unexplained",
        "default": "standard",
        "noise_by_size": "noise",
        "paper": "standard",
        "synthetic": "standard",
    },
)
