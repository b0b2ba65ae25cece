"""Record of one composition that was considered for a user's data: its fit and its probability."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from kem_pymc.gp.evidence import draw_values
from kem_pymc.gp.fit import Fit, bic
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.recorded import ScaledSites
from kem_pymc.kernels.composition import Composition


class Draw(NamedTuple):
    """One posterior draw of a composition's hyperparameters and noise variance.

    Attributes
    ----------
    hyperparameters : dict of str to float
        Natural (not log) values by name, in scaled units.
    noise : float
        Noise variance, in scaled units.
    weight : float
        Fraction of the composition's weight that belongs to this draw.
    sites : ScaledSites, optional
        Normal observations that stand for targets of a family, at these values.
    """

    hyperparameters: dict[str, float]
    noise: float
    weight: float
    sites: ScaledSites | None = None


@dataclass(frozen=True)
class ScoredKernel:
    """One composition that was considered, with its fit.

    Attributes
    ----------
    composition : Composition
    status : str
        ``"child"`` (it followed the previous composition in the pilot study), ``"current"`` (it is
        the previous composition), ``"final"`` (a final composition of pilot users that isn't a
        child), ``"searched"`` (considered by a search), or ``"fixed"`` (the method doesn't
        choose).
    hyperparameters : dict of str to float
        Fitted natural (not log) values by name, in scaled units.
    noise : float
        Fitted noise variance, in scaled units.
    log_likelihood : float
        Log likelihood of the scaled targets at the fitted values; of targets of a family, that of
        the targets themselves (:mod:`kem_pymc.gp.sites`).
    n_parameters : int
        Number of hyperparameters of the kernel, plus one for the noise.
    bic : float
        |theta| ln n - 2 ln L (section 5.4), computed whichever criterion is used.
    criterion : float
        Value of the selector's criterion, by its own convention (of BIC and AIC smaller is better).
    score : float
        The criterion on the scale of a log probability: larger is better.
    weight : float
        exp(score), normalised over all rows that were considered (those of all posterior draws, if
        the selection averages over draws).
    probability : float
        Predictive probability of the evolution in the pilot study; 1 for fixed compositions.
    evaluations : int
        Number of times that the likelihood was computed.
    converged : bool
        Whether the fit reached an optimum.
    draws : tuple of Draw
        Posterior draws of the values, given the composition. Empty if predictions use the fitted
        values alone.
    sites : ScaledSites, optional
        Normal observations that stand for targets of a family, at the fitted values.
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
    sites: ScaledSites | None = None

    @property
    def fitted(self) -> Draw:
        """The fitted values as a single draw with weight 1."""
        return Draw(self.hyperparameters, self.noise, 1.0, self.sites)

    @classmethod
    def of(cls, objective: Objective, fitted: Fit, **fields: Any) -> "ScoredKernel":
        """Return the record of a fit; `fields` are the attributes that the selector determines.

        The weight and the probability are 1 by default, for methods that consider one composition.
        """
        coordinates = objective.coordinates
        hyperparameters, noise = coordinates.named(fitted.values)
        likelihood = fitted.log_likelihood + objective.log_constant
        return cls(
            composition=coordinates.composition,
            hyperparameters=hyperparameters,
            noise=noise,
            log_likelihood=likelihood,
            n_parameters=len(coordinates),
            bic=bic(likelihood, len(coordinates), objective.n_points).value,
            evaluations=fitted.evaluations,
            converged=fitted.converged,
            sites=objective.sites,
            **{"weight": 1.0, "probability": 1.0} | fields,
        )


def draws_around(objective: Objective, fitted: Fit, own: bool = True) -> tuple[Draw, ...]:
    """Return posterior draws around a fit; empty if only the optimum itself is available.

    The arguments are those of :func:`kem_pymc.gp.evidence.draw_values`.
    """
    values, weights, objectives = draw_values(objective, fitted, own)
    if len(values) == 1:
        return ()
    return tuple(
        Draw(*natural, float(weight), there.sites)
        for natural, weight, there in zip(
            objective.coordinates.all_named(values), weights, objectives, strict=True
        )
        if weight > 0
    )
