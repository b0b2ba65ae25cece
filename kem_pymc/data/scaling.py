"""Scaling of inputs and targets, learned from pilot users, and conversion back to their units."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kem_pymc._system.options import check_whole, checked
from kem_pymc.data.cells import Kind
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.families import Family
from kem_pymc.data.table import check_varies
from kem_pymc.data.transforms import Name, Transform
from kem_pymc.data.validation import filled, frozen
from kem_pymc.errors import InputError
from kem_pymc.kernels.base import base_kernel, category_offset
from kem_pymc.kernels.composition import Candidate, Factor

#: Smallest sd of latent values, which are logs or probits, to which they are scaled, because few
#: targets say little of it.
LEAST_LATENT = 0.5

#: Kinds of times.
TIMES: tuple[Kind, ...] = ("numbers", "dates", "durations")

#: Name of a hyperparameter that candidates share: CHANGE0@1.location.
SHARED = re.compile(r"[A-Z]+(?P<dimension>\d+)@\d+\.(?P<kind>\w+)")


@checked
@dataclass(frozen=True, eq=False)
class Scaling:
    """Linear scaling of inputs and targets, with an optional transform of the target.

    The codes of categories aren't scaled: with L levels, 1 / L - 1/2 is added to them, from which
    the kernel CAT determines L.

    Parameters
    ----------
    feature_low, feature_high : ndarray, shape (D,)
        Values of the features, in the users' units, that become 0 and 1.
    target_mean, target_sd : float
        Mean and standard deviation of the target, in its unit; the target becomes (y - mean) / sd.
        With a transform g they are those of g(y), which becomes (g(y) - mean) / sd.
    transform : Transform, optional
        Transform g of a skewed target.
    family : Family, optional
        Family of targets that aren't normal; what is scaled is their latent values.
    time_kind : {"numbers", "dates", "durations"}, optional
        What the time of the pilot users was in their table, if it is a feature.

    Raises
    ------
    InputError
        If a value isn't finite, a range is empty, the sd isn't positive, or there is no such kind.
    """

    feature_low: np.ndarray
    feature_high: np.ndarray
    target_mean: float
    target_sd: float
    transform: Transform | None = None
    time_kind: Kind | None = None
    family: Family | None = None

    def __post_init__(self) -> None:
        low, high = (frozen(filled(ends)) for ends in (self.feature_low, self.feature_high))
        mean, sd = filled([self.target_mean, self.target_sd])
        sound = low.ndim == 1 and low.shape == high.shape and bool(np.all(low < high))
        numbers = [*np.ravel(low), *np.ravel(high), mean, sd]
        if not (sound and np.all(np.isfinite(numbers)) and sd > 0):
            raise InputError(
                "The scaling has an empty or infinite range. "
                "Give finite values, with each feature_low below its feature_high, and a positive "
                "target_sd."
            )
        if not (self.time_kind is None or str(self.time_kind) in TIMES):
            raise InputError(
                f"There is no time of {self.time_kind!r}. Give one of {', '.join(TIMES)}, or none."
            )
        if self.transform is not None and self.family is not None:
            raise InputError("The target has a transform and a family. Choose one of them.")
        object.__setattr__(self, "feature_low", low)
        object.__setattr__(self, "feature_high", high)
        object.__setattr__(self, "target_mean", float(mean))
        object.__setattr__(self, "target_sd", float(sd))

    @classmethod
    def identity(cls, dimension: int) -> Self:
        """Return the scaling that changes nothing, for D = `dimension` features."""
        check_whole(dimension=dimension)
        return cls(np.zeros(dimension), np.ones(dimension), 0.0, 1.0)

    @classmethod
    def none(cls, cohort: Cohort) -> Self:
        """Return the scaling that changes nothing except the codes of categories."""
        ranges = _ranges(cohort, np.zeros(cohort.dimension), np.ones(cohort.dimension))
        return cls(*ranges, 0.0, 1.0, time_kind=cohort.time_kind, family=cohort.family)

    @classmethod
    def unit(cls, cohort: Cohort, transform: Name | None = None) -> Self:
        """Return the scaling of features to [0, 1] and of the target to mean 0, sd 1.

        Of a family they are mean and sd of latent values: what the noise of pseudo-observations
        leaves of their variance, or, where that is less, as it is of rare events, those under which
        the targets are most probable (:attr:`Family.latent`); these leave out what changes between
        consecutive targets.
        It is computed from this cohort only, with each point counted once: give it the pilot users
        (section 10.2.1).

        Parameters
        ----------
        cohort : Cohort
            Pilot users.
        transform : {"sqrt", "log", "log1p", "yeo-johnson"}, optional
            Transform that is applied to the target before it is scaled, see
            :class:`kem_pymc.data.transforms.Transform`.

        Raises
        ------
        InputError
            If a feature or the target is constant, or the target can't be transformed.
        """
        x, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
        check_varies((*cohort.features, cohort.target), np.column_stack([x, y]))
        learned = None if transform is None else Transform.learn(transform, y)
        ranges, family = _ranges(cohort, x.min(axis=0), x.max(axis=0)), cohort.family
        scaled = cls(*ranges, 0.0, 1.0, learned, cohort.time_kind, family).apply(cohort)
        y = np.concatenate(scaled.targets)
        check_varies((cohort.target,), y[:, None])  # a transform can make tiny values equal
        moments = float(y.mean()), float(y.std())
        if family is not None and scaled.noise is not None:
            moments = _latent_moments(y, np.concatenate(scaled.noise))
        if family is not None and family.latent is not None and family.latent[1] > moments[1]:
            moments = family.latent
        return cls(*ranges, *moments, learned, cohort.time_kind, family)

    def check_time(self, cohort: Cohort) -> None:
        """Check that the time of users is of the kind that it was for pilot users.

        Nothing is checked where one of the kinds isn't known.

        Raises
        ------
        InputError
            If it is of another kind, since its unit may differ then.
        """
        if None not in (cohort.time_kind, self.time_kind) and cohort.time_kind != self.time_kind:
            raise InputError(
                f"{cohort.time} has {cohort.time_kind}, but it had {self.time_kind} for the pilot "
                f"users, so its unit isn't the same. Give {self.time_kind}"
                f"{' in their unit' if self.time_kind == 'numbers' else ''}.",
                see="Another unit of time",
            )

    def inputs(self, x: npt.ArrayLike) -> np.ndarray:
        """Scale inputs, shape (..., D).

        Raises
        ------
        InputError
            If there are not D columns.
        """
        x = filled(x)
        many = len(self.feature_low)
        if x.shape[-1:] != (many,):
            raise InputError(
                f"The inputs have shape {x.shape}. "
                f"Give {many} column{'s' * (many > 1)}, one per feature."
            )
        return (x - self.feature_low) / (self.feature_high - self.feature_low)

    def targets(self, y: npt.ArrayLike, whose: str = "") -> np.ndarray:
        """Scale targets.

        Parameters
        ----------
        y : array_like, any shape
            Targets, in the users' units.
        whose : str
            Origin of the targets for error messages, like " of user 3".

        Raises
        ------
        InputError
            If a target can't be transformed.
        """
        y = filled(y)
        y = y if self.transform is None else self.transform.forward(y, whose)
        return (y - self.target_mean) / self.target_sd

    def observations(
        self,
        y: npt.ArrayLike,
        noise: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
        whose: str = "",
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Scale targets (n,) and the known standard deviations (n,) of their noise, if given.

        With a transform g, a standard deviation is multiplied by g'(y) (delta method). With a
        family they are pseudo-observations of latent values, given exposures or trials.

        Raises
        ------
        InputError
            If a target can't be transformed or doesn't belong to the family, or something is given
            that the family doesn't have.
        """
        if self.family is not None:
            if noise is not None:
                raise InputError(
                    f"The noise of targets of the family {self.family.name} can't be known beside "
                    "it. Leave out {noise}.",
                    noise=...,
                )
            self.family.check(y, sizes, whose)
            latent, variances = self.family.pseudo_observations(y, sizes)
            return (latent - self.target_mean) / self.target_sd, np.sqrt(variances) / self.target_sd
        if sizes is not None:
            raise InputError(
                "There are exposures or trials of targets without a family. Leave them out, or "
                "give the family count or binomial."
            )
        targets = self.targets(y, whose)
        if noise is None:
            return targets, None
        slope = 1.0 if self.transform is None else np.exp(self.transform.log_slope(y))
        return targets, filled(noise) * slope / self.target_sd

    def targets_back(self, y: npt.ArrayLike) -> np.ndarray:
        """Convert scaled targets, or quantiles of them, to the target's unit."""
        back = self.mean_back(y)
        return back if self.transform is None else self.transform.inverse(back)

    @property
    def target_unit(self) -> float:
        """Standard deviation of the target, in its unit.

        With a transform, half of the distance between mean - sd and mean + sd of the transformed
        target, both transformed back. With a family it is one, the unit of the target itself.
        """
        if self.family is not None:
            return 1.0
        low, high = self.targets_back([-1.0, 1.0])
        return float(high - low) / 2

    def target_label(self, target: str) -> str:
        """Return a label of the quantity in whose unit :meth:`mean_back` and :meth:`sd_back` are.

        This is the target, or the transformed target.
        """
        if self.family is not None:
            return self.family.label(target)
        return target if self.transform is None else self.transform.label(target)

    def mean_back(self, mean: npt.ArrayLike) -> np.ndarray:
        """Convert a scaled mean to the unit of the target, or of the transformed target."""
        return filled(mean) * self.target_sd + self.target_mean

    def sd_back(self, sd: npt.ArrayLike) -> np.ndarray:
        """Convert a scaled sd to the unit of the target, or of the transformed target."""
        return filled(sd) * self.target_sd

    def variance_back(self, variance: npt.ArrayLike) -> np.ndarray:
        """Convert a scaled variance to the squared unit of the target, or transformed target."""
        return filled(variance) * self.target_sd**2

    def hyperparameters_back(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the hyperparameters of a kernel, and the noise variance, to the users' units.

        The result is the same kernel for unscaled data: lengthscales, periods and shifts are in the
        feature's unit (PER's lengthscale has none), amplitudes and the noise variance in the
        target's unit squared, or that of the transformed target. With LIN an amplitude is the
        variance of a slope.

        Parameters
        ----------
        values : mapping of str to number or array
            Values in scaled units, by name, like ``{"SE3.lengthscale": 0.2, "noise": 0.1}``: those
            of a selection, or draws of a :class:`kem_pymc.ClusterModel`.

        Returns
        -------
        dict
            Values in the users' units, by the same names.

        Raises
        ------
        InputError
            If a name isn't the name of a hyperparameter.
        """
        return {name: self._back(name, value) for name, value in values.items()}

    def _back(self, name: str, value: Any) -> Any:
        if name == "noise":
            return value * self.target_sd**2
        extent = self.feature_high - self.feature_low
        if shared := SHARED.fullmatch(name):
            dimension = int(shared["dimension"])
            origin = self.feature_low[dimension] if shared["kind"] == "location" else 0.0
            return value * extent[dimension] + origin
        candidate = Candidate.parse(name.partition(".")[0], len(extent))
        kinds = {h.name: h.kind for h in candidate.hyperparameters}
        if name not in kinds:
            raise InputError(
                f"{name!r} isn't a hyperparameter of {candidate}. "
                f"Use a name like {next(iter(kinds))}."
            )
        if kinds[name] == "amplitude":
            units = [extent[f.dimension] ** base_kernel(f.base).degree for f in candidate.factors]
            return value * (self.target_sd**2 / float(np.prod(units)))
        # The factor: SE3 both in SE3.lengthscale and in LIN0 x SE3.SE3#2.x.
        text = name.split(".")[-2].partition("#")[0]
        factor = Factor.parse(text)
        if kinds[name] in base_kernel(factor.base).unitless:
            return value
        origin = self.feature_low[factor.dimension] if kinds[name] == "shift" else 0.0
        return value * extent[factor.dimension] + origin

    def apply(self, cohort: Cohort) -> Cohort:
        """Return the cohort in scaled units.

        Its truth is removed, because it is in the users' units.

        Raises
        ------
        InputError
            If the time is of another kind than that of the pilot users.
        """
        self.check_time(cohort)
        if cohort.family is None:
            cohort = replace(cohort, family=self.family)
        if cohort.family != self.family:
            raise InputError(
                f"The targets' family is {cohort.family}, and that of the pilot users "
                f"{self.family or 'normal'}. Give the pilot cohort's family to both."
            )
        latent, linear = cohort.on_latent_scale(), replace(self, family=None)
        users = enumerate(zip(latent.users, latent.targets, strict=True))
        scaled = [
            linear.observations(y, **latent.given(u), whose=f" of user {user}")
            for u, (user, y) in users
        ]
        noise = [sds for _, sds in scaled if sds is not None]
        return replace(
            latent,
            inputs=tuple(self.inputs(x) for x in cohort.inputs),
            targets=tuple(targets for targets, _ in scaled),
            noise=tuple(noise) if noise else None,
            target=cohort.target,
            truth=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the scaling as a dict of lists and floats, which JSON stores without rounding."""
        return {
            "feature_low": self.feature_low.tolist(),
            "feature_high": self.feature_high.tolist(),
            "target_mean": self.target_mean,
            "target_sd": self.target_sd,
            **({} if self.transform is None else {"transform": asdict(self.transform)}),
            **({} if self.family is None else {"family": asdict(self.family)}),
            **({} if self.time_kind is None else {"time_kind": self.time_kind}),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the scaling from the output of :meth:`to_dict`.

        Raises
        ------
        InputError
            If an entry is missing or unknown, or the values don't define a scaling.
        """
        entries = set(cls.__dataclass_fields__)
        known = isinstance(state, Mapping) and set(state) <= entries
        if not (known and entries - {"transform", "family", "time_kind"} <= set(state)):
            raise InputError(
                f"A scaling can't be read from {state!r}. "
                f"Give {', '.join(cls.__dataclass_fields__)}."
            )
        made: dict[str, Any] = {}
        for name, kind in (("transform", Transform), ("family", Family)):
            if (given := state.get(name)) is not None:
                if not isinstance(given, Mapping) or {*given} != {*kind.__dataclass_fields__}:
                    parts = " and its ".join(kind.__dataclass_fields__)
                    raise InputError(f"A {name} can't be read. Give its {parts}.")
                made[name] = kind(**given)
        return cls(**{**state, **made})


def transformed(cohort: Cohort, transform: Transform | Name | None) -> Cohort:
    """Return a cohort with transformed targets, whose name says so; the same without a transform.

    If the transform is given by its name, its parameter is estimated from the cohort.

    Raises
    ------
    InputError
        If a target can't be transformed.
    """
    if transform is None:
        return cohort
    learned = transform
    if not isinstance(learned, Transform):
        learned = Transform.learn(learned, np.concatenate(cohort.targets))
    users = zip(cohort.users, cohort.targets, strict=True)
    targets = tuple(learned.forward(y, f" of user {user}") for user, y in users)
    return replace(cohort, targets=targets, target=learned.label(cohort.target))


def _latent_moments(latent: np.ndarray, noise: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of latent values, given noisy observations (n,).

    The mean has weights by precision, and the variance is what the noise leaves of that of the
    observations, but at least that of `LEAST_LATENT`.
    """
    weights = 1 / (1 + noise**2)
    mean = float(weights @ latent / weights.sum())
    variance = float(weights @ ((latent - mean) ** 2 - noise**2) / weights.sum())
    return mean, max(variance, LEAST_LATENT**2) ** 0.5


def _ranges(cohort: Cohort, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the low and high ends of the ranges of features, shape (D,) each.

    For a category the range has length 1, so that scaling only adds the offset to its codes.
    """
    for name, levels in cohort.levels.items():
        d = cohort.features.index(name)
        low[d] = -category_offset(len(levels))
        high[d] = low[d] + 1.0
    return low, high
