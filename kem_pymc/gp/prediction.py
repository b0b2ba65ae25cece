"""The predictive distribution of one kernel, or of a mixture of kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from kem_pymc._system.display import Display, Displayed, Listing, beyond, number
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Transform
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture, TransformedMixture, transformed_moments

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


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Displayed):
    """The predictive distribution at m inputs.

    Attributes
    ----------
    mean, sd : ndarray, shape (m,)
        Mean and standard deviation of the latent function, or of a new observation if
        `include_noise`.
    components : dict of str to Component
        Components by the candidate's label; ``"shared"`` is the mean process, if there is one.
        Their means and the offset add up to the mean; their sds ignore correlations between
        components.
    noise : float
        Variance of an observation around the function.
    include_noise : bool
        Whether `sd` includes the noise.
    offset : float
        Contribution of the prior mean: the pilot users' mean if targets were standardised, else 0.
    mixture : Mixture, optional
        Distribution of a new observation, if the prediction is a mixture of several: `mean`, `sd`
        and `noise` are then moments of mixtures.
    transform : Transform, optional
        Transform of the target. `mean` and `sd` are then those of the target itself, by quadrature,
        and so are quantiles and densities of an `observation`; components, `noise` and `offset` are
        those of the transformed target, whose distribution is `mixture`.
    function : Mixture, optional
        Distribution of the transformed latent function, if the target is transformed.
    """

    mean: np.ndarray
    sd: np.ndarray
    components: dict[str, Component] = field(default_factory=dict)
    noise: float = 0.0
    include_noise: bool = False
    offset: float = 0.0
    mixture: Mixture | None = None
    transform: Transform | None = None
    function: Mixture | None = None

    @property
    def observation(self) -> Mixture | TransformedMixture:
        """The distribution of a new observation at each input, regardless of `include_noise`."""
        if self.transform is not None and self.mixture is not None:
            return TransformedMixture(self.mixture, self.transform)
        return self._normal

    @property
    def _normal(self) -> Mixture:
        """Like `observation`, but of the transformed target if the target is transformed."""
        if self.mixture is not None:
            return self.mixture
        variance = self.sd**2 + (0.0 if self.include_noise else self.noise)
        return Mixture(np.ones(1), self.mean[None], np.sqrt(variance)[None])

    @property
    def sd_function(self) -> np.ndarray:
        """The sd (m,) of the latent function, regardless of `include_noise`."""
        if not self.include_noise:
            return self.sd
        if self.transform is not None and self.function is not None:
            of = self.function
            parts = [
                transformed_moments(mean, sd, self.transform)
                for mean, sd in zip(of.mean, of.sd, strict=True)
            ]
            return _moments(of.weights, [mean for mean, _ in parts], [sd for _, sd in parts])[1]
        return np.sqrt(np.maximum(self.sd**2 - self.noise, 0.0))  # negative only by rounding

    def quantile(self, probability: float) -> np.ndarray:
        """Return a quantile (m,) of a new observation at each input, in the unit of `mean`.

        Parameters
        ----------
        probability : float
            Probability of a smaller value, above 0 and below 1.

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
        y = np.asarray(y_new, dtype=np.float64)
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
        return f"{what} at {n} input{'s' * (n != 1)}"

    def _display(self) -> Display:
        parts = self.components
        spreads = [(label, p.mean.std(), np.median(p.sd)) for label, p in parts.items()]
        each = zip(self.mean, self.sd, *(p.mean for p in parts.values()), strict=True)
        means = [(i, *row) for i, row in zip(range(SHOWN), each, strict=False)]
        columns = ("component", "sd of its mean over inputs", "median sd")
        listings = [Listing(columns, spreads)] if parts and len(self.mean) else []
        title = "Means and sds" + (", with contributions of components" if parts else "")
        more = beyond(SHOWN, len(self.mean), "inputs are shown.")
        listings.append(Listing(("input", "mean", "sd", *parts), means, title=title, more=more))
        noise = f"{number(self.noise**0.5)}, {'included' if self.include_noise else 'left out'}"
        facts = {"Sd of the noise": noise, "Offset": number(self.offset)}
        return Display(f"Prediction of {self._of_what()}", facts, listings)


def averaged(predictions: Sequence[Prediction], weights: Sequence[float]) -> Prediction:
    """Return the mixture of predictions at the same inputs, with weights that add up to one.

    A component's mean and sd are those of the mixture, with zero where a prediction lacks it.
    """
    shares = np.array(weights)
    mean, sd = _moments(shares, [p.mean for p in predictions], [p.sd for p in predictions])
    nothing = Component(np.zeros_like(mean), np.zeros_like(mean))
    labels = dict.fromkeys(label for p in predictions for label in p.components)
    components = {}
    for label in labels:
        parts = [p.components.get(label, nothing) for p in predictions]
        components[label] = Component(
            *_moments(shares, [part.mean for part in parts], [part.sd for part in parts])
        )
    mixtures = [p._normal for p in predictions]
    return Prediction(
        mean,
        sd,
        components,
        noise=float(shares @ [p.noise for p in predictions]),
        include_noise=predictions[0].include_noise,
        offset=predictions[0].offset,
        mixture=_joined(shares, mixtures),
        transform=predictions[0].transform,
        function=_joined(shares, [p.function for p in predictions if p.function is not None]),
    )


def _joined(weights: np.ndarray, mixtures: Sequence[Mixture]) -> Mixture | None:
    """Return the mixture of single normal distributions, or None if there aren't any."""
    if not mixtures:
        return None
    mean = np.concatenate([single.mean for single in mixtures])
    return Mixture(weights, mean, np.concatenate([single.sd for single in mixtures]))


def in_target_unit(scaled: Prediction, scaling: Scaling) -> Prediction:
    """Return a prediction of scaled targets in the target's unit.

    With a transform, the prediction may only be that of a single kernel.
    """
    mixture = scaled.mixture
    made = Prediction(
        mean=scaling.mean_back(scaled.mean),
        sd=scaling.sd_back(scaled.sd),
        components={
            label: Component(scaling.sd_back(part.mean), scaling.sd_back(part.sd))
            for label, part in scaled.components.items()
        },
        noise=float(scaling.variance_back(scaled.noise)),
        include_noise=scaled.include_noise,
        offset=scaling.target_mean,
        mixture=None
        if mixture is None
        else Mixture(mixture.weights, scaling.mean_back(mixture.mean), scaling.sd_back(mixture.sd)),
    )
    return made if scaling.transform is None else back_transformed(made, scaling.transform)


def back_transformed(prediction: Prediction, transform: Transform) -> Prediction:
    """Return the prediction of a target, given one kernel's prediction of its transform."""
    mean, sd = transformed_moments(prediction.mean, prediction.sd, transform)
    function = Mixture(np.ones(1), prediction.mean[None], prediction.sd_function[None])
    back = replace(prediction, mean=mean, sd=sd, transform=transform)
    return replace(back, mixture=prediction._normal, function=function)


def _moments(
    weights: np.ndarray, means: list[np.ndarray], sds: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and sd (m,) of mixtures of distributions with these moments."""
    mean = weights @ np.array(means)
    squares = weights @ (np.array(sds) ** 2 + (np.array(means) - mean) ** 2)
    return mean, np.sqrt(squares)
