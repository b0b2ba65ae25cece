"""The concentration alpha of all Dirichlet processes: a fixed number or a Gamma prior."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from pytensor.tensor.variable import TensorVariable

from kem_pymc.errors import InputError
from kem_pymc.priors.distributions import gamma_parameters


@dataclass(frozen=True)
class Concentration:
    """Fixed value or Gamma prior of the concentration alpha.

    Attributes
    ----------
    value : float
        Value of alpha if it is fixed; otherwise the prior's mean, at which sampling starts.
    shape, rate : float
        Shape and rate of the Gamma prior; both zero if alpha is fixed.
    """

    value: float
    shape: float = 0.0
    rate: float = 0.0

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return the concentration given by a positive number or a Gamma distribution.

        Raises
        ------
        InputError
            If `given` is neither.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, TensorVariable):
            shape, rate = gamma_parameters(given) or (np.nan, np.nan)
            if not (0 < shape < np.inf and 0 < rate < np.inf):
                raise InputError(
                    "The prior of the concentration isn't a Gamma distribution with two positive "
                    "numbers as parameters. Give one like pm.Gamma.dist(alpha=2, beta=2)."
                )
            return cls(shape / rate, shape, rate)
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = np.nan
        if not 0 < value < np.inf:
            raise InputError(
                f"The concentration is {given!r}. "
                "Give a positive number, like 1, or a prior like pm.Gamma.dist(alpha=2, beta=2)."
            )
        return cls(value)

    @property
    def learned(self) -> bool:
        """Whether alpha is sampled."""
        return self.shape > 0

    def to_data(self) -> float | dict[str, float]:
        """Return the concentration as plain data: the number, or the prior's shape and rate."""
        return {"shape": self.shape, "rate": self.rate} if self.learned else self.value
