"""Methods of kernel selection, each a registered class: what it learns, and its selector.

To add a method, decorate a subclass of :class:`Method` with :func:`register`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from xarray import DataTree

from kem_pymc.comparison.study import priors_of
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics.convergence import scalar_r_hats
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.ablations import final_model, final_model_of, stratified_models
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.priors import Priors, Unexplained
from kem_pymc.runs.sampling import sample
from kem_pymc.selection.ablations import FinalSelector, StratifiedSelector
from kem_pymc.selection.ard import ARDSelector
from kem_pymc.selection.departure import DepartureSelector
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.pilots import calibrate
from kem_pymc.selection.selector import Selector
from kem_pymc.selection.two_level import TwoLevelSelector

#: Name of the evolutions that were learned under the assumption that users share nothing.
UNSHARED = "unshared"

#: Methods by name, in the order of tables and figures.
METHODS: "dict[str, Method]" = {}


@dataclass(frozen=True)
class Sampling:
    """Numbers of chains, tuning steps and draws for sampling a posterior."""

    chains: int
    tune: int
    draws: int


@dataclass
class Training:
    """Pilot users and assumptions about them, and what was learned from them.

    Attributes
    ----------
    pilot, pool, priors, scaling
    shared : SharedPart or None
        The part that pilot users share, in scaled units; None if nothing may be shared.
    sampling : dict of str to Sampling
        Numbers of draws by training; those of "cut" for all others.
    seed : int
        Seed of searches for test users.
    evolutions : dict of str to Evolutions
        Learned evolutions by name: one, or one for each time step, and the `UNSHARED` ones if users
        share a mean process from which new users may depart.
    seconds : float
        Time that learning took.
    r_hats : list of float
        R-hat of the scalars of all posteriors, see
        :func:`kem_pymc.diagnostics.convergence.scalar_r_hats`.
    """

    pilot: Cohort
    pool: CandidatePool
    priors: Priors
    scaling: Scaling
    shared: SharedPart | None
    sampling: dict[str, Sampling]
    seed: int = 0
    evolutions: dict[str, Evolutions] = field(default_factory=dict)
    seconds: float = 0.0
    r_hats: list[float] = field(default_factory=list)

    def build[M](self, model: Callable[..., M], **options: Any) -> M:
        """Return a model of the pilot users, or several of them."""
        options = {"scaling": self.scaling, "shared": self.shared} | options
        return model(self.pilot, self.pool, self.priors, **options)

    @property
    def learned(self) -> list[Evolutions]:
        """Evolutions of the methods' posteriors, each with the unshared evolutions attached."""
        unshared = self.evolutions.get(UNSHARED)
        names = [name for name in self.evolutions if name != UNSHARED]
        return [replace(self.evolutions[name], unshared=unshared) for name in names]

    def sample(self, model: EvolutionModel, rng: np.random.Generator, kind: str) -> DataTree:
        """Sample a posterior, with the numbers of draws of a training, and note its R-hat."""
        draws = self.sampling.get(kind, self.sampling["cut"])
        idata = _posterior(model, draws, int(rng.integers(2**32)))
        self.r_hats += scalar_r_hats(idata).values()
        return idata

    def learn_unshared(self, priors: Priors, rng: np.random.Generator) -> None:
        """Learn evolutions of the pilot users' last data sets, assuming that they share nothing.

        The result is cached, because several methods of a study need the same.

        Parameters
        ----------
        priors : Priors
            Priors for users who share nothing.
        rng : numpy.random.Generator
        """
        seed, sampling = int(rng.integers(2**32)), self.sampling["cut"]
        model = final_model(self.pilot, self.pool, priors, scaling=self.scaling, shared=None)
        key = seed, self.pilot.digest(), repr((model.settings(), sampling))
        seed = int(np.random.default_rng(seed).integers(2**32))
        self.evolutions[UNSHARED] = cached(
            key, lambda: Evolutions.from_posterior(_posterior(model, sampling, seed))
        )


@dataclass(frozen=True)
class Method:
    """A method of kernel selection.

    Attributes
    ----------
    training : str
        Name of what is learned from pilot users. Methods with the same training, `shared`, `priors`
        and `without` learn once.
    shared : bool
        Whether a mean process that users share is learned in addition, if it improves predictions.
    single : bool
        Whether predictions use only the selected kernel, with its fitted values.
    priors : callable
        Returns the priors, from the name of the study's table, the pool, what there is to explain,
        and the targets' family. A function of a module.
    without : tuple of str
        Candidates of the study that the method leaves out.
    options : dict
        Options of the selector.
    """

    training: ClassVar[str] = "nothing"

    shared: bool = True
    single: bool = False
    priors: Callable[[str, CandidatePool, Unexplained, Family | None], Priors] = priors_of
    without: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def training_key(self) -> dict[str, Any]:
        """Return, as plain data, what the training depends on beside the study."""
        settings = {"training": self.training, "prior_variant": self.priors.__name__}
        return settings | {"shared": self.shared, "without": self.without}

    def learn(self, training: Training, rng: np.random.Generator) -> None:
        """Add evolutions to a training; methods that only fit kernels learn none."""

    def selector(self, training: Training) -> Selector:
        """Return the selector for test users."""
        raise NotImplementedError


def register[M: Method](
    name: str, methods: "dict[str, Method]" = METHODS, **fields: Any
) -> Callable[[type[M]], type[M]]:
    """Return a decorator that adds a class to methods, with values of its fields."""

    def decorate(kind: type[M]) -> type[M]:
        methods[name] = kind(**fields)
        return kind

    return decorate


@register("KEM")
class KEM(Method):
    """Kernels that evolve, learned from pilot users (:class:`kem_pymc.EvolutionModel`)."""

    training = "cut"
    model_options: ClassVar[dict[str, Any]] = {}

    def learn(self, training: Training, rng: np.random.Generator) -> None:
        """Learn evolutions, and the kernels with which users end up."""
        model = training.build(EvolutionModel, **self.model_options)
        final = training.sample(final_model_of(model), rng, "cut")
        posterior = training.sample(model, rng, self.training)
        learned = Evolutions.from_posterior(posterior, final=final)
        with suppress(InputError):  # of studies with too few users for it
            learned = calibrate(learned, posterior, final=final)
        training.evolutions[self.training] = learned

    def selector(self, training: Training) -> Selector:
        """Return the selector; see :class:`kem_pymc.selection.kem.KEMSelector`."""
        (evolutions,) = training.learned
        return KEMSelector(evolutions, **self.options)


@register("Stratified")
class Stratified(Method):
    """A model without evolution for each time step."""

    training = "stratified"

    def learn(self, training: Training, rng: np.random.Generator) -> None:
        """Learn the kernels of every time step."""
        for step, model in enumerate(training.build(stratified_models)):
            posterior = training.sample(model, rng, self.training)
            training.evolutions[f"stratified-{step}"] = Evolutions.from_posterior(posterior)

    def selector(self, training: Training) -> Selector:
        """Return the selector; the number of points decides which time step's model it uses."""
        steps = map(training.pilot.at, range(training.pilot.max_steps))
        points = [float(np.median([ends[0] for ends in step.ends])) for step in steps]
        return StratifiedSelector(training.learned, points, **self.options)


@register("Final")
class Final(Method):
    """A model without evolution, of the kernels with which pilot users end up."""

    training = "final"

    def learn(self, training: Training, rng: np.random.Generator) -> None:
        """Learn the kernels of the users' last data sets."""
        posterior = training.sample(training.build(final_model), rng, self.training)
        training.evolutions[self.training] = Evolutions.from_posterior(posterior)

    def selector(self, training: Training) -> Selector:
        """Return the selector; see :class:`kem_pymc.selection.ablations.FinalSelector`."""
        (evolutions,) = training.learned
        return FinalSelector(evolutions, **self.options)


@register("Pooled GP", shared=False, options={"kind": "pooled"})
@register("Mixed model", shared=False, options={"kind": "linear"})
@register("Two-level GP", shared=False, options={"kind": "smooth"})
class TwoLevelMethod(Method):
    """Fixed kernels, with values fitted to all pilot users together.

    MAGMA ("smooth"), a linear mixed model with random intercepts and slopes ("linear"), and one
    Gaussian process for all users' rows ("pooled").
    """

    training = "two-level"

    def selector(self, training: Training) -> Selector:
        """Fit the model; see :class:`kem_pymc.selection.two_level.TwoLevelSelector`."""
        options = {"scaling": training.scaling} | self.options
        return TwoLevelSelector.learn(training.pilot, **options)


@register("ARD", options={"fit": "pilot"})
class ARD(Method):
    """One kernel with a lengthscale for each feature."""

    training = "ard"

    def selector(self, training: Training) -> Selector:
        """Return the selector; see :class:`kem_pymc.selection.ard.ARDSelector`."""
        options = {"scaling": training.scaling, "shared": training.shared} | self.options
        pilot = training.pilot
        selector = ARDSelector(pilot.dimension, priors=training.priors, pilot=pilot, **options)
        return departing(training, selector)


def departing(training: Training, selector: Selector) -> Selector:
    """Return a selector that allows for users who depart from the part that pilot users share.

    The selector itself is returned if unshared evolutions were not learned.
    """
    unshared = training.evolutions.get(UNSHARED)
    return selector if unshared is None else DepartureSelector(selector, unshared)


#: The last shared parts and unshared evolutions. The methods of a study need the same, and they
#: take as long to learn as the methods' own evolutions.
_CACHE: dict[Any, Any] = {}
CACHED = 32


def cached[V](key: Any, make: Callable[[], V]) -> V:
    """Return the cached value of a key, computed if it isn't among the last `CACHED` ones."""
    value: V = _CACHE[key] if key in _CACHE else make()
    while len(_CACHE) >= CACHED and key not in _CACHE:
        del _CACHE[next(iter(_CACHE))]
    _CACHE[key] = value
    return value


def _posterior(model: EvolutionModel, sampling: Sampling, seed: int) -> DataTree:
    return sample(model, cores=1, random_seed=seed, progress=False, **vars(sampling))
