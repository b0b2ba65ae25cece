"""One composition that was considered for a user's data: its fit, and how probable it is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kem_pymc.gp.fit import Fit, bic
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.value_draws import draw_values
from kem_pymc.kernels.composition import Composition


class Draw(NamedTuple):
    """A draw of the values from their posterior.

    Attributes
    ----------
    hyperparameters : dict of str to float
        Natural values by name, in scaled units.
    noise : float
        Noise variance, in scaled units.
    weight : float
        Share of the composition's weight.
    """

    hyperparameters: dict[str, float]
    noise: float
    weight: float


@dataclass(frozen=True)
class Considered:
    """One composition that was considered, with its fit.

    Attributes
    ----------
    composition : Composition
    status : str
        ``"child"`` of the previous composition, ``"current"`` (the previous composition itself),
        ``"fixed"``, or ``"kept"`` without a selection.
    hyperparameters : dict of str to float
        Fitted natural values by name, in scaled units.
    noise : float
        Fitted noise variance, in scaled units.
    log_likelihood : float
        At the fit, of the scaled targets.
    n_parameters : int
        Hyperparameters of the kernel, and the noise.
    bic : float
        |theta| ln n - 2 ln L (section 5.4), whatever the criterion.
    criterion : float
        The selector's criterion, by its convention.
    score : float
        The same so that larger is better.
    weight : float
        exp(score), normalised over what was considered; summed over posterior draws before.
    probability : float
        Predictive probability of the evolution in the pilot study; 1 for fixed compositions.
    evaluations : int
        How often the likelihood was computed.
    converged : bool
        Whether the fit arrived at an optimum.
    draws : tuple of Draw
        From the posterior of the values, given the composition, where predictions average over it.
    """

    composition: Composition
    status: str
    hyperparameters: dict[str, float]
    noise: float
    log_likelihood: float
    n_parameters: int
    bic: float
    criterion: float
    score: float
    weight: float
    probability: float
    evaluations: int
    converged: bool
    draws: tuple[Draw, ...] = ()

    @property
    def fitted(self) -> Draw:
        """The fitted values, as if they were all that is possible."""
        return Draw(self.hyperparameters, self.noise, 1.0)

    def kept(
        self, log_likelihood: float, n_points: int, draws: Sequence[Draw], gain: float
    ) -> "Considered":
        """Return the record with further points, for which nothing was fitted.

        Parameters
        ----------
        log_likelihood : float
            Of all points, at the fitted values.
        n_points : int
        draws : sequence of Draw
            Those that are left, or the fitted values alone; their weights add up to that of the
            composition.
        gain : float
            Log density of the further points.
        """
        criterion = bic(log_likelihood, self.n_parameters, n_points).value
        weight = sum(draw.weight for draw in draws)
        shares = (draw._replace(weight=draw.weight / weight if weight else 0.0) for draw in draws)
        return replace(
            self,
            status="kept",
            log_likelihood=log_likelihood,
            bic=criterion,
            criterion=criterion,
            score=self.score + gain,
            weight=weight,
            evaluations=0,
            draws=tuple(shares) if self.draws else (),
        )

    @classmethod
    def of(cls, objective: Objective, fitted: Fit, **fields: Any) -> "Considered":
        """Return the record of a fit; `fields` are those that a selector knows."""
        coordinates = objective.coordinates
        hyperparameters, noise = coordinates.named(fitted.values)
        return cls(
            composition=coordinates.composition,
            hyperparameters=hyperparameters,
            noise=noise,
            log_likelihood=fitted.log_likelihood,
            n_parameters=len(coordinates),
            bic=bic(fitted.log_likelihood, len(coordinates), objective.n_points).value,
            evaluations=fitted.evaluations,
            converged=fitted.converged,
            **fields,
        )

    @classmethod
    def unfitted(cls, objective: Objective, values: np.ndarray) -> "Considered":
        """Return the record of a composition whose values (k + 1,) are given, the only one."""
        likelihood, _ = objective.terms(values)
        fitted = Fit(values, likelihood, 0.0, 1, converged=True)
        return cls.of(
            objective,
            fitted,
            status="fixed",
            criterion=likelihood,
            score=likelihood,
            weight=1.0,
            probability=1.0,
        )


def draws_around(objective: Objective, fitted: Fit) -> tuple[Draw, ...]:
    """Return draws of the values of a fit; none where its optimum is all there is."""
    values, weights = draw_values(objective, fitted)
    if len(values) == 1:
        return ()
    return tuple(
        Draw(*objective.coordinates.named(value), float(weight))
        for value, weight in zip(values, weights, strict=True)
        if weight > 0
    )
