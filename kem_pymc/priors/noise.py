"""Priors of the noise variance, as functions of the parent composition.

Any function that takes a :class:`Parent` and returns a PyMC distribution can be used.
:class:`NoiseBySize` and :class:`SameNoise` can in addition be stored as data, and searched for
population parameters without a parent.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.distributions import describe, from_data, to_data
from kem_pymc.priors.population import PopulationParameter, with_values


class Parent:
    """The parent composition as PyTensor expressions, which a noise prior may depend on.

    Attributes
    ----------
    inclusion : vector (C,) of bool
        Inclusion indicators of the candidates in the parent.
    size : scalar
        Number of candidates in the parent.
    """

    def __init__(self, inclusion: Any, pool: CandidatePool) -> None:
        self.inclusion = inclusion
        self.size = pt.sum(inclusion)
        self._pool = pool

    def includes(self, candidate: str) -> Any:
        """Return whether a candidate is in the parent (scalar of bool).

        Raises
        ------
        InputError
            If the pool has no such candidate.
        """
        single = Composition((Candidate.parse(candidate, self._pool.dimension),))
        return self.inclusion[int(np.argmax(self._pool.inclusion(single)))]


NoisePrior = Callable[[Parent], TensorVariable]


@dataclass(frozen=True)
class NoiseBySize:
    """The paper's noise prior: LogNormal(mu[k], sigma[k]) below a parent of size k.

    The last entries also apply to all larger parents.
    """

    mu: tuple[float, ...]
    sigma: tuple[float, ...]

    def __call__(self, parent: Parent) -> TensorVariable:
        """Return the prior of the noise variance below a parent."""
        k = pt.minimum(parent.size, len(self.mu) - 1)
        return pm.LogNormal.dist(pt.as_tensor(self.mu)[k], pt.as_tensor(self.sigma)[k])

    def __str__(self) -> str:
        pairs = zip(self.mu, self.sigma, strict=True)
        text = ", ".join(f"LogNormal({m:g}, {s:g})" for m, s in pairs)
        return f"{text}, ... for a parent of size 0, 1, ..."


@checked
def noise_by_size(
    mu: Sequence[float | TensorVariable], sigma: Sequence[float | TensorVariable]
) -> NoiseBySize:
    """Return the noise prior LogNormal(mu[k], sigma[k]) below a parent of size k.

    Parameters
    ----------
    mu, sigma : sequence of float
        Mean and sd of the log noise variance by size of the parent, from 0; the last entries also
        apply to all larger parents.

    Returns
    -------
    NoiseBySize

    Raises
    ------
    InputError
        If there isn't one sigma for every mu, a sigma isn't positive, or an entry isn't a number.
    """
    if any(isinstance(v, TensorVariable) for v in (*mu, *sigma)):
        raise InputError(
            "noise_by_size accepts only numbers. To use population parameters, write a function of "
            "the parent that returns a PyMC distribution."
        )
    if len(mu) != len(sigma) or not len(mu) or not all(s > 0 for s in sigma):
        raise InputError(
            f"The noise prior has mu {list(mu)} and sigma {list(sigma)}. "
            "Give one positive sigma for every mu."
        )
    return NoiseBySize(tuple(map(float, mu)), tuple(map(float, sigma)))


@dataclass(frozen=True, eq=False)
class SameNoise:
    """A noise prior that doesn't depend on the parent."""

    distribution: TensorVariable

    def __call__(self, parent: Parent) -> TensorVariable:
        """Return the prior of the noise variance below a parent."""
        return self.distribution

    def __str__(self) -> str:
        return describe(self.distribution)


def distributions_in(noise: NoisePrior) -> list[TensorVariable]:
    """Return the distributions of a noise prior, if they are available without a parent."""
    return [noise.distribution] if isinstance(noise, SameNoise) else []


def noise_at(noise: NoisePrior, values: Mapping[str, float]) -> NoisePrior:
    """Return a noise prior with population parameters replaced by numbers, by name."""
    if isinstance(noise, SameNoise):
        return SameNoise(with_values(noise.distribution, values))
    if isinstance(noise, NoiseBySize) or not values:
        return noise

    def at(parent: Parent) -> TensorVariable:
        return with_values(noise(parent), values)

    numbers = ", ".join(f"{name} = {value:.4g}" for name, value in values.items())
    at.__doc__ = f"{noise_text(noise)}, at {numbers}"
    return at


def noise_text(noise: NoisePrior) -> str:
    """Return a noise prior as text; for functions outside this module, their docstring."""
    if isinstance(noise, NoiseBySize | SameNoise):
        return str(noise)
    return inspect.getdoc(noise) or "a function of the parent"


def noise_to_data(noise: NoisePrior) -> dict[str, Any]:
    """Return a noise prior as plain data; custom functions are stored as text."""
    if isinstance(noise, NoiseBySize):
        return {"by_size": asdict(noise)}
    if isinstance(noise, SameNoise):
        return {"same": to_data(noise.distribution)}
    return {"text": noise_text(noise)}


def noise_from_data(
    data: Mapping[str, Any], population: Mapping[str, PopulationParameter]
) -> NoisePrior:
    """Return the noise prior from the data that :func:`noise_to_data` returned.

    Raises
    ------
    InputError
        If it was stored as text.
    """
    if "by_size" in data:
        return noise_by_size(**data["by_size"])
    if "same" in data:
        return SameNoise(from_data(data["same"], population))
    raise InputError(
        "The noise prior was stored as text only. Pass the study's own priors instead."
    )
