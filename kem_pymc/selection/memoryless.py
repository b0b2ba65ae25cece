"""The Memoryless baseline: a search without pilot users, at every time step (section 6.1)."""

import math
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from kem_pymc.checks import check_points
from kem_pymc.compiled import compiled
from kem_pymc.errors import InputError
from kem_pymc.evolution.clusters import LONE_SPREAD, Typical
from kem_pymc.evolution.fit_memory import no_fits
from kem_pymc.evolution.moves.composition import Odds
from kem_pymc.evolution.moves.local import local_step
from kem_pymc.evolution.moves.seating import open_cluster
from kem_pymc.evolution.state import Study, attach, empty_state
from kem_pymc.gp.covariance_memory import no_covariances
from kem_pymc.gp.likelihood import Data
from kem_pymc.gp.mean_process import MeanAtPoints, MeanFunction
from kem_pymc.gp.objective import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.scaling import Scaling
from kem_pymc.selection.judge import Judge, Option
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous

if TYPE_CHECKING:
    from kem_pymc.prior_table import PriorTable
    from kem_pymc.priors import Priors

#: Probabilities that a step adds or removes a candidate; otherwise it changes values.
ODDS = Odds(add=0.2, remove=0.4, swap=0.0, edge=0.6)


class MemorylessSelector:
    """Selector that searches for a kernel by Metropolis-Hastings, without pilot users.

    The spike-and-slab posterior given a single user's data is sampled, starting at the kernel of
    the previous time step. The composition of the draw with the largest density is selected, and
    fitted in the same way as by the other methods.

    Parameters
    ----------
    pool : CandidatePool
    priors : Priors
        Priors of the search. The noise prior is the one without a parent; every candidate has its
        inclusion probability below the empty composition. Their `noise_floor` is the smallest noise
        variance of the fit.
    fit : {"map", "ml"}
        How hyperparameters are fitted: with these priors, or by maximum likelihood. Fits based on
        pilot users aren't available.
    criterion : {"bic", "aic", "laplace", "loo"}
        Criterion that is reported for the selection. It has no effect on the selection, since only
        one composition is fitted.
    scaling : Scaling, optional
        Scaling applied to the user's data; by default data aren't scaled.
    shared : MeanFunction, optional
        Mean function that all users share, in scaled units.
    steps : int
        Number of Metropolis-Hastings steps of a search; 10,000 in the paper.
    runs : int
        As for :class:`KEMSelector`.
    seed : int
        The same data, previous selection and seed give the same selection.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or priors depend on population parameters.
    """

    def __init__(
        self,
        pool: CandidatePool,
        priors: "Priors",
        fit: Literal["map", "ml"] = "map",
        criterion: Literal["bic", "aic", "laplace", "loo"] = "bic",
        *,
        scaling: Scaling | None = None,
        shared: MeanFunction | None = None,
        steps: int = 10_000,
        runs: int = 3,
        seed: int = 0,
    ) -> None:
        if fit == "pilot" or criterion == "process":
            raise InputError(
                "fit='pilot' and criterion='process' go by pilot users. "
                "Use fit='map' or 'ml', and another criterion."
            )
        if steps < 1:
            raise InputError(f"steps={steps} leaves nothing to do. Give 1 or more.")
        self.pool = pool
        self.priors = priors.without_parent()
        self.priors.check_values(pool)
        self.scaling = Scaling.identity(pool.dimension) if scaling is None else scaling
        self.steps, self.seed, self.shared = steps, seed, shared
        self._judge = Judge(pool, fit, criterion, runs, priors.noise_floor, self.priors)

    def __getstate__(self) -> dict[str, Any]:
        # Pointers to compiled code are invalid in another process, which compiles again.
        return {k: v for k, v in self.__dict__.items() if k != "_table"}

    @cached_property
    def _table(self) -> "PriorTable":
        return self.priors.compile(self.pool)

    def __repr__(self) -> str:
        return f"MemorylessSelector(fit={self._judge.fit!r}, steps={self.steps})"

    def select(self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None) -> Selection:
        """Search for a kernel for one user's data up to now.

        Parameters
        ----------
        x : array_like, shape (n, D), or (n,) if D is 1
            All of the user's inputs so far, in the user's units.
        y : array_like, shape (n,)
        previous : Selection, Composition, str or None
            If it is a Selection from the same pool, the search starts there; otherwise at WHITE
            (the empty composition).

        Returns
        -------
        Selection

        Raises
        ------
        InputError
            If there are no points, the shapes don't match, or a value isn't a finite number.
        """
        started = time.perf_counter()
        x, y = check_points(x, y, self.pool.dimension)
        x, y = self.scaling.inputs(x), self.scaling.targets(y)
        included, h, log_noise = self._start(previous)
        # Every data set has its own stream of random numbers, so that the order doesn't matter.
        rng = np.random.default_rng([self.seed, crc32(x.tobytes()), crc32(y.tobytes())])
        shared = None if self.shared is None else MeanAtPoints(self.shared, x)
        log_noise = best_kernel(self._study(x, y, shared), included, h, log_noise, self.steps, rng)
        composition = self.pool.composition(included)
        coordinates = Coordinates(self.pool, composition)
        # The search has no noise floor, so that its draws are draws from the posterior.
        log_noise = max(log_noise, math.log(self.priors.noise_floor))
        values = np.append(h[coordinates.places], log_noise)
        typical = Typical(values, np.full(len(values), LONE_SPREAD), values[None])
        options = [Option(composition, "searched", 1.0, typical)]
        considered = tuple(self._judge.consider(options, Composition(), previous, x, y, shared))
        run_time = time.perf_counter() - started
        return Selection(considered, self.pool, self.scaling, x, y, run_time, shared=self.shared)

    def _start(self, previous: Previous) -> tuple[np.ndarray, np.ndarray, float]:
        """Return inclusion indicators (C,), hyperparameters (H,) and log noise to start from."""
        if isinstance(previous, Selection) and previous.pool == self.pool:
            coordinates = Coordinates(self.pool, previous.composition)
            values = coordinates.from_named(previous.hyperparameters, previous.noise)
            return coordinates.inclusion.copy(), *coordinates.expand(values)
        return np.zeros(len(self.pool), dtype=np.bool_), np.zeros(len(self._table.entry)), 0.0

    def _study(self, x: np.ndarray, y: np.ndarray, shared: MeanAtPoints | None = None) -> Study:
        """Return the study of one user with one data set, below the empty composition."""
        one = np.zeros(1, dtype=np.int64)
        data = Data(
            np.ascontiguousarray(x.T)[None],
            np.array(y if shared is None else y - shared.mean)[None, None],
            np.array([[len(y)]]),
            np.ones(1, dtype=np.int64),
            nested=True,
        )
        if shared is not None:
            data = data._replace(shared=shared.covariance[None])
        return Study(
            kernels=kernels(),
            layout=self.pool.layout,
            priors=self._table,
            data=data,
            concentration=1.0,
            concentration_shape=0.0,
            concentration_rate=0.0,
            power=1.0,
            user=one,
            step=one.copy(),
            first=one.copy(),
            fits=no_fits(1, len(self.pool)),
            covariances=no_covariances(self.pool.layout, len(y)),
        )


def best_kernel(
    study: Study,
    included: np.ndarray,
    h: np.ndarray,
    log_noise: float,
    steps: int,
    rng: np.random.Generator,
) -> float:
    """Search for the kernel with the largest posterior density, starting from a given kernel.

    Parameters
    ----------
    study : Study
        Study with a single data set.
    included, h : ndarray, shapes (C,) bool and (H,) float64
        Inclusion indicators and hyperparameters of the kernel to start from. They are overwritten
        with those of the best draw, if it has a larger density.
    log_noise : float
        Log noise variance to start from.
    steps : int
        Number of Metropolis-Hastings steps.
    rng : Generator

    Returns
    -------
    float
        Log noise variance of the best draw.
    """
    state = empty_state(study, 2, 1)
    return _search(study, state, included, h, log_noise, steps, rng)


@compiled
def _search(study, state, included, h, log_noise, steps, rng):
    slot = open_cluster(study, state, 0, included, h, log_noise)
    attach(study, state, 0, slot)
    best = state.log_density[0]
    for _ in range(steps):
        local_step(study, state, slot, False, ODDS, 0.0, rng)
        if state.log_density[0] > best:
            best = state.log_density[0]
            included[:] = state.included[slot]
            h[:] = state.h[slot]
            log_noise = state.log_noise[slot]
    return log_noise
