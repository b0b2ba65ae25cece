"""The best evolved kernels on their data, which predict."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import new_inputs
from kem_pymc.errors import InputError
from kem_pymc.gp.posterior import Conditional
from kem_pymc.gp.prediction import Prediction, averaged, in_target_unit
from kem_pymc.search.evocov.fitting import coordinates_of
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.interpreter import FINE, OUTCOMES
from kem_pymc.search.evocov.objective import TreeObjective, covariances


@dataclass(frozen=True, eq=False)
class EvolvedSelection:
    """Evolved kernels with their weights, the data, and predictions.

    Attributes
    ----------
    kernels : tuple of (Individual, float)
        Kernels with their weights, the best one first.
    scaling : Scaling
    x : ndarray, shape (n, D)
        Inputs, scaled to [0, 1].
    y : ndarray, shape (n,)
        Standardised targets.
    """

    kernels: tuple[tuple[Individual, float], ...]
    scaling: Scaling
    x: np.ndarray
    y: np.ndarray

    @property
    def best(self) -> Individual:
        """The best kernel, with its fitted hyperparameters."""
        return self.kernels[0][0]

    @property
    def hyperparameters(self) -> Mapping[str, float]:
        """Hyperparameters of the best kernel by name, for scaled inputs and targets."""
        names = self.best.tree.hyperparameters
        return dict(zip(names, self.best.natural[:-1].tolist(), strict=True))

    @property
    def noise(self) -> float:
        """Noise variance of the best kernel, for standardised targets."""
        return float(self.best.natural[-1])

    @property
    def noise_in_target_units(self) -> float:
        """Noise variance of the best kernel, in squared units of the target."""
        return float(self.scaling.variance_back(self.noise))

    def predict(
        self, x: npt.ArrayLike, include_noise: bool = False, *, single: bool = False
    ) -> Prediction:
        """Predict at new inputs, given the data.

        The prediction averages over the kernels by their weights. Kernels other than the best one
        are left out if their covariance isn't finite at the new inputs.

        Parameters
        ----------
        x : array_like, shape (m, D), or (m,) if D is 1
            New inputs, in the user's units.
        include_noise : bool
            Whether to predict new observations instead of the latent function.
        single : bool
            Whether to use only the best kernel, as in the paper.

        Returns
        -------
        Prediction
            Prediction in the target's unit.

        Raises
        ------
        InputError
            If the inputs don't have one column per feature or aren't finite numbers, or the best
            kernel has no finite covariance there.
        """
        at = self.scaling.inputs(new_inputs(x, self.x.shape[1]))
        made = [predict(self.best, self.x, self.y, at, include_noise)]
        weights = [self.kernels[0][1]]
        for kernel, weight in () if single else self.kernels[1:]:
            try:
                made.append(predict(kernel, self.x, self.y, at, include_noise))
            except InputError:
                continue
            weights.append(weight)
        shares = np.array(weights) / sum(weights)
        scaled = made[0] if len(made) == 1 else averaged(made, shares.tolist())
        return in_target_unit(scaled, self.scaling)


def predict(
    individual: Individual,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    include_noise: bool = False,
) -> Prediction:
    """Return the predictive distribution at new inputs (eq. 3).

    Parameters
    ----------
    individual : Individual
    x, y : ndarray, shape (n, D) and (n,)
        Data, in the units in which the kernel was fitted.
    x_new : ndarray, shape (m, D)
        Inputs, in the same units.
    include_noise : bool
        Whether standard deviations are those of new observations.

    Returns
    -------
    Prediction

    Raises
    ------
    InputError
        If the kernel has no finite or no positive definite covariance at these inputs.
    """
    tree, noise = individual.tree, float(individual.natural[-1])
    values = coordinates_of(individual.natural, np.array([*tree.positive, True]))
    objective = TreeObjective(tree, x, y)
    covariance, outcome = covariances(tree, x, values)
    try:
        if outcome != FINE:
            raise np.linalg.LinAlgError
        conditional = Conditional.of(covariance + noise * np.eye(len(y)), y)
    except np.linalg.LinAlgError:
        raise InputError(
            f"The covariance of the kernel {tree.formula()} isn't positive definite on these data. "
            "Fit it to them first, or use another kernel."
        ) from None
    both, outcome = objective.cross_covariances(values, x_new)
    if outcome != FINE:
        raise InputError(
            f"The kernel {tree.formula()} can't predict at these inputs: {OUTCOMES[outcome]}. "
            "Predict closer to the data, or use another kernel."
        )
    mean, explained = conditional.moments(both[:, 1:].T)
    variance = np.maximum(both[:, 0] - explained, 0.0) + (noise if include_noise else 0.0)
    return Prediction(mean, np.sqrt(variance), noise=noise, include_noise=include_noise)
