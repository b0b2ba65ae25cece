"""The two-level model: a mean process shared by all users, a function of each user, and noise.

    y_u(x) = m(x) + f_u(x) + noise,    m ~ GP(0, k) for all users,    f_u ~ GP(0, k_0)

Users are independent given m. With the weights w of the mean process
(:class:`~kem_pymc.gp.mean_process.SharedKernel`), A_u = k_0 + r + noise at the user's own points
and phi_u the features there, each user contributes phi_u' A_u^-1 phi_u to the precision of w and
phi_u' A_u^-1 y_u to precision times mean. So the posterior without one user follows by subtraction,
and computing time grows linearly with the number of users (cf. Leroy et al. 2022, section 4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.gp.kernel import FixedKernel
from kem_pymc.gp.mean_process import MeanProcess, SharedKernel
from kem_pymc.gp.posterior import Conditional
from kem_pymc.kernels.composition import Composition


@dataclass(frozen=True, eq=False)
class TwoLevel:
    """A two-level model with its hyperparameter values, in scaled units.

    Attributes
    ----------
    kernel : SharedKernel
        Kernel of the mean process; without candidates if users share nothing.
    personal : Composition
        Composition of every user's own function.
    hyperparameters : mapping of str to float
        Natural values of the personal composition's hyperparameters, by name.
    noise : float
        Noise variance.
    """

    kernel: SharedKernel
    personal: Composition
    hyperparameters: Mapping[str, float]
    noise: float

    @cached_property
    def personal_kernel(self) -> FixedKernel:
        """Kernel of every user's own function."""
        return FixedKernel.named(self.personal, self.hyperparameters, self.kernel.dimension)

    def own_covariance(self, x: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the covariance (n, n) of a user's targets at inputs (n, D) given the weights.

        `features` are those of the weights at these inputs, (n, r).
        """
        left_over = self.kernel.left_over(x, x, features, features)
        return self.personal_kernel.cross(x, x) + left_over + self.noise * np.eye(len(x))

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain data that can be written to a file."""
        return {
            "kernel": self.kernel.to_dict(),
            "personal": str(self.personal),
            "hyperparameters": dict(self.hyperparameters),
            "noise": self.noise,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], dimension: int) -> Self:
        """Return the model from the data of :meth:`to_dict`."""
        return cls(
            SharedKernel.from_dict(data["kernel"], dimension),
            Composition.parse(data["personal"], dimension),
            dict(data["hyperparameters"]),
            data["noise"],
        )


class SharedPosterior:
    """The posterior of the mean process given all users, or all users except one.

    Parameters
    ----------
    model : TwoLevel
    precision, shift : ndarray, shapes (r, r) and (r,)
        Posterior precision of the weights given all users, and precision times mean.
    contributions : sequence of (ndarray, ndarray), shapes (n, r) and (n,)
        Each user's features and targets, both multiplied by the inverse Cholesky factor of A_u:
        with F and v, F'F is the user's part of the precision, F'v that of the shift.
    """

    def __init__(
        self,
        model: TwoLevel,
        precision: np.ndarray,
        shift: np.ndarray,
        contributions: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        self.model = model
        self.precision, self.shift = precision, shift
        self.contributions = list(contributions)

    @classmethod
    @one_blas_thread()
    def of(
        cls, model: TwoLevel, inputs: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> Self:
        """Return the posterior given users' inputs (n, D) and targets (n,), in scaled units."""
        r = model.kernel.size
        precision, shift, contributions = np.eye(r), np.zeros(r), []
        for x, y in zip(inputs, targets, strict=True):
            features = model.kernel.features(x)
            given_weights = Conditional.of(model.own_covariance(x, features), y)
            features = given_weights.whiten(features)
            contributions.append((features, given_weights.white))
            precision += features.T @ features
            shift += features.T @ given_weights.white
        return cls(model, precision, shift, contributions)

    @property
    def process(self) -> MeanProcess:
        """The mean process given all users."""
        return MeanProcess.of_precision(self.model.kernel, self.precision, self.shift)

    @one_blas_thread()
    def without(self, user: int) -> MeanProcess:
        """Return the mean process given all users except one, by index."""
        features, targets = self.contributions[user]
        return MeanProcess.of_precision(
            self.model.kernel,
            self.precision - features.T @ features,
            self.shift - features.T @ targets,
        )

    def log_predictive_density(self, user: int, x: np.ndarray, y: np.ndarray) -> float:
        """Return the log density of a user's targets (n,) at (n, D) given all other users' data."""
        process = self.without(user)
        features = self.model.kernel.features(x)
        spread = features @ process.root.T
        covariance = self.model.own_covariance(x, features) + spread @ spread.T
        return Conditional.of(covariance, y - features @ process.weights).log_density
