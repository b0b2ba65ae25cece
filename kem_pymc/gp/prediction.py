"""The predictive distribution of one kernel, or of a mixture of kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from kem_pymc._system.display import Display, Displayed, Listing, beyond, number, plural
from kem_pymc._system.options import checked
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_noise, filled
from kem_pymc.errors import InputError
from kem_pymc.gp.calibration import Calibration
from kem_pymc.gp.mixture import Mixture
from kem_pymc.gp.response import Response

#: Maximum number of inputs that are displayed.
SHOWN = 10


@dataclass(frozen=True, eq=False)
class Component:
    """Contribution of one candidate to a prediction.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Posterior mean and standard deviation of the candidate's own function.
    """

    mean: np.ndarray
    sd: np.ndarray


class Moments(NamedTuple):
    """What one kernel predicts at m inputs.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Of the latent function.
    noise : ndarray, shape (m,)
        Variance of an observation around it.
    components : dict of str to Component
    """

    mean: np.ndarray
    sd: np.ndarray
    noise: np.ndarray
    components: Mapping[str, Component]


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Displayed):
    """The predictive distribution at m inputs.

    Attributes
    ----------
    function : Mixture
        Distribution of the latent function, a mixture over K kernels or values. If the target is
        transformed, `mean` and `sd` are those of the target itself, by quadrature, and so are
        quantiles and densities of an `observation`; components, `noise` and `offset` are those of
        the transformed target.
    noises : ndarray, shape (K, m)
        Variances of an observation around the function, for each of them.
    components : dict of str to Component
        Components by the candidate's label; ``"shared"`` is the mean process, if there is one.
        Their means and the offset add up to the mean; their sds ignore correlations between
        components.
    include_noise : bool
        Whether `mean` and `sd` are those of a new observation.
    offset : float
        Contribution of the prior mean: the pilot users' mean if targets were standardised, else 0.
    known_noise : ndarray, shape (m,), or float
        Known variances of the observations' own noise, which add to `noises`.
    family : Family, optional
        Family of the target. `function`, components, `noise` and `offset` are then those of latent
        values; `mean`, `sd`, and what is said of an `observation` are those of the target itself.
        Of ``count`` and ``positive`` they are expectations of exponentials, in which the draw with
        the largest variance decides and which are infinite for an uncertain noise variance itself:
        with few rows `mean` and `sd` may be huge. Medians and intervals aren't affected.
    sizes : ndarray, shape (m,), optional
        Exposures of counts or numbers of trials; one each by default.
    calibration : Calibration, optional
        How far calibrated intervals reach; quantiles are calibrated if it is given, and nothing
        else is.
    """

    function: Mixture
    noises: np.ndarray
    components: Mapping[str, Component] = field(default_factory=dict)
    include_noise: bool = False
    offset: float = 0.0
    known_noise: np.ndarray | float = 0.0
    family: Family | None = None
    sizes: np.ndarray | None = None
    calibration: Calibration | None = None

    @classmethod
    def of(
        cls,
        mean: np.ndarray,
        sd: np.ndarray,
        noise: np.ndarray | float = 0.0,
        components: Mapping[str, Component] | None = None,
        include_noise: bool = False,
    ) -> Self:
        """Return the prediction of a single kernel, from moments (m,) of the latent function."""
        function = Mixture(np.ones(1), filled(mean)[None], filled(sd)[None])
        noises = np.full(function.mean.shape, noise)
        return cls(function, noises, components or {}, include_noise)

    @classmethod
    def mixture(
        cls,
        kernels: Sequence["Moments"],
        weights: Sequence[float] | np.ndarray,
        include_noise: bool = False,
    ) -> Self:
        """Return the mixture of what kernels predict, with weights (K,) that add up to one."""
        mean, sd, noise = (
            np.array(values) for values in zip(*(k[:3] for k in kernels), strict=True)
        )
        shares = np.array(weights)
        components = _mixed([kernel.components for kernel in kernels], shares, mean.shape[1])
        return cls(Mixture(shares, mean, sd), noise, components, include_noise)

    def at(self, places: np.ndarray) -> Self:
        """Return the prediction at some of the inputs, by their numbers, before sizes are given."""
        f = self.function
        return replace(
            self,
            function=replace(f, mean=f.mean[:, places], sd=f.sd[:, places]),
            noises=self.noises[:, places],
            components={
                label: Component(part.mean[places], part.sd[places])
                for label, part in self.components.items()
            },
        )

    def given(self, noise: npt.ArrayLike | None, sizes: npt.ArrayLike | None) -> Self:
        """Return the prediction of observations of which noise, or sizes, are known.

        Parameters
        ----------
        noise : array_like, shape (m,), or None
            Known standard deviations of the observations' own noise.
        sizes : array_like, shape (m,), or None
            Exposures or numbers of trials.

        Raises
        ------
        InputError
            If the family of the target, or a transform, has no such noise or sizes, or there isn't
            one for each observation.
        """
        places = self.function.mean[0]
        if sizes is not None and self.family is None:
            raise InputError("The target isn't a count or binomial. Leave out {sizes}.", sizes=...)
        if sizes is not None and self.family is not None:
            self.family.check_sizes(sizes, places.shape)
        if noise is None:
            return self if sizes is None else replace(self, sizes=filled(sizes))
        if self.function.transform is not None or self.family is not None:
            raise InputError(
                "The target has a transform or a family, so that its noise isn't normal. Leave out "
                "{noise}.",
                noise=...,
            )
        return replace(self, known_noise=check_noise(noise, places) ** 2)

    @property
    def noise(self) -> float:
        """Variance of an observation around the function, averaged over the inputs."""
        return float((self.function.weights @ self.noises).mean())

    @cached_property
    def observation(self) -> Mixture | Response:
        """The distribution of a new observation at each input, regardless of `include_noise`."""
        if self.family is not None:
            return Response(self.function, self.noises, self.family, self.sizes)
        sd = np.sqrt(self.function.sd**2 + self.noises + self.known_noise)
        return replace(self.function, sd=sd)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        if self.include_noise:
            return self.observation.moments()
        return self._curve

    @property
    def _curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd (m,) of the latent function, or of the curve of targets' means."""
        observation = self.observation
        if isinstance(observation, Response):
            return observation.curve()
        return self.function.moments()

    @property
    def mean(self) -> np.ndarray:
        """Mean (m,) of the latent function, or of a new observation if `include_noise`."""
        return self._moments[0]

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation (m,) of the latent function, or of a new observation."""
        return self._moments[1]

    @property
    def sd_function(self) -> np.ndarray:
        """The sd (m,) of the latent function, regardless of `include_noise`."""
        return self._curve[1]

    def quantile(self, probability: float) -> np.ndarray:
        """Return a quantile (m,) of a new observation at each input, in the unit of `mean`.

        Parameters
        ----------
        probability : float
            Probability of a smaller value, above 0 and below 1. If the prediction is calibrated,
            it is the interval between two quantiles, of p and 1 - p, that has the probability
            1 - 2p.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        InputError
            If the probability is outside this range.
        """
        if not 0 < probability < 1:
            raise InputError(
                f"There is no quantile of probability {probability}. "
                "Give a probability above 0 and below 1."
            )
        if self.calibration is not None:
            probability = self.calibration.probability(probability)
        return self.observation.quantile(probability)

    def log_predictive_density(self, y_new: npt.ArrayLike) -> np.ndarray:
        """Return the log predictive density of a new observation at each input.

        It includes the noise whether or not `sd` does. The paper's test log-likelihood is its mean
        over the test points.

        Parameters
        ----------
        y_new : array_like, shape (m,)
            Observed targets.

        Returns
        -------
        ndarray, shape (m,)

        Raises
        ------
        InputError
            If there isn't one target for each input.
        """
        y = filled(y_new)
        if y.shape != self.mean.shape:
            raise InputError(
                f"There are targets of shape {y.shape} for {len(self.mean)} predictions. "
                "Give one target per input."
            )
        return self.observation.log_density(y)

    def __repr__(self) -> str:
        return f"Prediction({self._of_what()})"

    def _of_what(self) -> str:
        n = len(self.mean)
        what = "new observations" if self.include_noise else "the function"
        return f"{what} at {plural(n, 'input')}"

    def _display(self) -> Display:
        parts = self.components
        spreads = [(label, p.mean.std(), np.median(p.sd)) for label, p in parts.items()]
        title, shown = "Means and sds", {"mean": self.mean, "sd": self.sd}
        if self.family is not None and self.family.name in ("count", "positive"):
            title, quantiles = "Observations", {"median": 0.5, "2.5 %": 0.025, "97.5 %": 0.975}
            shown = {name: self.quantile(p) for name, p in quantiles.items()}
        each = zip(*shown.values(), *(p.mean for p in parts.values()), strict=True)
        means = [(i, *row) for i, row in zip(range(SHOWN), each, strict=False)]
        columns = ("component", "sd of its mean over inputs", "median sd")
        listings = [Listing(columns, spreads)] if parts and len(self.mean) else []
        title += ", with contributions of components" if parts else ""
        more = beyond(SHOWN, len(self.mean), "inputs are shown.")
        listings.append(Listing(("input", *shown, *parts), means, title=title, more=more))
        noise = f"{number(self.noise**0.5)}, {'included' if self.include_noise else 'left out'}"
        facts = {"Sd of the noise": noise, "Offset": number(self.offset)}
        return Display(f"Prediction of {self._of_what()}", facts, listings)


def averaged(
    predictions: Sequence[Prediction], weights: Sequence[float] | np.ndarray
) -> Prediction:
    """Return the mixture of predictions at the same inputs, with weights that add up to one.

    A component's mean and sd are those of the mixture, with zero where a prediction lacks it.
    """
    shares, functions = np.array(weights), [p.function for p in predictions]
    components = _mixed([p.components for p in predictions], shares, functions[0].mean.shape[1])
    mixture = Mixture(
        np.concatenate([share * f.weights for share, f in zip(shares, functions, strict=True)]),
        np.concatenate([f.mean for f in functions]),
        np.concatenate([f.sd for f in functions]),
        functions[0].transform,
    )
    noises = np.concatenate([p.noises for p in predictions])
    return replace(predictions[0], function=mixture, noises=noises, components=components)


def _mixed(
    kernels: Sequence[Mapping[str, Component]], shares: np.ndarray, m: int
) -> dict[str, Component]:
    """Return the components (m,) of a mixture; those that a kernel lacks are zero in it."""
    nothing, mixed = Component(*np.zeros((2, m))), {}
    for label in dict.fromkeys(label for components in kernels for label in components):
        parts = [components.get(label, nothing) for components in kernels]
        means, sds = np.array([part.mean for part in parts]), np.array([part.sd for part in parts])
        mixed[label] = Component(*Mixture(shares, means, sds).moments())
    return mixed


def in_target_unit(scaled: Prediction, scaling: Scaling) -> Prediction:
    """Return a prediction of scaled targets in the target's unit."""
    weights, mean, sd = scaled.function.weights, scaled.function.mean, scaled.function.sd
    return replace(
        scaled,
        function=Mixture(weights, scaling.mean_back(mean), scaling.sd_back(sd), scaling.transform),
        noises=scaling.variance_back(scaled.noises),
        components={
            label: Component(scaling.sd_back(part.mean), scaling.sd_back(part.sd))
            for label, part in scaled.components.items()
        },
        offset=scaling.target_mean,
        family=scaling.family,
    )
