"""Two-level baselines: a shared mean and a function for each user, both with a fixed kernel."""

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np

from kem_pymc._system.options import checked
from kem_pymc.data.categories import CAT
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import Fit
from kem_pymc.kernels.composition import Candidate, Composition, Factor
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.design import LEVEL
from kem_pymc.population.hyperparameters import OWN, scales
from kem_pymc.population.model import PopulationModel, robust
from kem_pymc.population.posterior import PopulationPosterior
from kem_pymc.population.shared_part import choices, mean_process, personal_terms
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints


@checked
class TwoLevelSelector(PoolSelector):
    """Selector that predicts with a two-level model fitted to pilot users, without selection.

    The model is y_u(x) = m(x) + f_u(x) + noise, with the same kernel of f_u for every user. It is
    MAGMA (Leroy et al. 2022) if m and f_u are smooth, the linear mixed model if both are linear,
    and one GP for the pooled rows of all users if f_u is zero.

    Parameters
    ----------
    posterior : PopulationPosterior
        Posterior of a population model of the pilot users, in scaled units.
    scaling : Scaling
        Scaling applied to the user's data.
    """

    least = 0

    def __init__(self, posterior: PopulationPosterior, scaling: Scaling) -> None:
        self.personal, self.hyperparameters, self.noise = _own_kernel(posterior)
        candidates = self.personal.candidates or (Candidate(),)
        self.pool = CandidatePool(candidates, posterior.model.cohort.dimension)
        self.scaling = scaling
        self.shared = self.process = mean_process(posterior)

    @classmethod
    def learn(
        cls,
        pilot: Cohort,
        kind: Literal["smooth", "linear", "pooled"] = "smooth",
        *,
        scaling: Scaling | None = None,
        seed: int = 0,
    ) -> Self:
        """Fit the two-level model to pilot users.

        Parameters
        ----------
        pilot : Cohort
            Pilot users, in their own units.
        kind : {"smooth", "linear", "pooled"}
            ``"smooth"``: both levels are smooth functions; ``"linear"``: a linear mixed model with
            random intercepts and slopes; ``"pooled"``: one GP for all users.
        scaling : Scaling, optional
            Scaling of inputs and targets; by default learned from the pilot users, to features in
            [0, 1] and targets with mean 0 and sd 1.
        seed : int

        Returns
        -------
        TwoLevelSelector

        Raises
        ------
        InputError
            If there are fewer than two users, or a feature or the target is constant.
        """
        pilot = robust(pilot)
        scaling = Scaling.unit(pilot) if scaling is None else scaling
        scaled = scaling.apply(pilot)
        terms, personal = [*choices(scaled).values()][-1], personal_terms(scaled)
        if kind == "linear":
            terms = choices(scaled)["linear"]
            personal = tuple(name for name in personal if "(" not in name)
        elif kind == "pooled":
            personal = ()
        return cls(PopulationModel(scaled, terms, personal).fit(seed=seed), scaling)

    def __repr__(self) -> str:
        terms = ", ".join(term.name for term in self.process.design.terms)
        return f"TwoLevelSelector(shared={terms}, personal={self.personal})"

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        coordinates = Coordinates(self.pool, self.personal)
        objective = points.objective(coordinates)
        values = coordinates.from_named(self.hyperparameters, self.noise)
        likelihood, _ = objective.terms(values)
        given = Fit(values, likelihood, 0.0, 1, converged=True)
        kernel = ScoredKernel.of(
            objective, given, status="fixed", criterion=likelihood, score=likelihood
        )
        return [kernel]


def _own_kernel(posterior: PopulationPosterior) -> tuple[Composition, dict[str, float], float]:
    """Return the kernel of users' own functions, its values, and the variance of the noise.

    Hyperparameters are at the posterior means of their coordinates. With variances v and w and the
    covariance c of a level and a line h(x) = (x - m) / s, level and line have the kernel

        v + 2 c h(x) + w h(x)^2 = (w / s^2) (x - m + s c / w)^2 + v - c^2 / w.

    Lines are independent of each other here, so with several lines the constant v is what is left
    after all of them, and at least a thousandth of its value.
    """
    model, centre = posterior.model, posterior.centre()
    unit = model.target_sd**2
    every = scales(model.shared, model.personal, centre)
    covariance = every.personal @ every.personal.T * unit
    design, values = model.personal, {}
    names = list(model.cohort.features)
    spans = dict(zip([term.name for term in design.terms], design.spans(), strict=True))
    level = spans[LEVEL].start if LEVEL in spans else None
    constant = 0.0 if level is None else covariance[level, level]
    candidates = [] if level is None else [Candidate()]
    for term in design.terms:
        place = spans[term.name].start
        variance = covariance[place, place]
        if term.smooth:
            dimensions = [names.index(name) for name in term.smooth]
            candidate = Candidate(tuple(Factor("SE", d) for d in dimensions))
            surface = design.surfaces.get(term.name)
            lengths = (
                [centre[f"{OWN}{term.name}.lengthscale"]]
                if surface is None
                else surface.lengthscales
            )
            size = centre[f"{OWN}{term.name}.sd"] ** 2
            values[f"{candidate}.amplitude"] = float(size * unit)
            hyperparameters = Composition((candidate,)).hyperparameters
            of_length = [h.name for h in hyperparameters if h.kind == "lengthscale"]
            for h, name, length in zip(of_length, term.smooth, lengths, strict=True):
                feature = design.feature(name)
                values[h] = float(length * (feature.high - feature.low) / 2)
        elif term.features:
            (name,) = term.features
            feature, d = design.feature(name), names.index(name)
            if name in model.cohort.levels:
                candidate = Candidate((Factor(CAT, d),))
                count = len(feature.values)
                values[f"{candidate}.amplitude"] = float(variance * (1 - 1 / count))
            else:
                candidate = Candidate((Factor("LIN", d),))
                low, high = feature.columns(np.array([feature.low, feature.high]))[:, 0]
                slope = (high - low) / (feature.high - feature.low)
                middle = feature.low - low / slope
                cross = 0.0 if level is None else covariance[place, level]
                values[f"{candidate}.amplitude"] = float(variance * slope**2)
                values[f"{candidate}.shift"] = float(middle - cross / (variance * slope))
                constant -= cross**2 / variance
        else:
            continue
        candidates.append(candidate)
    if level is not None:
        whole = covariance[level, level]
        values[f"{Candidate()}.amplitude"] = float(max(constant, 1e-3 * whole))
    return Composition(tuple(candidates)), values, float(every.noise**2 * unit)
