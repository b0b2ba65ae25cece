"""How data are scaled before a model sees them, as learned from pilot users, and scaled back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kem_pymc.checks import check_varies, frozen
from kem_pymc.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import base_kernel, category_offset
from kem_pymc.kernels.composition import Candidate, Factor
from kem_pymc.transforms import Name, Transform


@dataclass(frozen=True, eq=False)
class Scaling:
    """How inputs and targets are scaled before a model sees them, and scaled back after.

    Numbers of categories aren't scaled: with L levels, 1 / L - 1/2 is added to them, by which the
    kernel CAT knows L.

    Parameters
    ----------
    feature_low, feature_high : ndarray, shape (D,)
        In the users' units; they become 0 and 1.
    target_mean, target_sd : float
        In the target's unit; the target becomes (y - mean) / sd. With a transform g they are of
        g(y), which becomes (g(y) - mean) / sd.
    transform : Transform, optional
        Of skewed targets.

    Raises
    ------
    InputError
        If a value isn't finite, a range is empty, or the sd isn't positive.
    """

    feature_low: np.ndarray
    feature_high: np.ndarray
    target_mean: float
    target_sd: float
    transform: Transform | None = None

    def __post_init__(self) -> None:
        low, high = frozen(self.feature_low), frozen(self.feature_high)
        sound = low.ndim == 1 and low.shape == high.shape and bool(np.all(low < high))
        numbers = [*np.ravel(low), *np.ravel(high), self.target_mean, self.target_sd]
        if not (sound and np.all(np.isfinite(numbers)) and self.target_sd > 0):
            raise InputError(
                "The scaling has an empty or infinite range. "
                "Give finite values, each low below its high, and a positive sd."
            )
        object.__setattr__(self, "feature_low", low)
        object.__setattr__(self, "feature_high", high)
        object.__setattr__(self, "target_mean", float(self.target_mean))
        object.__setattr__(self, "target_sd", float(self.target_sd))

    @classmethod
    def identity(cls, dimension: int) -> Self:
        """Return the scaling that changes nothing, for `dimension` features."""
        return cls(np.zeros(dimension), np.ones(dimension), 0.0, 1.0)

    @classmethod
    def none(cls, cohort: Cohort) -> Self:
        """Return the scaling that changes nothing but what categories need."""
        dimension = cohort.dimension
        return cls(*_ranges(cohort, np.zeros(dimension), np.ones(dimension)), 0.0, 1.0)

    @classmethod
    def unit(cls, cohort: Cohort, transform: Name | None = None) -> Self:
        """Return the scaling of features to [0, 1] and of the target to mean 0, sd 1.

        It looks at this cohort only, each point once: give it the pilot users (section 10.2.1).

        Parameters
        ----------
        cohort : Cohort
        transform : {"sqrt", "log", "log1p", "yeo-johnson"}, optional
            What is done to the target before, see :class:`kem_pymc.transforms.Transform`.

        Raises
        ------
        InputError
            If a feature or the target is constant, or can't be transformed so.
        """
        x, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
        check_varies((*cohort.features, cohort.target), np.column_stack([x, y]))
        learned = None if transform is None else Transform.learn(transform, y)
        ranges = _ranges(cohort, x.min(axis=0), x.max(axis=0))
        y = cls(*ranges, 0.0, 1.0, learned).targets_of(cohort)
        return cls(*ranges, y.mean(), y.std(), learned)

    def inputs(self, x: npt.ArrayLike) -> np.ndarray:
        """Scale inputs, shape (..., D).

        Raises
        ------
        InputError
            If there are not D columns.
        """
        x = np.asarray(x, dtype=np.float64)
        if x.shape[-1:] != self.feature_low.shape:
            raise InputError(
                f"The inputs have shape {x.shape}. "
                f"Give {len(self.feature_low)} columns, one per feature of the pilot cohort."
            )
        return (x - self.feature_low) / (self.feature_high - self.feature_low)

    def targets(self, y: npt.ArrayLike, whose: str = "") -> np.ndarray:
        """Scale targets, any shape.

        Raises
        ------
        InputError
            If one can't be transformed; `whose` it is, like " of user 3", is in the message.
        """
        y = np.asarray(y, dtype=np.float64)
        y = y if self.transform is None else self.transform.forward(y, whose)
        return (y - self.target_mean) / self.target_sd

    def targets_of(self, cohort: Cohort) -> np.ndarray:
        """Scale the targets of all users of a cohort; shape (n,), user by user.

        Raises
        ------
        InputError
            If one can't be transformed.
        """
        users = zip(cohort.users, cohort.targets, strict=True)
        return np.concatenate([self.targets(y, f" of user {user}") for user, y in users])

    def targets_back(self, y: npt.ArrayLike) -> np.ndarray:
        """Return scaled targets, or quantiles of what they may be, in the target's unit."""
        back = self.mean_back(y)
        return back if self.transform is None else self.transform.inverse(back)

    @property
    def target_unit(self) -> float:
        """The target's sd; with a transform, half of what mean - sd to mean + sd of it span."""
        low, high = self.targets_back([-1.0, 1.0])
        return float(high - low) / 2

    def target_label(self, target: str) -> str:
        """Return what :meth:`mean_back` and :meth:`sd_back` are in the unit of."""
        return target if self.transform is None else self.transform.label(target)

    def mean_back(self, mean: npt.ArrayLike) -> np.ndarray:
        """Return a mean in the target's unit, or that of the transformed target."""
        return np.asarray(mean) * self.target_sd + self.target_mean

    def sd_back(self, sd: npt.ArrayLike) -> np.ndarray:
        """Return an sd in the target's unit, or that of the transformed target."""
        return np.asarray(sd) * self.target_sd

    def variance_back(self, variance: npt.ArrayLike) -> np.ndarray:
        """Return a variance in the target's unit squared, or that of the transformed target."""
        return np.asarray(variance) * self.target_sd**2

    def hyperparameters_back(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a kernel's hyperparameters, and the noise, in the users' units.

        The same kernel for data in their own units: lengthscales, periods and shifts are in the
        feature's unit (PER's lengthscale has none), amplitudes and the noise variance in the
        target's unit squared, or that of the transformed target. With LIN an amplitude is the
        variance of a slope.

        Parameters
        ----------
        values : mapping of str to number or array
            By name in scaled units, like ``{"SE3.lengthscale": 0.2, "noise": 0.1}``: of a
            selection, or draws of a :class:`kem_pymc.ClusterModel`.

        Returns
        -------
        dict
            The same names.

        Raises
        ------
        InputError
            If a name is no hyperparameter's.
        """
        return {name: self._back(name, value) for name, value in values.items()}

    def _back(self, name: str, value: Any) -> Any:
        if name == "noise":
            return value * self.target_sd**2
        extent = self.feature_high - self.feature_low
        candidate = Candidate.parse(name.partition(".")[0], len(extent))
        kinds = {h.name: h.kind for h in candidate.hyperparameters}
        if name not in kinds:
            raise InputError(
                f"{name!r} is no hyperparameter of {candidate}. "
                f"Names look like {next(iter(kinds))}."
            )
        if kinds[name] == "amplitude":
            units = [extent[f.dimension] ** base_kernel(f.base).degree for f in candidate.factors]
            return value * (self.target_sd**2 / float(np.prod(units)))
        own = name.split(".")[-2].partition("#")[0]  # SE3 of SE3.lengthscale, LIN0 x SE3.SE3#2.x
        factor = Factor.parse(own)
        if kinds[name] in base_kernel(factor.base).unitless:
            return value
        origin = self.feature_low[factor.dimension] if kinds[name] == "shift" else 0.0
        return value * extent[factor.dimension] + origin

    def apply(self, cohort: Cohort) -> Cohort:
        """Return the cohort in scaled units, without its truth, which is in the users' units."""
        return replace(
            cohort,
            inputs=tuple(self.inputs(x) for x in cohort.inputs),
            targets=tuple(self.targets(y) for y in cohort.targets),
            truth=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and floats; JSON keeps every digit of them."""
        return {
            "feature_low": self.feature_low.tolist(),
            "feature_high": self.feature_high.tolist(),
            "target_mean": self.target_mean,
            "target_sd": self.target_sd,
            **({} if self.transform is None else {"transform": self.transform.to_dict()}),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the scaling that `to_dict` described.

        Raises
        ------
        InputError
            If an entry is missing or unknown, or the values make no scaling.
        """
        known = set(cls.__dataclass_fields__)
        if not known - {"transform"} <= set(state) <= known:
            raise InputError(
                f"A scaling can't be read from the entries {sorted(state)}. "
                f"Give {', '.join(cls.__dataclass_fields__)}."
            )
        transform = state.get("transform")
        if transform is None:
            return cls(**state)
        if not isinstance(transform, Mapping) or set(transform) != {"name", "parameter"}:
            raise InputError("A transform can't be read. Give its name and its parameter.")
        return cls(**{**state, "transform": Transform(**transform)})


def _ranges(cohort: Cohort, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges of features (D,), of categories those that add to their numbers."""
    for name, levels in cohort.levels.items():
        d = cohort.features.index(name)
        low[d] = -category_offset(len(levels))
        high[d] = low[d] + 1.0
    return low, high
