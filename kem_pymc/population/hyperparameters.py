"""Hyperparameters of the population model: default priors, coordinates and scales."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.printing import str_for_dist
from pytensor.compile.mode import Mode
from scipy import optimize, stats

from kem_pymc.errors import InputError
from kem_pymc.population.design import BASIS, LEVEL, Design, Term, spectral_root
from kem_pymc.population.likelihood import Arrays, Scales

#: Prior sd of a line's or contrast's weight, in scaled units: so large that it doesn't matter.
DIFFUSE = 1e3

#: Prior probability of a lengthscale shorter than the shortest, or longer than the longest.
TAIL = 0.01

#: The shortest lengthscale at least, and the longest: twice the feature's range. Half of the range
#: has length 1.
SHORTEST, LONGEST = 0.12, 4.0

#: Name of the noise's hyperparameter, and the last part of the names of correlations.
NOISE, CORRELATION = "noise.sd", "correlation"

#: Beginning of the names of personal terms' hyperparameters.
OWN = "personal "

Coordinate = Literal["root", "log", "fisher"]


@dataclass(frozen=True, eq=False)
class PopulationHyperparameter:
    """A hyperparameter, its prior, and the coordinate in which its posterior is nearly normal.

    The coordinate of the sd of a user's level or line is its square root, because this sd may be
    zero, and so is that of the noise if targets have known noise beside it; of other positive
    hyperparameters it is the logarithm; of a correlation it is Fisher's z.

    Attributes
    ----------
    name : str
    prior : TensorVariable
        PyMC distribution.
    coordinate : {"root", "log", "fisher"}
    """

    name: str
    prior: Any
    coordinate: Coordinate

    def __str__(self) -> str:
        return f"{self.name} ~ {str_for_dist(self.prior, 'plain')}"

    def natural(self, values: np.ndarray) -> np.ndarray:
        """Return natural values of coordinates."""
        if self.coordinate == "root":
            return values**2
        return np.exp(values) if self.coordinate == "log" else np.tanh(values)

    def coordinates(self, natural: np.ndarray) -> np.ndarray:
        """Return coordinates of natural values."""
        if self.coordinate == "root":
            return np.sqrt(natural)
        return np.log(natural) if self.coordinate == "log" else np.arctanh(natural)

    def log_jacobian(self, values: np.ndarray) -> np.ndarray:
        """Return the log derivative of :meth:`natural` at coordinates."""
        if self.coordinate == "root":
            with np.errstate(divide="ignore"):
                return np.log(2 * values)
        return values if self.coordinate == "log" else -2 * np.log(np.cosh(values))


def hyperparameters(
    shared: Design, personal: Design, priors: Mapping[str, Any], known_noise: bool, single: bool
) -> tuple[PopulationHyperparameter, ...]:
    """Return the hyperparameters of a model, with default priors unless `priors` replaces them.

    `known_noise` says whether there is known noise of targets, and `single` whether they are single
    trials or levels, in which noise beside that of their family can't be seen: its prior is narrow,
    because odds of a user that include it would be larger.

    Raises
    ------
    InputError
        If `priors` has a name that isn't one of a hyperparameter of the model.
    """
    table: list[tuple[str, Any, Coordinate]] = []
    for design, owner in ((shared, ""), (personal, OWN)):
        for term in design.terms:
            name = owner + term.name
            if term.smooth:
                table.append((f"{name}.sd", _standard("smooth"), "log"))
                if not term.joint:
                    shortest = max(design.feature(term.smooth[0]).gap, SHORTEST)
                    table.append((f"{name}.lengthscale", _lengthscale(shortest), "log"))
            elif owner:
                table.append((f"{name}.sd", _standard("personal"), "root"))
    for line in correlated(personal):
        table.append((f"{OWN}{line.name}.{CORRELATION}", _standard(CORRELATION), "fisher"))
    noise = _standard("unseen" if single else NOISE)
    table.append((NOISE, noise, "root" if known_noise else "log"))
    names = [name for name, *_ in table]
    unknown = [name for name in priors if name not in names]
    if unknown:
        raise InputError(
            f"{{priors}} has {unknown[0]!r}, which this model doesn't have. "
            f"Its hyperparameters are {', '.join(names)}.",
            priors=...,
        )
    return tuple(PopulationHyperparameter(n, priors.get(n, prior), c) for n, prior, c in table)


def correlated(personal: Design) -> list[Term]:
    """Return the lines among personal terms if there is a level, with which they correlate."""
    terms = personal.terms
    if LEVEL not in [term.name for term in terms]:
        return []
    return [term for term in terms if term.features and _single(personal, term)]


def _single(design: Design, term: Term) -> bool:
    return not term.smooth and not design.feature(term.features[0]).category


@cache
def _standard(what: str) -> Any:
    """Return a default prior, the same object each time, so that its density is compiled once."""
    if what == "smooth":
        return pm.Exponential.dist(scale=1.0)
    if what == CORRELATION:
        return pm.Uniform.dist(-1.0, 1.0)
    return pm.HalfNormal.dist({NOISE: 1.0, "unseen": 0.1}.get(what, 1.5))


@cache
def _lengthscale(shortest: float) -> Any:
    """Return the prior of a lengthscale: an inverse gamma distribution with `TAIL` in each tail."""

    def excess(logs: np.ndarray) -> list[float]:
        shape, scale = np.exp(logs)
        low = stats.invgamma.cdf(shortest, shape, scale=scale)
        return [low - TAIL, stats.invgamma.sf(LONGEST, shape, scale=scale) - TAIL]

    shape, scale = np.exp(optimize.least_squares(excess, [1.0, 0.0], xtol=1e-12, ftol=1e-12).x)
    return pm.InverseGamma.dist(float(shape), float(scale))


def log_prior(
    every: Sequence[PopulationHyperparameter], natural: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return log prior densities (S,) of natural values (S,) by name."""
    return np.sum([_log_density(h.prior)(natural[h.name]) for h in every], axis=0)


@lru_cache(maxsize=100)
def _log_density(prior: Any) -> Any:
    """Return the log density of a prior as a function of values (S,).

    It is evaluated by Python, an operation on all values at a time: compiling it would take longer.
    """
    value = pt.vector()
    return pytensor.function([value], pm.logp(prior, value), mode=Mode("py", "fast_compile"))


def scales(
    shared: Design, personal: Design, values: Mapping[str, Any], arrays: Any = Arrays
) -> Scales:
    """Return the scales that hyperparameters give.

    Parameters
    ----------
    shared, personal : Design
    values : mapping of str to ndarray or TensorVariable
        Natural values by name, of equal shapes (...).
    arrays : class
        Operations of NumPy or PyTensor.
    """
    noise = values[NOISE]

    def sds(design: Design, owner: str) -> Any:
        parts = [np.zeros(0) * noise[..., None]]
        for term, span in zip(design.terms, design.spans(), strict=True):
            size = span.stop - span.start
            sd = values.get(f"{owner}{term.name}.sd", DIFFUSE + 0 * noise)[..., None]
            if term.smooth and not term.joint:
                root = spectral_root(values[f"{owner}{term.name}.lengthscale"], arrays)
                parts += [sd * root] * (size // BASIS)
            else:
                parts.append(sd * np.ones(size))
        return arrays.concatenate(parts, axis=-1)

    own = sds(personal, OWN)
    q = personal.size
    root: Any = np.eye(q)
    places = {t.name: span.start for t, span in zip(personal.terms, personal.spans(), strict=True)}
    for term in correlated(personal):
        level, line = places[LEVEL], places[term.name]
        r = values[f"{OWN}{term.name}.{CORRELATION}"][..., None, None]
        root = root + r * _unit(q, line, level) + ((1 - r**2) ** 0.5 - 1) * _unit(q, line, line)
    return Scales(sds(shared, ""), own[..., :, None] * root, noise)


def _unit(size: int, row: int, column: int) -> np.ndarray:
    """Return a matrix of zeros with a one at one place."""
    return np.outer(np.arange(size) == row, np.arange(size) == column).astype(float)
