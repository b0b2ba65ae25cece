"""Training of methods on pilot users, and construction of their selectors."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

import kem_pymc.priors as prior_tables
from kem_pymc.comparison.settings import Learns, Method, Sampling, Supposes
from kem_pymc.data.categories import number_features
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Name
from kem_pymc.diagnostics.convergence import scalar_r_hats
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import NOISE_FLOOR
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.ablations import final_model, final_model_of, stratified_models
from kem_pymc.model.cluster_model import scaling_for
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.priors import Priors
from kem_pymc.runs.sampling import sample
from kem_pymc.sampler.moves.sweep import PAPER
from kem_pymc.search.selector import SearchSelector
from kem_pymc.selection.ablations import FinalSelector, StratifiedSelector
from kem_pymc.selection.ard import ARDSelector
from kem_pymc.selection.departure import DepartureSelector
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.lifelong import LifelongSelector
from kem_pymc.selection.memoryless import MemorylessSelector
from kem_pymc.selection.selector import Selector
from kem_pymc.selection.two_level import TwoLevelSelector
from kem_pymc.shared.choice import SharedPart, learn_shared

if TYPE_CHECKING:
    from xarray import DataTree


#: Name of the evolutions that were learned under the assumption that users share nothing.
UNSHARED = "unshared"


@dataclass
class Training:
    """Training of methods: pilot users and assumptions about them, and the results.

    Attributes
    ----------
    pilot, pool, priors, scaling
    seed : int
        Seed of the searches for test users.
    steps : int
        Number of steps of a Memoryless search.
    evolutions : dict of str to Evolutions
        Learned evolutions by name: one, or one for each time step, and the `UNSHARED` ones if they
        were learned.
    seconds : float
        Time that learning took.
    r_hat : dict of str to dict
        R-hat of the scalars, see :func:`kem_pymc.diagnostics.convergence.scalar_r_hats`, by name of
        the evolutions; "final" for the posterior of the users' last data sets, which is sampled in
        addition.
    shared : SharedPart or None
        The part that pilot users share, in scaled units; None if nothing may be shared.
    """

    pilot: Cohort
    pool: CandidatePool
    priors: Priors
    scaling: Scaling
    seed: int = 0
    steps: int = 10_000
    evolutions: dict[str, Evolutions] = field(default_factory=dict)
    seconds: float = 0.0
    r_hat: dict[str, dict[str, float | None]] = field(default_factory=dict)
    shared: SharedPart | None = None

    @property
    def departs(self) -> bool:
        """Return whether users share a mean process, from which new users may depart."""
        return self.shared is not None and not self.shared.nothing

    def learn(
        self, learns: Learns, sampling: dict[str, Sampling], rng: np.random.Generator
    ) -> None:
        """Sample the posteriors that methods of this kind use.

        Parameters
        ----------
        learns : str
            Kind of the methods, see :data:`kem_pymc.comparison.settings.Learns`.
        sampling : dict of str to Sampling
            Numbers of chains and draws for "cut" and "joint".
        rng : numpy.random.Generator
        """
        began = time.perf_counter()
        own: dict[str, Any] = {"scaling": self.scaling, "shared": self.shared}
        models = _models(learns, self.pilot, self.pool, self.priors, **own)
        draws = sampling["joint" if learns == "joint" else "cut"]
        final = None
        if learns in ("cut", "joint"):
            (model,) = models.values()
            final = _posterior(final_model_of(model), sampling["cut"], rng)
            self.r_hat["final"] = scalar_r_hats(final)
        self.evolutions = {}
        for name, model in models.items():
            idata = _posterior(model, draws, rng)
            self.r_hat[name] = scalar_r_hats(idata)
            self.evolutions[name] = Evolutions.from_posterior(idata, final=final)
        self.seconds = time.perf_counter() - began

    def learn_unshared(self, priors: Priors, sampling: Sampling, rng: np.random.Generator) -> None:
        """Learn evolutions of the pilot users' last data sets, assuming that they share nothing.

        The result is cached, because several methods of a study need the same.

        Parameters
        ----------
        priors : Priors
            Priors for users who share nothing.
        sampling : Sampling
        rng : numpy.random.Generator
        """
        began = time.perf_counter()
        seed = int(rng.integers(2**32))
        model = final_model(self.pilot, self.pool, priors, scaling=self.scaling, shared=None)
        key = seed, self.pilot.digest(), repr((model.settings(), sampling))
        self.evolutions[UNSHARED] = _kept(
            _UNSHARED,
            key,
            lambda: Evolutions.from_posterior(
                _posterior(model, sampling, np.random.default_rng(seed))
            ),
        )
        self.seconds += time.perf_counter() - began

    @property
    def own(self) -> list[Evolutions]:
        """Evolutions of the methods' posteriors, each with the unshared evolutions attached."""
        unshared = self.evolutions.get(UNSHARED)
        own = [learned for name, learned in self.evolutions.items() if name != UNSHARED]
        return [replace(learned, unshared=unshared) for learned in own]

    def selector(self, method: Method) -> Selector:
        """Return a method's selector, made from the results of the training."""
        return _SELECTORS[method.learns](self, **method.options)


#: Cache of the parts that pilot users share, by digest and noise floor, of the last `KEPT` cohorts.
#: The methods of a study need the same part, which takes as long to learn as evolutions.
_SHARED: dict[tuple[str, float], SharedPart] = {}
KEPT = 16

#: Cache of the unshared evolutions of the pilot users' last data sets.
_UNSHARED: dict[tuple[int, str, str], Evolutions] = {}


def _kept[K, V](known: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Return the cached value of a key, computed if it isn't among the last `KEPT` ones."""
    if key not in known:
        made = make()
        while len(known) >= KEPT:
            del known[next(iter(known))]
        known[key] = made
    return known[key]


def scaling_of(pilot: Cohort, priors: Priors, transform: Name | None) -> Scaling:
    """Return the scaling that a table of priors was made for.

    With a transform of the target it is always :meth:`kem_pymc.data.scaling.Scaling.unit`.

    Raises
    ------
    InputError
        If a target can't be transformed.
    """
    return scaling_for(pilot, priors) if transform is None else Scaling.unit(pilot, transform)


def shared_by(scaled: Cohort, noise_floor: float) -> SharedPart:
    """Return the part that the users of a cohort in scaled units share, cached if possible."""
    key = scaled.digest(), noise_floor
    return _kept(_SHARED, key, lambda: learn_shared(scaled, noise_floor=noise_floor))


def _models(
    learns: Learns,
    pilot: Cohort,
    pool: CandidatePool,
    priors: Priors,
    **own: Any,
) -> dict[str, EvolutionModel]:
    if learns in ("cut", "joint"):
        return {learns: EvolutionModel(pilot, pool, priors, feedback=learns, **own)}
    if learns == "paper":
        return {learns: EvolutionModel(pilot, pool, priors, schedule=PAPER, **own)}
    if learns == "final":
        return {learns: final_model(pilot, pool, priors, **own)}
    if learns == "stratified":
        models = stratified_models(pilot, pool, priors, **own)
        return {f"stratified-{step}": model for step, model in enumerate(models)}
    return {}


def _posterior(model: EvolutionModel, sampling: Sampling, rng: np.random.Generator) -> "DataTree":
    return sample(
        model,
        draws=sampling.draws,
        tune=sampling.tune,
        chains=sampling.chains,
        cores=1,
        random_seed=int(rng.integers(2**32)),
        progress=False,
    )


def _departing(training: Training, selector: Selector) -> Selector:
    """Return a selector that allows for users who depart from the part that pilot users share.

    The selector itself is returned if unshared evolutions were not learned.
    """
    unshared = training.evolutions.get(UNSHARED)
    return selector if unshared is None else DepartureSelector(selector, unshared)


def _kem(training: Training, **options: Any) -> Selector:
    (evolutions,) = training.own
    return KEMSelector(evolutions, **options)


def _final(training: Training, **options: Any) -> Selector:
    (evolutions,) = training.own
    return FinalSelector(evolutions, **options)


def _stratified(training: Training, **options: Any) -> Selector:
    strata = training.own
    points = [
        float(np.median([ends[0] for ends in training.pilot.at(step).ends]))
        for step in range(training.pilot.max_steps)
    ]
    return StratifiedSelector(strata, points, **options)


def _ard(training: Training, **options: Any) -> Selector:
    selector = ARDSelector(
        training.pilot.dimension,
        scaling=training.scaling,
        priors=training.priors,
        pilot=training.pilot,
        shared=training.shared,
        **options,
    )
    return _departing(training, selector)


def _two_level(training: Training, **options: Any) -> Selector:
    own: dict[str, Any] = {
        "scaling": training.scaling,
        "noise_floor": training.priors.noise_floor,
    }
    return TwoLevelSelector.learn(training.pilot, **(own | options))


def _memoryless(training: Training, **options: Any) -> Selector:
    shared = training.shared
    selector = MemorylessSelector(
        training.pool,
        training.priors,
        scaling=training.scaling,
        shared=None if shared is None or shared.nothing else shared.process,
        seed=training.seed,
        **({"steps": training.steps} | options),
    )
    return _departing(training, selector)


def _search(training: Training, **options: Any) -> Selector:
    pilot = training.pilot
    return SearchSelector(
        pilot.dimension,
        scaling=Scaling.unit(pilot),  # the priors of hyperparameters are for these units
        dimensions=number_features(pilot),
        seed=training.seed,
        **options,
    )


def _lifelong(training: Training, **options: Any) -> Selector:
    own: dict[str, Any] = {"scaling": training.scaling, "seed": training.seed}
    return LifelongSelector.learn(training.pilot, training.pool, training.priors, **(own | options))


_SELECTORS: dict[str, Callable[..., Selector]] = {
    "cut": _kem,
    "joint": _kem,
    "paper": _kem,
    "final": _final,
    "stratified": _stratified,
    "ard": _ard,
    "two-level": _two_level,
    "nothing": _memoryless,
    "search": _search,
    "lifelong": _lifelong,
}


def options_of(method: Method) -> dict[str, Any]:
    """Return the options of a method's selector, including defaults that are plain values."""
    kinds: dict[str, Callable[..., Any]] = {
        "ard": ARDSelector,
        "nothing": MemorylessSelector,
        "search": SearchSelector,
        "lifelong": LifelongSelector,
        "two-level": TwoLevelSelector.learn,
    }
    parameters = signature(kinds.get(method.learns, KEMSelector)).parameters.values()
    defaults = {p.name: p.default for p in parameters if isinstance(p.default, str | float | int)}
    return defaults | method.options


#: Expected number of candidates of the synthetic study's pool that enter below WHITE.
FEW = 0.4


def priors_of(name: str, pool: CandidatePool, unexplained: float = 1.0) -> Priors:
    """Return a table of priors by name.

    Parameters
    ----------
    name : {"default", "paper", "synthetic"}
        Name of the function in :mod:`kem_pymc.priors`.
    pool : CandidatePool
    unexplained : float
        Mean square of the scaled targets that the shared part leaves unexplained; only used for
        "default".
    """
    if name == "default":
        return prior_tables.default(pool, unexplained)
    return prior_tables.paper() if name == "paper" else prior_tables.synthetic()


def supposed(
    name: str, supposes: Supposes, pool: CandidatePool, unexplained: float = 1.0
) -> Priors:
    """Return a study's priors by name, changed as a method requires.

    Parameters
    ----------
    name, pool, unexplained
        As for :func:`priors_of`.
    supposes : str
        The change, see :data:`kem_pymc.comparison.settings.Supposes`.
    """
    if supposes in ("paper", "one-noise", "few-enter") and name == "default":
        name = "paper"
    priors = priors_of(name, pool, unexplained)
    if supposes == "floor":
        return priors.replace(noise_floor=NOISE_FLOOR)
    if supposes == "one-noise":
        return priors.without_parent()
    return priors.expecting(FEW, pool) if supposes == "few-enter" else priors
