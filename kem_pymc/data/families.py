"""Families of targets that aren't normal: counts, classes, ordered levels, positive numbers.

The target y of a point with the latent value g has a distribution p(y | g), where g is the user's
function and a normal error, by which targets vary more than the family alone has it. Learning
replaces each p(y | g), as a function of g, by a normal likelihood of g, the pseudo-observation
(Hobbhahn and Hennig 2022); all that is exact for normal observations then applies. As with
transforms, parameters are estimated from pilot users and are the same for all users.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from kem_pymc.data.family_parameters import (
    DEGREES,
    Latent,
    cut_points,
    gamma_shape,
    heavy_tails,
    latent_values,
)
from kem_pymc.data.likelihoods import (
    LEAST,
    Binomial,
    CumulativeProbit,
    Gamma,
    Likelihood,
    Poisson,
    StudentT,
    tilted,
)
from kem_pymc.data.validation import filled
from kem_pymc.errors import InputError

Name = Literal["count", "binary", "binomial", "ordinal", "positive", "student"]
NAMES: tuple[Name, ...] = get_args(Name)

#: What the latent value of a target is called.
LATENT: dict[Name, str] = {
    "count": "log rate",
    "binary": "log odds",
    "binomial": "log odds",
    "ordinal": "probit score",
    "positive": "log mean",
    "student": "centre",
}

#: What the mean of targets is called, per unit of exposure or trial.
MEAN: dict[Name, str] = {
    "count": "rate",
    "binary": "probability",
    "binomial": "probability",
    "ordinal": "mean",
    "positive": "mean",
}

#: What the parameters of families are that have any.
PARAMETERS: dict[Name, str] = {
    "ordinal": "the lowest level, a whole number, and increasing cut points",
    "positive": "a positive shape",
    "student": "degrees of freedom above 2 and a positive scale",
}

#: Fraction of zeros from which non-negative whole numbers are treated as counts with many zeros.
MANY_ZEROS = 0.1

#: Families whose targets are whole numbers.
DISCRETE: tuple[Name, ...] = ("count", "binary", "binomial", "ordinal")

#: Largest number of levels that whole numbers from 1 on are taken for, and that there may be.
FEW_LEVELS, MOST_LEVELS = 10, 30


@dataclass(frozen=True)
class Family:
    """How targets are distributed, given the latent value g of their point.

    Parameters
    ----------
    name : {"count", "binary", "binomial", "ordinal", "positive", "student"}
        Name of the family. ``count`` is Poisson with log rate g, per unit of exposure; ``binary``
        and ``binomial`` have log odds g; ``ordinal`` is the cumulative probit model P(y <= k) =
        Phi(c_k - g); ``positive`` is a gamma distribution with log mean g; ``student`` is Student's
        t around g.
    parameters : tuple of float
        For ``ordinal`` the lowest level and the increasing cut points c_k, of which there is one
        less than levels; for ``positive`` the shape; for ``student`` the degrees of freedom, above
        2, and the scale. Empty for the other families.
    latent : tuple of float, optional
        Mean and standard deviation of pilot users' latent values, around which pseudo-observations
        are made; None for ``student``, which doesn't need them.

    Raises
    ------
    InputError
        If there is no family of that name, or the parameters are not as described.
    """

    name: Name
    parameters: tuple[float, ...] = ()
    latent: Latent | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        given = _floats(self.parameters)
        if given is None or not _fits(self.name, given):
            raise InputError(
                f"The family {self.name} has the parameters {self.parameters}. "
                f"Give {PARAMETERS.get(self.name, 'no parameters')}."
            )
        object.__setattr__(self, "parameters", given)
        if self.latent is None:
            return
        moments = _floats(self.latent)
        if moments is None or len(moments) != 2 or moments[1] <= 0 or self.name == "student":
            raise InputError(
                f"The latent values of the family {self.name} are given as {self.latent}. Give "
                "their mean and a positive standard deviation, or None, as for student."
            )
        object.__setattr__(self, "latent", moments)

    @classmethod
    def learn(
        cls,
        name: Name,
        targets: Sequence[npt.ArrayLike],
        sizes: Sequence[npt.ArrayLike] | None = None,
        users: Sequence[object] | None = None,
        levels: npt.ArrayLike | None = None,
    ) -> Self:
        """Return a family with parameters estimated from pilot users.

        They maximise the likelihood where every two consecutive targets of a user have a latent
        value of their own, which is normal; so neither differences between users nor changes over
        time are taken for the spread of targets around their latent value. Levels of ``ordinal``
        are all whole numbers from the smallest to the largest target; half an observation of each
        is added, so that levels without observations keep a small probability.

        Parameters
        ----------
        name : {"count", "binary", "binomial", "ordinal", "positive", "student"}
        targets : sequence of array_like, shape (n,) each
            Targets of each user, in the order of time.
        sizes : sequence of array_like, shape (n,) each, optional
            Exposures of counts, or trials of binomials.
        users : sequence of labels, optional
            The users, for error messages.
        levels : array_like, optional
            Levels of ``ordinal`` that there are, by default those of the targets.

        Raises
        ------
        InputError
            If there is no family of that name, or a target can't belong to it.
        """
        check_name(name)
        values = [filled(y) for y in targets]
        there = np.concatenate(values) if levels is None else np.asarray(levels)
        family = cls(name, _provisional(name, there))
        each = [None] * len(values) if sizes is None else sizes
        whose = [""] * len(values) if users is None else [f" of user {user}" for user in users]
        for y, size, origin in zip(values, each, whose, strict=True):
            family.check(y, size, origin)
        if name == "ordinal":
            lowest, *others = family.parameters
            cuts, latent = cut_points(values, lowest, len(others))
            return cls(name, (lowest, *cuts), latent)
        if name == "positive":
            shape, latent = gamma_shape(values)
            return cls(name, (shape,), latent)
        if name == "student":
            return cls(name, heavy_tails(values))
        known = [np.broadcast_to(_sizes(n), y.shape) for n, y in zip(each, values, strict=True)]
        return cls(name, (), latent_values(family.likelihood, values, known))

    @cached_property
    def likelihood(self) -> Likelihood:
        """The distribution of a target, given its latent value."""
        if self.name == "count":
            return Poisson()
        if self.name in ("binary", "binomial"):
            return Binomial()
        if self.name == "ordinal":
            return CumulativeProbit(self.parameters[0], np.array(self.parameters[1:]))
        return Gamma(*self.parameters) if self.name == "positive" else StudentT(*self.parameters)

    @property
    def discrete(self) -> bool:
        """Whether targets are whole numbers, which have probabilities."""
        return self.name in DISCRETE

    @property
    def single(self) -> bool:
        """Whether targets are single trials or levels, in which more noise can't be seen."""
        return self.name in ("binary", "ordinal")

    @property
    def levels(self) -> np.ndarray:
        """The levels (L,) of ``ordinal`` or ``binary`` targets.

        Raises
        ------
        InputError
            If the family has no fixed levels.
        """
        if self.name not in ("binary", "ordinal"):
            raise InputError(
                f"The family {self.name} has no levels. Use quantiles, or log densities of targets."
            )
        low, high = self.support()
        return np.arange(float(low), float(high) + 1)

    def check(self, y: npt.ArrayLike, sizes: npt.ArrayLike | None = None, whose: str = "") -> None:
        """Check that targets, exposures and trials can belong to the family.

        Parameters
        ----------
        y : array_like, shape (n,)
            Targets.
        sizes : array_like, shape (n,), optional
            Exposures of counts, one each if they aren't given, or trials of binomials.
        whose : str
            Origin of the targets for error messages, like " of user 3".

        Raises
        ------
        InputError
            If a target or a size can't, or sizes are missing or are not for this family.
        """
        y = filled(y)
        self.check_sizes(sizes, y.shape, whose)
        if self.discrete:
            _check_whole(y, whose, self.name)
        low, high = self.support(sizes)
        out = ~np.isfinite(y) | (y < low) | (y > high)
        if self.name == "positive":
            out |= y == 0
        if out.any():
            domain = {
                "count": "whole numbers from 0 on",
                "binary": "0 and 1",
                "binomial": "whole numbers from 0 to the number of trials",
                "ordinal": f"the levels {low:g} to {np.max(high):g} of the pilot users",
                "positive": "numbers above 0",
                "student": "finite numbers",
            }[self.name]
            raise InputError(
                f"The target {y[out][0]:g}{whose} can't belong to the family {self.name}, which is "
                f"for {domain}. Use another family, or none."
            )

    def check_sizes(
        self, sizes: npt.ArrayLike | None, shape: tuple[int, ...], whose: str = ""
    ) -> None:
        """Check exposures or trials of targets of some shape; see :meth:`check`."""
        if self.name not in ("count", "binomial"):
            if sizes is not None:
                raise InputError(
                    f"There are exposures or trials{whose}, but targets of the family {self.name} "
                    "have none. Leave them out, or use the family count or binomial."
                )
            return
        if sizes is None:
            if self.name == "binomial":
                raise InputError(
                    f"There are no numbers of trials{whose}, which the family binomial needs. Give "
                    "one for each target, or use the family binary for single trials."
                )
            return
        n = filled(sizes)
        if n.shape != shape:
            raise InputError(
                f"There are exposures or trials of shape {n.shape} for targets of shape "
                f"{shape}{whose}. Give one for each target."
            )
        trials = self.name == "binomial"
        out = ~(np.isfinite(n) & (n > 0)) | (trials & (n != np.floor(n)))
        if out.any():
            what, which = ("number of trials", "whole") if trials else ("exposure", "finite")
            raise InputError(
                f"The {what} {n[out][0]:g}{whose} is invalid. Give {which} numbers above 0."
            )

    def support(self, sizes: npt.ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and the largest target, each () or (n,), or infinity."""
        low, high = self.likelihood.support(_sizes(sizes))
        return np.asarray(low), np.asarray(high)

    def pseudo_observations(
        self, y: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return z (n,) and v (n,), for which N(z; g, v) is about proportional to p(y | g).

        With the mean and sd of pilot users' latent values, N(z; g, v) gives the mean and variance
        that p(y | g) gives g, where g has the pilots' normal distribution before: the first step of
        expectation propagation (Minka 2001), the same for all kernels. Without them, moments of g
        follow from a vague prior (Hobbhahn and Hennig 2022): with the digamma function psi and its
        derivative psi', they are (E is the exposure, n the number of trials, s the shape or scale,
        nu the degrees of freedom)

        ========  ==============================  ====================================
        family    z                               v
        ========  ==============================  ====================================
        count     psi(y + 1/2) - log E            psi'(y + 1/2)
        binomial  psi(y + 1/2) - psi(n - y + 1/2) psi'(y + 1/2) + psi'(n - y + 1/2)
        positive  log y + log s - psi(s)          psi'(s)
        student   y                               s^2 (nu + 3) / (nu + 1)
        ========  ==============================  ====================================

        with Jeffreys' prior for the first two and a flat one for the third; the fourth has the
        Fisher information of y. The prior of ``ordinal`` is N(0, 1).

        Parameters
        ----------
        y : array_like, shape (n,)
        sizes : array_like, shape (n,), optional

        References
        ----------
        Hobbhahn and Hennig (2022). Laplace matching for fast approximate inference in latent
        Gaussian models.
        """
        y, n = np.asarray(y, dtype=np.float64), _sizes(sizes)
        if self.latent is None:
            return self.likelihood.pseudo_observations(y, n)
        mean, sd = self.latent
        _, centre, variance = tilted(
            self.likelihood, y, np.full(y.shape, mean), np.full(y.shape, sd), n
        )
        precision = np.maximum(1 / variance - sd**-2, LEAST)
        return mean + (centre - mean) / (variance * precision), 1 / precision

    def reweighted(self, residuals: npt.ArrayLike) -> np.ndarray:
        """Return variances v of pseudo-observations of ``student`` targets, given their residuals.

        A step of the EM algorithm: (nu s^2 + r^2) / (nu + 1), the larger the further y is from g.
        While g isn't known, r^2 is the expectation of (y - g)^2.

        Parameters
        ----------
        residuals : array_like, shape (n,)
            Residuals r.

        Raises
        ------
        InputError
            If the family isn't ``student``.
        """
        if not isinstance(self.likelihood, StudentT):
            raise InputError(
                f"Targets of the family {self.name} have no weights by residuals. Use the "
                "pseudo-observations, or the family student."
            )
        return self.likelihood.reweighted(np.asarray(residuals, dtype=np.float64))

    def log_density(
        self, y: npt.ArrayLike, g: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> np.ndarray:
        """Return log p(y | g), a log probability if the family is discrete.

        Parameters
        ----------
        y : array_like, shape (n,)
        g : array_like, shape (..., n)
        sizes : array_like, shape (n,), optional

        Returns
        -------
        ndarray, shape (..., n)
        """
        return self.likelihood.log_density(np.asarray(y, float), np.asarray(g), _sizes(sizes))

    def derivatives(
        self, y: npt.ArrayLike, g: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivative of log p(y | g) in g, and a positive weight, each (..., n).

        The weight is minus the second derivative. That of ``student`` may be negative; its weight
        is that of the EM algorithm, (nu + 1) / (nu s^2 + (y - g)^2).
        """
        return self.likelihood.derivatives(np.asarray(y, float), np.asarray(g), _sizes(sizes))

    def mean(self, g: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> np.ndarray:
        """Return the mean (..., n) of y given g."""
        return self.likelihood.mean(np.asarray(g, float), _sizes(sizes))

    def averaged(self, mean: npt.ArrayLike, variance: npt.ArrayLike) -> np.ndarray:
        """Return the mean of y, per unit of exposure or trial, over g with a normal distribution.

        Parameters
        ----------
        mean, variance : array_like, shape (...)
            Those of g.
        """
        return self.likelihood.averaged(np.asarray(mean, float), np.asarray(variance, float))

    def variance(self, g: npt.ArrayLike, sizes: npt.ArrayLike | None = None) -> np.ndarray:
        """Return the variance (..., n) of y given g."""
        return self.likelihood.variance(np.asarray(g, float), _sizes(sizes))

    def cdf(
        self, y: npt.ArrayLike, g: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> np.ndarray:
        """Return the probability (..., n) of at most y (n,), given g."""
        return self.likelihood.cdf(np.asarray(y, float), np.asarray(g), _sizes(sizes))

    def quantile(
        self, probability: float, g: npt.ArrayLike, sizes: npt.ArrayLike | None = None
    ) -> np.ndarray:
        """Return quantiles (..., n) of y given g, of a discrete family the next larger value."""
        return self.likelihood.quantile(probability, np.asarray(g, float), _sizes(sizes))

    def label(self, target: str) -> str:
        """Return a label of the latent value of a target, like "log rate of y"."""
        return target if self.name == "student" else f"{LATENT[self.name]} of {target}"

    def mean_label(self, target: str) -> str:
        """Return a label of the mean of targets, like "rate of y"."""
        return target if self.name == "student" else f"{MEAN[self.name]} of {target}"

    def __str__(self) -> str:
        if self.name == "ordinal":
            low, *cuts = self.parameters
            points = ", ".join(f"{cut:.2f}" for cut in cuts)
            return f"ordinal, levels {low:g} to {low + len(cuts):g} cut at {points}"
        if self.name == "positive":
            return f"positive, gamma of shape {self.parameters[0]:.3g}"
        if self.name == "student":
            degrees, scale = self.parameters
            return f"student, {degrees:.1f} degrees of freedom and scale {scale:.3g}"
        return self.name


def check_name(name: object) -> None:
    """Check that there is a family of a name.

    Raises
    ------
    InputError
    """
    if not (isinstance(name, str) and name in NAMES):
        raise InputError(f"There is no family {name!r}. Use one of {', '.join(NAMES)}.")


def advice(targets: npt.ArrayLike) -> tuple[Name, str] | None:
    """Return the family that pilot users' targets seem to have, and why.

    Parameters
    ----------
    targets : array_like, shape (n,)

    Returns
    -------
    tuple of str and str, or None
        Name of the family and the end of a sentence about the target; None if it may be normal.
    """
    y = np.asarray(targets, dtype=np.float64)
    if not ((y >= 0) & (y == np.floor(y))).all() or np.ptp(y) == 0:
        return None
    if y.max() == 1:
        return "binary", "is 0 or 1; the family binary may suit it better"
    if (zeros := np.mean(y == 0)) >= MANY_ZEROS:
        why = f"is a count with {100 * zeros:.0f} % zeros"
        return "count", f"{why}; the family count may suit it better"
    if y.min() == 1 and 3 <= y.max() <= FEW_LEVELS:
        why = f"is a whole number from 1 to {y.max():g}"
        return "ordinal", f"{why}; the family ordinal may suit it better"
    return None


def _floats(values: object) -> tuple[float, ...] | None:
    """Return finite numbers as a tuple, or None if they aren't."""
    try:
        numbers = tuple(float(value) for value in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def _fits(name: Name, parameters: tuple[float, ...]) -> bool:
    """Return whether a family can have these parameters; see :data:`PARAMETERS`."""
    if name == "ordinal":
        lowest, cuts = parameters[:1], parameters[1:]
        return len(cuts) > 0 and lowest[0].is_integer() and bool((np.diff(cuts) > 0).all())
    if name == "positive":
        return len(parameters) == 1 and parameters[0] > 0
    if name == "student":
        return len(parameters) == 2 and parameters[0] > 2 and parameters[1] > 0
    return not parameters


def _provisional(name: Name, targets: np.ndarray) -> tuple[float, ...]:
    """Return parameters of a family to which its pilot users' targets (n,) can belong."""
    if name == "ordinal":
        _check_whole(targets, "", name)
        lowest, highest = float(targets.min()), float(targets.max())
        if not 1 <= highest - lowest < MOST_LEVELS:
            raise InputError(
                f"Targets from {lowest:g} to {highest:g} have {highest - lowest + 1:g} levels. "
                f"Give 2 to {MOST_LEVELS} levels, or use another family."
            )
        return (lowest, *np.arange(highest - lowest))
    return {"positive": (1.0,), "student": (DEGREES, 1.0)}.get(name, ())


def _check_whole(y: np.ndarray, whose: str, name: str) -> None:
    """Check that targets are whole numbers; NaN and infinity aren't."""
    broken = ~np.isfinite(y) | (y != np.floor(y))
    if broken.any():
        raise InputError(
            f"The target {y[broken][0]:g}{whose} isn't a whole number, as the family {name} needs. "
            "Use another family, or none.",
            see="A whole number",
        )


def _sizes(sizes: npt.ArrayLike | None) -> np.ndarray:
    """Return exposures or trials, of which there is one where none are given."""
    return np.ones(()) if sizes is None else np.asarray(sizes, dtype=np.float64)
