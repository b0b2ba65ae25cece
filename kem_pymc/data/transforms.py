"""Transforms g of skewed targets: g(y) is modelled, and predictions are transformed back to y.

Each transform is increasing, and given by a name and at most one parameter, which is estimated from
pilot users.
"""

from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p
from scipy.stats import skew, yeojohnson_llf

from kem_pymc.data.validation import filled
from kem_pymc.errors import InputError

Name = Literal["sqrt", "log", "log1p", "yeo-johnson"]
NAMES: tuple[Name, ...] = get_args(Name)

#: Limit of transformed values before their exponential is taken, which would overflow.
LARGEST = 700.0

#: Targets with a larger skewness are strongly skewed.
STRONG_SKEW = 1.5

#: Range of lambda in which the Yeo-Johnson transform maps onto all real numbers.
LAMBDAS = (0.0, 2.0)


@dataclass(frozen=True)
class Transform:
    """An increasing function g of the target.

    Parameters
    ----------
    name : {"sqrt", "log", "log1p", "yeo-johnson"}
        Name of the transform. ``sqrt`` is the square root of y + c, where c is zero or, if pilot
        users have zeros, half of their smallest positive target (Tukey's started root: the root
        itself has an infinite slope at zero). ``yeo-johnson`` is the transform of Yeo and Johnson
        (2000), with lambda between 0 and 2.
    parameter : float
        c for ``sqrt`` or lambda for ``yeo-johnson``; must be 0 for the other transforms.

    Raises
    ------
    InputError
        If there is no transform of that name, or the parameter is out of range.
    """

    name: Name
    parameter: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name in NAMES):
            raise InputError(f"There is no transform {self.name!r}. Use one of {', '.join(NAMES)}.")
        high = LAMBDAS[1] if self.name == "yeo-johnson" else np.inf if self.name == "sqrt" else 0.0
        if not (np.isfinite(self.parameter) and 0 <= self.parameter <= high):
            raise InputError(
                f"The transform {self.name} has the parameter {self.parameter}. "
                f"Give a parameter from 0 to {high:g}."
            )

    @classmethod
    def learn(cls, name: Name, targets: npt.ArrayLike) -> Self:
        """Return a transform with its parameter estimated from the targets of pilot users.

        Parameters
        ----------
        name : {"sqrt", "log", "log1p", "yeo-johnson"}
        targets : array_like, shape (n,)

        Raises
        ------
        InputError
            If there is no transform of that name.
        """
        cls(name)  # raises where there is none
        y = np.asarray(targets, dtype=np.float64)
        parameter = 0.0
        if name == "sqrt" and (y == 0).any() and (y > 0).any():
            parameter = float(y[y > 0].min() / 2)
        elif name == "yeo-johnson":
            with np.errstate(all="ignore"):  # without a likelihood of tiny targets any value does
                optimum = minimize_scalar(
                    lambda value: -yeojohnson_llf(value, y), bounds=LAMBDAS, method="bounded"
                )
            parameter = float(optimum.x)
        return cls(name, parameter)

    @property
    def lowest(self) -> float:
        """Lower end of the domain, included for sqrt and excluded for log and log1p."""
        return {"sqrt": 0.0 - self.parameter, "log": 0.0, "log1p": -1.0}.get(self.name, -np.inf)

    def forward(self, y: npt.ArrayLike, whose: str = "") -> np.ndarray:
        """Return g(y).

        Parameters
        ----------
        y : array_like, any shape
            Targets.
        whose : str
            Origin of the targets for error messages, like " of user 3".

        Returns
        -------
        ndarray, same shape

        Raises
        ------
        InputError
            If a value is outside the domain.
        """
        y = filled(y)
        out = y < self.lowest if self.name == "sqrt" else y <= self.lowest
        if out.any():
            least = "of at least" if self.name == "sqrt" else "above"
            remedy = "yeo-johnson is defined for all numbers" + (
                ", log1p also for zero" if self.name == "log" and not (y <= -1).any() else ""
            )
            raise InputError(
                f"The target {y[out][0]:g}{whose} can't be transformed by {self.name}, which is "
                f"defined for numbers {least} {self.lowest:g}. "
                f"Use another transform ({remedy}), or none."
            )
        if self.name == "sqrt":
            return np.sqrt(y + self.parameter)
        if self.name == "log":
            return np.log(y)
        if self.name == "log1p":
            return np.log1p(y)
        power = np.where(y < 0, 2 - self.parameter, self.parameter)
        return np.sign(y) * boxcox1p(np.abs(y), power)

    def inverse(self, z: npt.ArrayLike) -> np.ndarray:
        """Return the y with g(y) = z, for z of any shape.

        For sqrt, a negative z gives the lower end of the domain.
        """
        z = np.asarray(z, dtype=np.float64)
        if self.name == "sqrt":
            return np.maximum(z, 0.0) ** 2 - self.parameter
        if self.name == "log":
            return np.exp(np.minimum(z, LARGEST))
        if self.name == "log1p":
            return np.expm1(np.minimum(z, LARGEST))
        power = np.where(z < 0, 2 - self.parameter, self.parameter)
        bounded = np.minimum(np.abs(z), np.where(power > 0, np.inf, LARGEST))
        return np.sign(z) * inv_boxcox1p(bounded, power)

    def log_slope(self, y: npt.ArrayLike) -> np.ndarray:
        """Return log g'(y), which is added to the log density of g(y) to obtain that of y."""
        y = np.asarray(y, dtype=np.float64)
        if self.name == "sqrt":
            return -np.log(2.0) - 0.5 * np.log(y + self.parameter)
        if self.name == "log":
            return -np.log(y)
        if self.name == "log1p":
            return -np.log1p(y)
        return np.sign(y) * (self.parameter - 1) * np.log1p(np.abs(y))

    def label(self, target: str) -> str:
        """Return a label of the transformed target, like "log(y)"."""
        if self.name == "sqrt" and self.parameter:
            return f"sqrt({target} + {self.parameter:.3g})"
        return f"{self.name}({target})"


def advice(targets: npt.ArrayLike) -> str | None:
    """Return why pilot users' targets may need a transform, and which one.

    Parameters
    ----------
    targets : array_like, shape (n,)

    Returns
    -------
    str or None
        End of a sentence about the target; None if no transform is needed.
    """
    y = np.asarray(targets, dtype=np.float64)
    if np.ptp(y) == 0:
        return None
    skewness = float(skew(y))
    if skewness > STRONG_SKEW:
        which = "log" if (y > 0).all() else "log1p" if (y >= 0).all() else "yeo-johnson"
        return f"is strongly skewed (skewness {skewness:.1f}); {which} or sqrt may suit it better"
    if skewness < -STRONG_SKEW:
        return f"is strongly skewed (skewness {skewness:.1f}); yeo-johnson may suit it better"
    return None
