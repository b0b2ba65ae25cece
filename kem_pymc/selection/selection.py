"""Result of every method of selection: the fitted kernel of one user at one time step."""

import json
import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit, logit, logsumexp

from kem_pymc._system.display import Display, Displayed, Listing, beyond, number, plural
from kem_pymc._system.options import checked
from kem_pymc.data.feature_distribution import FeatureDistribution, check_missing
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import input_rows
from kem_pymc.errors import InputError
from kem_pymc.gp.calibration import Calibration
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import PopulationFunction
from kem_pymc.gp.predict import Conditioned
from kem_pymc.gp.prediction import Prediction, averaged, in_target_unit
from kem_pymc.gp.process import GaussianProcess
from kem_pymc.gp.recorded import Recorded
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.mean_process import MeanProcess
from kem_pymc.selection.scored_kernel import Draw, ScoredKernel

#: Maximum number of considered compositions that are shown.
SHOWN = 10

#: Predictions average over considered compositions with at least this weight.
LEAST_WEIGHT = 0.01

#: Predictions average over draws of values whose weight, times that of the row, is at least this.
LEAST_DRAW = 0.001


#: Index that stands for a composition's fitted values; indices of posterior draws start at 0.
FITTED = -1


class _Part(NamedTuple):
    """A kernel that predictions average over: index of a considered row, and a draw of its values.

    `number` is the index of the draw, or `FITTED`.
    """

    place: int
    number: int
    draw: Draw
    weight: float


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Selection(Displayed):
    """The kernel selected for one user at one time step.

    Hyperparameters and noise are in the scaled units of the pilot study, i.e. for inputs and
    targets transformed by `scaling`. Predictions are in the user's units.

    Parameters
    ----------
    considered : tuple of ScoredKernel
        The considered compositions, in decreasing order of the sum of the weights of their rows, so
        that the selected composition comes first. A composition may have several rows with
        different values. The values of the first row are selected.
    pool : CandidatePool
    scaling : Scaling
    x, y : ndarray, shapes (n, D) and (n,)
        The user's data, in scaled units.
    run_time : float
        Duration of the selection, in seconds.
    message : str
        Message for the reader about the selection; usually empty.
    shared : PopulationFunction, optional
        Mean process that all users share, in scaled units.
    unshared : Selection, optional
        Selection for the same data without the shared mean function, for the case that the user
        doesn't follow it.
    departure : float
        Posterior probability that the user doesn't follow the shared mean function, which is the
        weight of `unshared` in predictions.
    known_noise : ndarray, shape (n,), optional
        Known variances of the targets' own noise, in scaled units.
    recorded : Recorded, optional
        The targets themselves, if they have a family; `y` stands for them.
    distribution : FeatureDistribution, optional
        Distribution of pilot users' features, for predictions where a feature is missing.
    calibration : Calibration, optional
        How far calibrated intervals reach.
    """

    considered: tuple[ScoredKernel, ...]
    pool: CandidatePool
    scaling: Scaling
    x: np.ndarray
    y: np.ndarray
    run_time: float
    message: str = ""
    shared: PopulationFunction | None = None
    unshared: "Selection | None" = None
    departure: float = 0.0
    known_noise: np.ndarray | None = None
    recorded: Recorded | None = None
    distribution: FeatureDistribution | None = None
    calibration: Calibration | None = None
    #: Kernels conditioned on the data, by the index of a considered row and of a draw.
    _conditioned: dict[tuple[int, int], Conditioned] = field(default_factory=dict, init=False)

    @property
    def composition(self) -> Composition:
        """The selected composition."""
        return self.considered[0].composition

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Hyperparameters of the selected composition by name: natural values, in scaled units."""
        return self.considered[0].hyperparameters

    @property
    def noise(self) -> float:
        """The noise variance, in scaled units; where it varies, the one that factors multiply."""
        return self.considered[0].noise

    @property
    def targets(self) -> np.ndarray:
        """The user's targets (n,), in their unit."""
        return self.scaling.targets_back(self.y) if self.recorded is None else self.recorded.y

    @property
    def noise_in_target_units(self) -> float:
        """The noise variance in squared units of the target (of the transformed target if any)."""
        return float(self.scaling.variance_back(self.noise))

    def predict(
        self,
        x: npt.ArrayLike,
        include_noise: bool = False,
        *,
        single: bool = False,
        noise: npt.ArrayLike | None = None,
        sizes: npt.ArrayLike | None = None,
        calibrated: bool = False,
    ) -> Prediction:
        """Predict at new inputs, given the data that the kernel was selected on.

        The prediction averages over the considered compositions, by their weights, and over
        posterior draws of their values, because neither the kernel nor its values are known with
        certainty. It averages over `unshared` in the same way, with weight `departure`. Weights
        below 1 % (for single draws, 0.1 %) are left out.

        Where features are missing that these compositions or the shared mean use, the prediction
        also averages over pilot users' distribution of such features given those that are known at
        the same input (:mod:`kem_pymc.data.feature_distribution`), by 64 values with equal weights:
        that is a mixture again. Other missing features don't matter.

        Parameters
        ----------
        x : array_like, shape (m, D), or (m,) if D is 1
            New inputs, in the user's units, with NaN for features that are missing.
        include_noise : bool
            Whether to predict new observations instead of the latent function.
        single : bool
            Whether to use only the selected kernel, with its fitted values.
        noise : array_like, shape (m,), optional
            Known standard deviation of each new observation's own noise, in the target's unit; zero
            by default.
        sizes : array_like, shape (m,), optional
            Exposure of each new count, or number of trials; one by default.
        calibrated : bool
            Whether quantiles are calibrated: intervals are as wide as needed to cover the next
            targets of pilot users as if new (:func:`kem_pymc.calibrate`). Means, sds and densities
            stay as they are.

        Returns
        -------
        Prediction
            Prediction in the target's unit. If the target was transformed, mean and sd are those of
            the target itself, while components and noise are those of the transformed target;
            medians and intervals are quantiles of ``observation``.

        Raises
        ------
        InputError
            If the inputs don't have one column per feature, aren't finite numbers, or are so large
            that the prediction isn't finite; if the time is missing, or another feature whose
            distribution isn't known; or if there is no calibration.
        """
        if calibrated and (self.calibration is None or single):
            raise InputError(
                "There is no calibration of these predictions. Calibrate the evolutions with "
                "kem.calibrate, select with KEMSelector and its default fit, criterion and "
                "average, and leave out single=True."
            )
        x_new = input_rows(x, self.pool.dimension, missing=True)
        check_missing(x_new, self.distribution)
        with np.errstate(over="ignore", invalid="ignore"):
            prediction = self._predicted(x_new, include_noise, single)
            prediction = prediction.given(noise, sizes)
            if calibrated:
                prediction = replace(prediction, calibration=self.calibration)
            moments, function = [prediction.mean, prediction.sd], prediction.function
            if prediction.family is not None:  # moments of its targets may be infinite anyway
                moments = [function.mean, function.sd]
            finite = np.isfinite(moments).all()
        if not finite:
            raise InputError(
                "The inputs are so large that the prediction isn't finite. "
                "Give inputs in the units of the data."
            )
        return prediction

    def _predicted(self, x_new: np.ndarray, include_noise: bool, single: bool) -> Prediction:
        """Predict at inputs in the user's units, of which some may be missing."""
        fitted = _Part(0, FITTED, self.considered[0].fitted, 1.0)
        mixed = [(self, fitted, 1.0)] if single else self._mixed
        rows, nodes = x_new, None
        if np.isnan(x_new).any() and self.distribution is not None:
            used = {d for of, part, _ in mixed for d in of._used(part)}
            rows, nodes = self.distribution.completed(x_new, used)
        rows = self.scaling.inputs(rows)
        rows = np.where(np.isnan(rows), 0.0, rows)  # any number where nothing depends on it
        kernels = [of._on_data(part).moments(rows) for of, part, _ in mixed]
        whole = Prediction.mixture(kernels, [weight for *_, weight in mixed], include_noise)
        if nodes is not None:
            same = np.full(len(nodes), 1 / len(nodes))
            whole = averaged([whole.at(row) for row in nodes], same)
        return in_target_unit(whole, self.scaling)

    def _used(self, part: _Part) -> set[int]:
        """Return the numbers of the features on which a prediction depends."""
        shared = frozenset(range(self.pool.dimension))  # of any mean function, all
        if self.shared is None or isinstance(self.shared, MeanProcess):
            shared = frozenset() if self.shared is None else self.shared.used
        return set(shared).union(*(c.dimensions for c in self.considered[part.place].composition))

    @cached_property
    def _mixed(self) -> list[tuple["Selection", _Part, float]]:
        """Kernels that predictions average over, those of `unshared` included; weights sum to 1."""
        ways = [(self, 1 - self.departure)]
        if self.unshared is not None:
            ways.append((self.unshared, self.departure))
        likely = [(of, weight) for of, weight in ways if weight >= LEAST_WEIGHT]
        total = sum(weight for _, weight in likely)
        return [
            (of, part, weight / total * part.weight)
            for of, weight in likely
            for part in of._averaged
        ]

    @cached_property
    def _averaged(self) -> list[_Part]:
        """Kernels of this selection that predictions average over; their weights sum to 1."""
        parts = [
            _Part(place, number, draw, row.weight * draw.weight)
            for place, row in enumerate(self.considered)
            if place == 0 or row.weight >= LEAST_WEIGHT
            for number, draw in (enumerate(row.draws) if row.draws else [(FITTED, row.fitted)])
        ]
        likely = [part for part in parts if part.weight >= LEAST_DRAW] or parts[:1]
        total = sum(part.weight for part in likely)
        return [part._replace(weight=part.weight / total if total else 1.0) for part in likely]

    @property
    def conditioned(self) -> Conditioned:
        """The selected kernel with its fitted values, conditioned on the data, in scaled units."""
        return self._on_data(_Part(0, FITTED, self.considered[0].fitted, 1.0))

    def _on_data(self, part: _Part) -> Conditioned:
        """Return a kernel conditioned on the data. Its Cholesky factor is cached."""
        key = part.place, part.number
        if key not in self._conditioned:
            objective, sites = self._objective(part.place), part.draw.sites
            objective = objective if sites is None else objective.with_sites(sites)
            values = objective.coordinates.from_named(part.draw.hyperparameters, part.draw.noise)
            self._conditioned[key] = Conditioned.of(objective, values)
        return self._conditioned[key]

    @cached_property
    def _known(self) -> KnownPart | None:
        """What is known of the data: all kernels use the same."""
        return KnownPart.of(self.shared, self.x, self.known_noise)

    @cached_property
    def _objectives(self) -> dict[int, Objective]:
        """Objectives of considered rows, by their index."""
        return {}

    def _objective(self, place: int) -> Objective:
        """Return the objective of a considered row, without a prior, for all its draws."""
        if place not in self._objectives:
            where = Coordinates(self.pool, self.considered[place].composition)
            self._objectives[place] = Objective(where, self.x, self.y, known=self._known)
        return self._objectives[place]

    @property
    def components(self) -> dict[str, GaussianProcess]:
        """The additive components of the selected composition, as processes in the user's units.

        They are by the candidates' labels, for :class:`kem_pymc.bandits.Bandit`. The mean of the
        targets is in none of them, and the noise variance is divided equally.

        Raises
        ------
        InputError
            If the target was transformed, or users share a mean function.
        """
        if self.shared is not None:
            raise InputError(
                "Users share a mean function, which isn't a component. Select without a shared "
                "part for components that add up."
            )
        candidates = self.composition.candidates
        scaling = replace(self.scaling, target_mean=0.0)
        return {
            candidate.label(self.pool.dimension): GaussianProcess(
                Composition((candidate,)),
                self.hyperparameters,
                self.noise / len(candidates),
                scaling,
            )
            for candidate in candidates
        }

    def __getstate__(self) -> dict[str, Any]:
        # Cached matrices are n x n, and quickly computed again.
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"_conditioned": {}}

    def with_unshared(self, unshared: "Selection", departure: float) -> "Selection":
        """Return the same selection, mixed with one that doesn't use the shared mean function.

        The probability that the user doesn't follow the shared mean is updated by Bayes' theorem,
        with the evidence of all compositions considered with and without it. (Schmidli et al. 2014
        use such a mixture as a robust prior in the meta-analysis of trials.) If the ratio of the
        evidences isn't defined, the prior probability is kept.

        Parameters
        ----------
        unshared : Selection
            Selection for the same data without the shared mean function.
        departure : float
            Prior probability that the user doesn't follow the shared mean, between 0 and 1
            (exclusive).

        Returns
        -------
        Selection
        """
        gain = unshared.log_evidence - self.log_evidence
        return replace(
            self,
            unshared=unshared,
            departure=departure if math.isnan(gain) else float(expit(logit(departure) + gain)),
            run_time=self.run_time + unshared.run_time,
        )

    @property
    def log_evidence(self) -> float:
        """Log of the summed exp(score) of all considered rows."""
        return float(logsumexp([row.score for row in self.considered]))

    def log_predictive_density(self, x_new: npt.ArrayLike, y_new: npt.ArrayLike) -> np.ndarray:
        """Return the log predictive density (m,) of each new observation, in the target's unit.

        Parameters
        ----------
        x_new : array_like, shape (m, D), or (m,) if D is 1
        y_new : array_like, shape (m,)

        Raises
        ------
        InputError
            If the inputs or targets aren't valid, or their shapes don't match.
        """
        return self.predict(x_new, include_noise=True).log_predictive_density(y_new)

    def label(self, composition: Composition | None = None) -> str:
        """Return the label of a composition, by default of the selected one."""
        chosen = self.composition if composition is None else composition
        return chosen.label(self.pool.dimension)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per considered row, best composition first."""
        rows = [
            {**vars(row), "composition": self.label(row.composition)} for row in self.considered
        ]
        return pd.DataFrame(rows).drop(columns=["hyperparameters", "draws"])

    def to_row(self) -> dict[str, str | int | float]:
        """Return the selection as one row of a table; structured values are JSON text."""
        return {
            "composition": self.label(),
            "n_points": len(self.y),
            "hyperparameters": json.dumps(self.hyperparameters),
            "noise": self.noise,
            "log_likelihood": self.considered[0].log_likelihood,
            "bic": self.considered[0].bic,
            "considered": json.dumps(
                {  # the best row of each composition: later entries replace earlier ones
                    self.label(c.composition): {"bic": c.bic, "score": c.score}
                    for c in sorted(self.considered, key=lambda row: row.score)
                }
            ),
            "departure": self.departure,
            "averaged": json.dumps(
                [  # kernels that predictions average over
                    {
                        "composition": self.label(of.considered[part.place].composition),
                        "hyperparameters": part.draw.hyperparameters,
                        "noise": part.draw.noise,
                        "weight": weight,
                        "shared": of.shared is not None,
                    }
                    for of, part, weight in self._mixed
                ]
            ),
            "run_time": self.run_time,
            "message": self.message,
        }

    def __repr__(self) -> str:
        others = ", ".join(self.label(c.composition) for c in self.considered[1:]) or "nothing else"
        text = f"Selection({self.label()}, from {plural(len(self.y), 'point')}"
        return f"{text}; also considered {others}) {self.message}".rstrip()

    def _display(self) -> Display:
        columns = ["composition", "status", "probability", "log_likelihood", "bic", "weight"]
        values = {**self.hyperparameters, "noise variance": self.noise}
        facts = {
            "Sd of the noise": f"{number(self.noise_in_target_units**0.5)} (target's unit)",
            "Time": f"{self.run_time:.2g} s",
        }
        if self.unshared is not None:
            facts["Probability of not following the shared mean"] = number(self.departure)
        return Display(
            f"Selection of {self.label()} from {plural(len(self.y), 'point')}",
            facts,
            [
                Listing(
                    ("composition", "status", "probability", "log likelihood", "BIC", "weight"),
                    self.to_frame()[columns].head(SHOWN).to_numpy().tolist(),
                    {"probability": ".2f", "log likelihood": ".1f", "BIC": ".1f", "weight": ".2f"},
                    more=beyond(SHOWN, len(self.considered), "compositions are shown."),
                ),
                Listing(
                    ("hyperparameter", "value"),
                    list(values.items()),
                    title="Values, in scaled units",
                    folded=True,
                ),
            ],
            [self.message] if self.message else [],
        )
