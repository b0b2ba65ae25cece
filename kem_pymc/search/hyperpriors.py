"""Normal priors of the hyperparameters of a search, on coordinates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.problem import Prior, normal_prior
from kem_pymc.kernels.base import CONST, base_kernels
from kem_pymc.kernels.composition import Hyperparameter

#: Means and standard deviations of Malkomes et al. (2016), for inputs scaled to [0, 1] and
#: standardised targets. Amplitudes and noise are variances here, and standard deviations there. A
#: constant mean with a standard normal prior is the candidate CONST, with a variance of 1.
DEFAULTS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "amplitude": (2 * math.log(0.4), 2.0),
        "CONST.amplitude": (0.0, 1e-3),
        "lengthscale": (math.log(0.1), 1.0),
        "MATERN12.lengthscale": (math.log(3.0), 1.0),  # not of the paper: a random walk
        "PER.lengthscale": (math.log(2.0), math.sqrt(0.5)),
        "PS.lengthscale": (math.log(0.5), 1.0),  # not of the paper: spikes of about 1/12 period
        "period": (math.log(0.1), math.sqrt(0.5)),
        "mixture": (math.log(0.05), math.sqrt(0.5)),
        "shift": (0.0, 1.0),
        "location": (0.5, 0.3),
        "span": (math.log(0.3), 0.7),
        "width": (math.log(0.02), 1.0),
    }
)

#: Means and standard deviations of the log noise variance, if there is nearly no noise (Malkomes et
#: al. 2016), and if there is much. Both are equally likely.
NOISE = (2 * math.log(0.01), 2 * math.sqrt(0.1)), (2 * math.log(0.5), 2.0)


@checked
@dataclass(frozen=True)
class Hyperpriors:
    """Independent normal priors of coordinates: logs of positive hyperparameters, others as such.

    Parameters
    ----------
    table : mapping of str to (float, float), optional
        Means and standard deviations by kind of hyperparameter (``"lengthscale"``), or by base
        kernel and kind (``"PER.lengthscale"``), which takes precedence. Amplitudes are logs of
        variances. Entries replace or extend :data:`DEFAULTS`.
    noise : sequence of (float, float)
        Means and standard deviations of the log noise variance; the prior is the mixture of these
        normal distributions, with equal weights. The default is for nearly no noise or much.

    Raises
    ------
    InputError
        If no base kernel has a hyperparameter of that kind, a mean isn't finite, or a standard
        deviation isn't positive and finite.
    """

    table: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    noise: Sequence[tuple[float, float]] = NOISE

    def __post_init__(self) -> None:
        bases = base_kernels()
        kinds = dict.fromkeys(name.rpartition(".")[2] for name in DEFAULTS)
        kinds |= dict.fromkeys(kind for base in bases for kind in base.hyperparameters)
        for name in self.table:
            base, _, kind = str(name).rpartition(".")
            if kind not in kinds or base not in ("", CONST, *(kernel.name for kernel in bases)):
                raise InputError(
                    f"No base kernel has a hyperparameter {name!r}. Use {', '.join(kinds)}, or one "
                    "of a base kernel, such as PER.lengthscale."
                )
        if not self.noise:
            raise InputError("The noise has no prior. Give at least one mean and sd.")
        table = {**DEFAULTS, **self.table}
        for name, row in [*table.items(), *(("noise", row) for row in self.noise)]:
            mean, sd = row if len(row) == 2 else (math.nan, math.nan)
            if not (math.isfinite(mean) and math.isfinite(sd) and sd > 0):
                raise InputError(
                    f"The prior of {name} has mean {mean} and standard deviation {sd}. "
                    "Give a finite mean and a positive standard deviation."
                )
        object.__setattr__(self, "table", MappingProxyType(table))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.table), self.noise)  # a proxy can't be pickled

    @classmethod
    def with_noise(cls, sd: float) -> "Hyperpriors":
        """Return priors that expect noise with about a standard deviation.

        Parameters
        ----------
        sd : float
            In standard deviations of the target.

        Raises
        ------
        InputError
            If the standard deviation isn't positive and finite.
        """
        if not (math.isfinite(sd) and sd > 0):
            raise InputError(f"The noise has an expected sd of {sd}. Give a positive number.")
        return cls(noise=[(2 * math.log(sd), 1.0)])

    def of(self, coordinates: Coordinates, part: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return means (k + 1,) and standard deviations (k + 1,) of coordinates.

        Those of the noise are of one part of its mixture.

        Raises
        ------
        InputError
            If a kind of hyperparameter has no prior.
        """
        rows = [self.row(h) for h in coordinates.hyperparameters] + [self.noise[part]]
        means, sds = np.array(rows).T
        return means, sds

    def prior(self, coordinates: Coordinates, part: int = 0) -> Prior:
        """Return the prior of coordinates for fits, with one part of the mixture of the noise."""
        return normal_prior(*self.of(coordinates, part))

    def draw(
        self, coordinates: Coordinates, count: int, rng: np.random.Generator, part: int = 0
    ) -> np.ndarray:
        """Return coordinates (count, k + 1) drawn from a prior, spread by a Sobol sequence."""
        means, sds = self.of(coordinates, part)
        sequence = qmc.Sobol(len(means), rng=rng)
        uniform = sequence.random_base2(math.ceil(math.log2(count)))[:count]
        return means + sds * ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))

    def row(self, hyperparameter: Hyperparameter) -> tuple[float, float]:
        """Return the mean and standard deviation of the prior of a hyperparameter's coordinate.

        Raises
        ------
        InputError
            If its kind has no prior.
        """
        kind = hyperparameter.kind
        base = hyperparameter.base or hyperparameter.name.partition(".")[0]  # CONST has no base
        for name in (f"{base}.{kind}", kind):
            if name in self.table:
                return self.table[name]
        raise InputError(
            f"There is no prior for hyperparameters of kind {kind}. "
            f"Give its mean and standard deviation: Hyperpriors({{{kind!r}: (0.0, 1.0)}})."
        )
