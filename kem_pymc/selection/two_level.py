"""Two-level baselines: a shared mean and a function for each user, both with a fixed kernel."""

from collections.abc import Sequence
from typing import Literal, Self

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.fit import Fit
from kem_pymc.kernels.composition import Candidate
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints
from kem_pymc.shared.choice import SharedPart, learn_shared, linear_composition


class TwoLevelSelector(PoolSelector):
    """Selector that predicts with a two-level model fitted to pilot users, without selection.

    The model is y_u(x) = m(x) + f_u(x) + noise, with the same kernel of f_u for every user. It is
    MAGMA (Leroy et al. 2022) if m and f_u are smooth, the linear mixed model if both are linear,
    and one GP for the pooled rows of all users if f_u is zero.

    Parameters
    ----------
    part : SharedPart
        Two-level model learned from the pilot users, in scaled units.
    scaling : Scaling
        Scaling applied to the user's data.
    """

    def __init__(self, part: SharedPart, scaling: Scaling) -> None:
        dimension = part.model.kernel.dimension
        candidates = part.model.personal.candidates or (Candidate(),)
        self.pool = CandidatePool(candidates, dimension)
        self.part, self.scaling = part, scaling
        self.shared = None if part.nothing else part.process

    @classmethod
    def learn(
        cls,
        pilot: Cohort,
        kind: Literal["smooth", "linear", "pooled"] = "smooth",
        *,
        scaling: Scaling | None = None,
        noise_floor: float = 1e-3,
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
        noise_floor : float
            Smallest noise variance, in scaled units.
        seed : int

        Returns
        -------
        TwoLevelSelector

        Raises
        ------
        InputError
            If there are fewer than two users, or a feature or the target is constant.
        """
        scaling = Scaling.unit(pilot) if scaling is None else scaling
        part = learn_shared(
            scaling.apply(pilot),
            kind,
            personal=linear_composition(pilot, personal=True) if kind == "linear" else None,
            noise_floor=noise_floor,
            seed=seed,
        )
        return cls(part, scaling)

    def __repr__(self) -> str:
        model = self.part.model
        return f"TwoLevelSelector(shared={model.kernel.composition}, personal={model.personal})"

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        model = self.part.model
        coordinates = Coordinates(self.pool, model.personal)
        objective = points.objective(coordinates)
        values = coordinates.from_named(model.hyperparameters, model.noise)
        likelihood, _ = objective.terms(values)
        given = Fit(values, likelihood, 0.0, 1, converged=True)
        kernel = ScoredKernel.of(
            objective, given, status="fixed", criterion=likelihood, score=likelihood
        )
        return [kernel]
