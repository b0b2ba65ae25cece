"""Prepare a cohort, a pool and priors for the compiled code, and represent states as plain arrays.

Outside the moves a state is represented by three arrays that are indexed by dataset, so that labels
of clusters can't switch, and by an array for each learned parameter that all clusters share:

structure (U, T, 1 + C) int32
    First the assignment: the number u T + t of the first dataset in the same cluster, -1 where the
    user has no such time step. Then the inclusion indicators of the cluster's composition.
hyperparameters (U, T, H) float64
    Natural values of the hyperparameters of the dataset's cluster; NaN where the candidate is out.
noise (U, T) float64
    Noise variance of the dataset's cluster; NaN where there is no dataset.
concentration () float64
    alpha of every process, if it is learned.
name () float64
    Natural value of a population parameter of the priors, in an array with its name.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.likelihood import Data
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.concentration import Concentration
from kem_pymc.model.shared_functions import KnownByUser
from kem_pymc.priors import Priors
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.priors.population import PopulationParameter
from kem_pymc.sampler.fit_cache import no_fits
from kem_pymc.sampler.joint_density import (
    draw_kernels,
    draw_population,
    kernel_terms,
    log_assignments,
    log_likelihoods,
    simulate,
    simulate_targets,
)
from kem_pymc.sampler.moves.seating import open_cluster
from kem_pymc.sampler.moves.sweep import CUT, Schedule, spare_room
from kem_pymc.sampler.state import (
    CompiledModel,
    State,
    attach,
    concentration_log_prior,
    empty_state,
    population_term,
)

#: Attributes of an engine that hold pointers to compiled code.
COMPILED = ("model", "prior_model", "prior_table")

#: Structure, hyperparameters, noise, the concentration if it is learned, population parameters.
Arrays = tuple[np.ndarray, ...]


#: Value of all hyperparameters of the default initial point. None is active there, and draws have
#: nan for inactive ones, so that the step recognises the default, which it replaces by a start of
#: its own.
UNSET = np.inf


@dataclass(eq=False)
class Engine:
    """Densities and simulations of a model, used by the sampler and the random variables.

    Parameters
    ----------
    cohort : Cohort
        Pilot users, in the units of the priors (scaled, if these are for scaled data).
    pool : CandidatePool
    priors : Priors
    concentration : float, Gamma distribution or Concentration
        alpha, or its prior.
    likelihood_power : float
        Power of the likelihood; 1 is the paper's model.
    schedule : Schedule
        Moves of a sweep.
    sequential : bool
        Whether the likelihood of a dataset is that of its last batch given the points before it.
    known_by_user : KnownByUser, optional
        Mean and covariance at each user's points of the part that users share, and known noise.
    """

    cohort: Cohort
    pool: CandidatePool
    priors: Priors
    concentration: Any
    likelihood_power: float
    schedule: Schedule = CUT
    sequential: bool = False
    known_by_user: KnownByUser | None = None

    def __post_init__(self) -> None:
        self.concentration = Concentration.of(self.concentration)
        self.likelihood_power = float(self.likelihood_power)

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code aren't valid in another process, which compiles the code again.
        return {k: v for k, v in self.__dict__.items() if k not in COMPILED}

    @cached_property
    def population(self) -> tuple[PopulationParameter, ...]:
        """Population parameters of the priors, in the order of their values."""
        return self.priors.population(self.pool)

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the sampled parameters that all clusters share: arrays after the first three."""
        alpha = ("concentration",) if self.concentration.learned else ()
        return (*alpha, *(parameter.name for parameter in self.population))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and of time steps (U, T)."""
        return self.cohort.n_users, self.cohort.max_steps

    @cached_property
    def targets(self) -> np.ndarray:
        """Targets of every dataset (U, T, n); zero beyond a dataset's end."""
        padded = self.cohort.padded()
        points = np.arange(padded.y.shape[1])
        return np.where(points < padded.ends[:, :, None], padded.y[:, None, :], 0.0)

    @cached_property
    def prior_table(self) -> PriorTable:
        """Priors in the form that the compiled code uses."""
        return self.priors.compile(self.pool)

    @cached_property
    def model(self) -> CompiledModel:
        """The model for compiled code, with the cohort's targets."""
        padded, residuals = self.cohort.padded(), self._residuals(self.targets)
        steps = padded.steps
        data = Data(padded.x, residuals, padded.ends, steps, True, self.sequential)
        if self.known_by_user is not None:
            known = self.known_by_user
            data = data._replace(known=known.covariance, factors=known.factors)
        return CompiledModel(
            kernels=kernels(),
            layout=self.pool.layout,
            priors=self.prior_table,
            data=data,
            concentration=self.concentration.value,
            concentration_shape=self.concentration.shape,
            concentration_rate=self.concentration.rate,
            power=self.likelihood_power,
            user=np.repeat(np.arange(len(steps)), steps),
            time_step=np.concatenate([np.arange(t) for t in steps]),
            first_dataset=np.concatenate([[0], np.cumsum(steps)[:-1]]),
            fits=no_fits(int(steps.sum()), len(self.pool)),
        )

    def _residuals(self, y: np.ndarray) -> np.ndarray:
        """Return a copy of targets (U, T, n) minus the mean of the part that users share."""
        mean = 0.0 if self.known_by_user is None else self.known_by_user.mean[:, None]
        return np.ascontiguousarray(y - mean, dtype=np.float64)

    def with_targets(self, y: np.ndarray) -> CompiledModel:
        """Return the model with other targets (U, T, n).

        Targets may be drawn independently for every time step. If every dataset begins with the
        targets of the one before, one forward substitution serves all time steps.

        Raises
        ------
        InputError
            If the likelihood is sequential and a dataset doesn't begin with the targets of the one
            before.
        """
        data = self.model.data
        nested = all(
            np.array_equal(y[u, t, : data.ends[u, t]], y[u, t + 1, : data.ends[u, t]])
            for u in range(len(data.n_steps))
            for t in range(data.n_steps[u] - 1)
        )
        if self.sequential and not nested:
            raise InputError(
                "Under likelihood='sequential' the targets of a dataset have to begin with those "
                "of the user's previous dataset, but these don't. "
                "Give each point of a user the same target in all datasets."
            )
        y = self._residuals(np.asarray(y))
        return self.model._replace(data=data._replace(y=y, nested=nested))

    def at(self, model: CompiledModel, *learned: npt.ArrayLike) -> CompiledModel:
        """Return the model at values of the parameters that all clusters share.

        Values are in the order of :attr:`learned`; without any, the model's values are used. See
        :meth:`with_population`.
        """
        values = list(learned)
        if values and self.concentration.learned:
            model = model._replace(concentration=float(np.asarray(values.pop(0))))
        return self.with_population(model, *values)

    def with_population(self, model: CompiledModel, *values: npt.ArrayLike) -> CompiledModel:
        """Return the model at values of the population parameters, by default the model's values.

        The values are in a new array, because a sweep changes them in place.
        """
        population = np.array([float(np.asarray(v)) for v in values or model.priors.population])
        return model._replace(priors=model.priors._replace(population=population))

    @cached_property
    def prior_model(self) -> CompiledModel:
        """The model for compiled code, without likelihood."""
        return self.model._replace(power=0.0)

    def load(
        self,
        model: CompiledModel,
        structure: np.ndarray,
        hyperparameters: np.ndarray | None = None,
        noise: np.ndarray | None = None,
        *learned: npt.ArrayLike,
        schedule: Schedule | None = None,
    ) -> State:
        """Return the state that arrays represent, with spare clusters for the moves of a schedule.

        A state depends on the arrays alone, so a chain that is resumed continues as it would have
        without interruption. Without hyperparameters or noise, their coordinates are zero. Without
        values of the `learned` parameters, the model's values are used; moves of the state need a
        model :meth:`at` the same values of the population parameters.
        """
        if learned:
            model = self.at(model, *learned)
        here = self.present
        place = np.cumsum(here.ravel()) - 1  # from indices u T + t to indices of datasets
        labels = place[structure[..., 0][here]]
        theta = np.zeros((len(labels), len(model.layout.positive)))
        if hyperparameters is not None:
            values = np.where(self._active(structure[here]), hyperparameters[here], 1.0)
            theta = values.copy()
            np.log(values, out=theta, where=model.layout.positive)
        state = empty_state(model, *((1, 0) if schedule is None else spare_room(model, schedule)))
        _load(
            model,
            state,
            labels.astype(np.int64),
            np.ascontiguousarray(structure[..., 1:][here], dtype=np.bool_),
            theta,
            np.zeros(len(labels)) if noise is None else np.log(noise[here]),
        )
        return state

    def dump(self, state: State, model: CompiledModel | None = None) -> Arrays:
        """Return a state as arrays, with the population parameters of the state's model."""
        model = self.model if model is None else model
        users, steps = self.shape
        clusters = state.assignment
        user, step = model.user, model.time_step
        flat = user * steps + step
        _, first, members = np.unique(clusters, return_index=True, return_inverse=True)
        structure = np.zeros((users, steps, 1 + len(self.pool)), dtype=np.int32)
        structure[..., 0] = -1
        structure[user, step, 0] = flat[first][members]
        structure[user, step, 1:] = state.included[clusters]
        theta = state.theta_unconstrained[clusters]
        values = np.where(model.layout.positive, np.exp(theta), theta)
        hyperparameters = np.full((users, steps, len(model.layout.positive)), np.nan)
        active = self._active(structure[user, step])
        hyperparameters[user, step] = np.where(active, values, np.nan)
        noise = np.full((users, steps), np.nan)
        noise[user, step] = np.exp(state.log_noise[clusters])
        arrays = structure, hyperparameters, noise
        alpha = (state.concentration[0],) if self.concentration.learned else ()
        return (*arrays, *alpha, *model.priors.population)

    def simplest(self) -> Arrays:
        """Return an initial point: one cluster that is noise only and holds every dataset."""
        users, steps = self.shape
        structure = np.zeros((users, steps, 1 + len(self.pool)), dtype=np.int32)
        structure[..., 0] = np.where(self.present, 0, -1)
        hyperparameters = np.full((users, steps, len(self.pool.hyperparameters)), np.nan)
        noise = np.where(self.present, self._usual_noise, np.nan)
        return structure, hyperparameters, noise

    @cached_property
    def _usual_noise(self) -> float:
        """Median of draws of the noise below WHITE, which take a fifth of a second."""
        parent = np.zeros(len(self.pool), dtype=np.bool_)
        priors, rng = self.prior_model.priors, np.random.default_rng(0)
        draws = [priors.noise_draw(parent, rng, priors.population) for _ in range(999)]
        return float(np.exp(np.median(draws)))

    def simulate(
        self, rng: np.random.Generator, concentration: npt.ArrayLike | None = None
    ) -> Arrays:
        """Draw assignments and kernels of all datasets from the prior.

        Parameters that all clusters share are drawn first, except for alpha if it is given.
        """
        model = self.with_population(self.prior_model)
        if concentration is not None:
            model = model._replace(
                concentration=float(np.asarray(concentration)),
                concentration_shape=0.0,
                concentration_rate=0.0,
            )
        state = simulate(model, rng)
        return self.dump(state, model)

    def simulate_population(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the population parameters (P,) from their priors."""
        model = self.with_population(self.prior_model)
        draw_population(model, empty_state(model, 0, 0), rng)
        return model.priors.population

    def simulate_kernels(
        self, structure: np.ndarray, rng: np.random.Generator, *population: npt.ArrayLike
    ) -> Arrays:
        """Draw hyperparameters and noise of every cluster of a structure from the prior."""
        model = self.with_population(self.prior_model, *population)
        state = self.load(model, structure)
        draw_kernels(model, state, rng)
        return self.dump(state, model)

    def simulate_targets(self, arrays: Arrays, rng: np.random.Generator) -> np.ndarray:
        """Draw targets (U, T, n) from the likelihood given kernels, including the shared mean."""
        y = simulate_targets(self.prior_model, self.load(self.prior_model, *arrays), rng)
        if self.known_by_user is not None:
            present = np.arange(y.shape[2]) < self.model.data.ends[:, :, None]
            y += np.where(present, self.known_by_user.mean[:, None], 0.0)
        return y

    @cached_property
    def present(self) -> np.ndarray:
        """Indicators (U, T) of the time steps that users have."""
        return np.arange(self.shape[1]) < self.cohort.steps[:, None]

    def constant_within_clusters(self, structure: np.ndarray, values: np.ndarray) -> bool:
        """Return whether members of every cluster have equal rows of `values` (U, T, ...).

        The result is also False if the assignments of the structure aren't valid.
        """
        label = structure[..., 0].ravel()
        here = label >= 0
        if not np.array_equal(here, self.present.ravel()):
            return False
        index = np.arange(len(label))
        if (label > index).any() or (label[label[here]] != label[here]).any():
            return False
        rows = values.reshape(len(label), -1)
        return bool(np.array_equal(rows[here], rows[label[here]], equal_nan=True))

    def log_concentration(self, concentration: npt.ArrayLike) -> float:
        """Return the log prior density of alpha (natural value), if it is learned."""
        alpha = float(np.asarray(concentration))
        if not 0 < alpha < np.inf:
            return -np.inf
        # From the density of the log to that of the natural value.
        return float(concentration_log_prior(self.prior_model, alpha) - np.log(alpha))

    def log_structure(self, structure: np.ndarray, concentration: Any = None) -> float:
        """Return the log probability of assignments and compositions."""
        if concentration is not None and not 0 < concentration < np.inf:
            return -np.inf
        parent = np.zeros_like(structure[..., 1:])
        parent[:, 1:] = structure[:, :-1, 1:]
        if not self.constant_within_clusters(
            structure, np.concatenate([parent, structure[..., 1:]], axis=-1)
        ):
            return -np.inf
        model = self.prior_model
        if concentration is not None:
            model = model._replace(concentration=float(np.asarray(concentration)))
        return float(log_assignments(model, self.load(model, structure)))

    def log_hyperparameters(
        self, structure: np.ndarray, hyperparameters: np.ndarray, *population: npt.ArrayLike
    ) -> float:
        """Return the log density of all clusters' hyperparameters (natural values)."""
        if not self._possible(structure, hyperparameters):
            return -np.inf
        model = self.with_population(self.prior_model, *population)
        state = self.load(model, structure, hyperparameters)
        values = hyperparameters[self._first_members(state)][:, self.pool.layout.positive]
        # From densities of logs to densities of natural values.
        return float(kernel_terms(model, state)[0] - np.log(values[np.isfinite(values)]).sum())

    def log_noise(
        self, structure: np.ndarray, noise: np.ndarray, *population: npt.ArrayLike
    ) -> float:
        """Return the log density of all clusters' noise variances (natural values)."""
        if not self._possible(structure, None, noise):
            return -np.inf
        model = self.with_population(self.prior_model, *population)
        state = self.load(model, structure, None, noise)
        logs = np.log(noise[self._first_members(state)])
        return float(kernel_terms(model, state)[1] - logs.sum())

    def log_population(self, *population: npt.ArrayLike) -> np.ndarray:
        """Return the log prior densities (P,) of population parameters (natural values)."""
        model = self.with_population(self.prior_model, *population)
        values, logs = model.priors.population, model.priors.population_positive
        if not (np.isfinite(values).all() and (values[logs] > 0).all()):
            return np.full(len(values), -np.inf)
        terms = np.array([population_term(model, i) for i in range(len(values))])
        # From densities of logs to densities of natural values.
        terms[logs] -= np.log(values[logs])
        return terms

    def log_joint(
        self,
        concentration: np.ndarray,
        structure: np.ndarray,
        hyperparameters: np.ndarray,
        noise: np.ndarray,
        likelihood: np.ndarray,
        *population: npt.ArrayLike,
    ) -> float:
        """Return the log joint density, given the log likelihood (U, T) of every dataset."""
        total = self.log_structure(structure, concentration)
        total += self.log_hyperparameters(structure, hyperparameters, *population)
        total += self.log_noise(structure, noise, *population)
        total += self.likelihood_power * float(likelihood.sum())
        if self.concentration.learned:
            total += self.log_concentration(concentration)
        return total + float(self.log_population(*population).sum())

    def log_likelihood(self, arrays: Arrays, y: np.ndarray | None = None) -> np.ndarray:
        """Return the log likelihood (U, T) of every dataset under its cluster's kernel.

        It is -inf for all datasets if the arrays don't represent valid kernels.
        """
        if not self._possible(*arrays[:3]):
            return np.where(self.present, -np.inf, 0.0)
        model = self.model if y is None else self.with_targets(y)
        return log_likelihoods(model, self.load(self.prior_model, *arrays))

    def _possible(
        self,
        structure: np.ndarray,
        hyperparameters: np.ndarray | None = None,
        noise: np.ndarray | None = None,
    ) -> bool:
        """Return whether arrays represent clusters with valid kernels, whatever their density."""
        arrays = structure[..., 1:], hyperparameters, noise
        if not all(self.constant_within_clusters(structure, a) for a in arrays if a is not None):
            return False
        if hyperparameters is not None:
            active, values = self._active(structure[self.present]), hyperparameters[self.present]
            wrong = self.pool.layout.positive & active & (values <= 0)
            if wrong.any() or (np.isfinite(values) != active).any():
                return False
        return noise is None or bool((np.isfinite(noise) & (noise > 0))[self.present].all())

    def _active(self, structure: np.ndarray) -> np.ndarray:
        """Return which hyperparameters (n, H) belong to the candidates in rows of a structure."""
        return np.repeat(structure[:, 1:] > 0, np.diff(self.pool.layout.hyper_start), axis=1)

    def log_density_of_batches(self, arrays: Arrays) -> np.ndarray:
        """Return the log density (U, T) of datasets' last batches given the points before them."""
        model = self.model._replace(data=self.model.data._replace(sequential=True))
        return log_likelihoods(model, self.load(self.prior_model, *arrays))

    def _first_members(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        _, first = np.unique(state.assignment, return_index=True)
        return self.model.user[first], self.model.time_step[first]


@compiled
def _load(model, state, labels, included, theta, log_noise):
    clusters = np.full(labels.shape[0], -1, dtype=np.int64)
    for d in range(labels.shape[0]):
        if clusters[labels[d]] < 0:
            clusters[labels[d]] = open_cluster(model, state, d, included[d], theta[d], log_noise[d])
        attach(model, state, d, clusters[labels[d]])
