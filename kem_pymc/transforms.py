"""Transforms of skewed targets: what is modelled is g(y), and predictions come back as y.

Each is increasing and known by a name and at most one number, which is learned from pilot users.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import boxcox1p, inv_boxcox1p
from scipy.stats import skew, yeojohnson_llf

from kem_pymc.errors import InputError

Name = Literal["sqrt", "log", "log1p", "yeo-johnson"]
NAMES: tuple[Name, ...] = get_args(Name)

#: Transformed values beyond this are as good as infinite, and their exponential overflows.
LARGEST = 700.0

#: Targets with a larger skewness are strongly skewed.
STRONG_SKEW = 1.5

#: Whole numbers from zero on with so large a share of zeros are counts with many of them.
MANY_ZEROS = 0.1

#: With lambda in this range every real number is some target's Yeo-Johnson transform.
LAMBDAS = (0.0, 2.0)


@dataclass(frozen=True)
class Transform:
    """An increasing function g of the target.

    Parameters
    ----------
    name : {"sqrt", "log", "log1p", "yeo-johnson"}
        ``sqrt`` is the square root of y + c, with c zero or, where pilot users have zeros, half of
        their smallest positive target (Tukey's started root: the root itself has an infinite slope
        at zero). ``yeo-johnson`` is Yeo and Johnson's (2000), with lambda between 0 and 2.
    parameter : float
        c or lambda; the others have none, and 0.

    Raises
    ------
    InputError
        If there is no transform of that name, or the number is out of range.
    """

    name: Name
    parameter: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise InputError(f"There is no transform {self.name!r}. Use one of {', '.join(NAMES)}.")
        high = LAMBDAS[1] if self.name == "yeo-johnson" else np.inf if self.name == "sqrt" else 0.0
        if not (np.isfinite(self.parameter) and 0 <= self.parameter <= high):
            raise InputError(
                f"The transform {self.name} has the number {self.parameter}. "
                f"Give one from 0 to {high:g}."
            )

    @classmethod
    def learn(cls, name: Name, targets: npt.ArrayLike) -> Self:
        """Return a transform with its number learned from pilot users' targets, shape (n,).

        Raises
        ------
        InputError
            If there is no such transform.
        """
        y = np.asarray(targets, dtype=np.float64)
        parameter = 0.0
        if name == "sqrt" and (y == 0).any() and (y > 0).any():
            parameter = float(y[y > 0].min() / 2)
        elif name == "yeo-johnson":
            found = minimize_scalar(
                lambda value: -yeojohnson_llf(value, y), bounds=LAMBDAS, method="bounded"
            )
            parameter = float(found.x)
        return cls(name, parameter)

    @property
    def lowest(self) -> float:
        """Targets must be at least this, and above it under log and log1p."""
        return {"sqrt": 0.0 - self.parameter, "log": 0.0, "log1p": -1.0}.get(self.name, -np.inf)

    def forward(self, y: npt.ArrayLike, whose: str = "") -> np.ndarray:
        """Return g(y), any shape.

        Raises
        ------
        InputError
            If a value is outside the domain; `whose` it is, like " of user 3", is in the message.
        """
        y = np.asarray(y, dtype=np.float64)
        out = y < self.lowest if self.name == "sqrt" else y <= self.lowest
        if out.any():
            least = "at least" if self.name == "sqrt" else "above"
            remedy = "yeo-johnson takes any number" + (
                ", log1p zeros" if self.name == "log" and not (y <= -1).any() else ""
            )
            raise InputError(
                f"The target {y[out][0]:g}{whose} can't be transformed by {self.name}, which takes "
                f"numbers {least} {self.lowest:g}. Use another transform ({remedy}), or none."
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
        """Return the y with g(y) = z, any shape; under sqrt the lowest one for negative z."""
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
        """Return log g'(y), by which densities of g(y) become densities of y."""
        y = np.asarray(y, dtype=np.float64)
        if self.name == "sqrt":
            return -np.log(2.0) - 0.5 * np.log(y + self.parameter)
        if self.name == "log":
            return -np.log(y)
        if self.name == "log1p":
            return -np.log1p(y)
        return np.sign(y) * (self.parameter - 1) * np.log1p(np.abs(y))

    def label(self, target: str) -> str:
        """Return how the transformed target is called."""
        if self.name == "sqrt" and self.parameter:
            return f"sqrt({target} + {self.parameter:.3g})"
        return f"{self.name}({target})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": self.name, "parameter": self.parameter}


def advice(targets: npt.ArrayLike) -> str | None:
    """Return why a transform may help pilot users' targets (n,), and which; None if none need.

    Parameters
    ----------
    targets : array_like, shape (n,)
    """
    y = np.asarray(targets, dtype=np.float64)
    if np.ptp(y) == 0:
        return None
    found, counts = float(skew(y)), (y >= 0).all() and (y == np.floor(y)).all()
    if counts and (y == 0).mean() >= MANY_ZEROS:
        return f"is a count with {np.mean(y == 0):.0%} zeros; sqrt or log1p may suit it better"
    if found > STRONG_SKEW:
        which = "log" if (y > 0).all() else "log1p" if (y >= 0).all() else "yeo-johnson"
        return f"is strongly skewed (skewness {found:.1f}); {which} or sqrt may suit it better"
    if found < -STRONG_SKEW:
        return f"is strongly skewed (skewness {found:.1f}); yeo-johnson may suit it better"
    return None
