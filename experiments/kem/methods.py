"""Methods of the experiments beside those of the library, and variants of the priors."""

from dataclasses import replace
from typing import Any

from experiments.kem.memoryless import MemorylessSelector
from experiments.kem.search_selector import SearchSelector
from experiments.lifelong.selector import LifelongSelector
from experiments.peers.methods import PEERS, Peer
from kem_pymc.comparison import methods as library
from kem_pymc.comparison.methods import KEM, Method, Training, departing, register
from kem_pymc.comparison.study import priors_of
from kem_pymc.data.categories import number_features
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.coordinates import NOISE_FLOOR
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors import Priors, Unexplained
from kem_pymc.sampler.moves.sweep import PAPER
from kem_pymc.selection.selector import Selector

#: The library's methods and those of the experiments, by name.
METHODS: dict[str, Method] = dict(library.METHODS)

#: Expected number of candidates of the synthetic study's pool that enter below WHITE.
FEW = 0.4


def floor(
    name: str, pool: CandidatePool, unexplained: Unexplained | None, family: Family | None = None
) -> Priors:
    """Return the study's priors with the paper's noise floor."""
    return priors_of(name, pool, unexplained, family).replace(noise_floor=NOISE_FLOOR)


def paper(
    name: str, pool: CandidatePool, unexplained: Unexplained | None, family: Family | None = None
) -> Priors:
    """Return the paper's priors; those of the synthetic studies are the paper's already."""
    return priors_of("unit" if name == "default" else name, pool, unexplained, family)


def one_noise(
    name: str, pool: CandidatePool, unexplained: Unexplained | None, family: Family | None = None
) -> Priors:
    """Return the paper's priors with the same noise prior for every parent."""
    return paper(name, pool, unexplained, family).without_parent()


def few_enter(
    name: str, pool: CandidatePool, unexplained: Unexplained | None, family: Family | None = None
) -> Priors:
    """Return the paper's priors with the number of entering candidates of the synthetic study."""
    return paper(name, pool, unexplained, family).expecting(FEW, pool)


#: Variants of a study's priors by name.
PRIOR_VARIANTS = {
    "study": priors_of,
    "floor": floor,
    "paper": paper,
    "one-noise": one_noise,
    "few-enter": few_enter,
}


@register("KEM joint", METHODS, shared=False)
class JointKEM(KEM):
    """KEM with the joint posterior."""

    training = "joint"
    model_options = {"feedback": "joint"}  # noqa: RUF012  never changed


@register(
    "KEM, the paper's",
    METHODS,
    shared=False,
    priors=paper,
    options={"fit": "ml", "criterion": "bic", "max_candidates": 200},
)
class PaperKEM(KEM):
    """The paper's setting: its schedule and priors, all children fitted by maximum likelihood."""

    training = "paper"
    model_options = {"schedule": PAPER}  # noqa: RUF012  never changed


@register("Memoryless", METHODS, options={"fit": "map", "criterion": "laplace"})
class Memoryless(Method):
    """A random search for each user and time step, without pilot users."""

    def selector(self, training: Training) -> Selector:
        """Return the selector; see :class:`experiments.kem.memoryless.MemorylessSelector`."""
        shared = training.shared
        selector = MemorylessSelector(
            training.pool,
            training.priors,
            scaling=training.scaling,
            shared=None if shared is None or shared.nothing else shared.process,
            seed=training.seed,
            **self.options,
        )
        return departing(training, selector)


@register("BOMS", METHODS, shared=False, options={"method": "boms"})
@register("CKS", METHODS, shared=False, options={"method": "cks"})
class Search(Method):
    """A search without pilot users, again at every time step."""

    training = "search"

    def selector(self, training: Training) -> Selector:
        """Return the selector; see :class:`experiments.kem.search_selector.SearchSelector`."""
        pilot = training.pilot
        return SearchSelector(
            pilot.dimension,
            scaling=Scaling.unit(pilot),  # the priors of hyperparameters are for these units
            dimensions=number_features(pilot),
            seed=training.seed,
            **self.options,
        )


@register("LBO", METHODS, shared=False)
class Lifelong(Method):
    """Lifelong Bayesian optimisation of the composition; pilot users' data are its first tasks."""

    training = "lifelong"

    def selector(self, training: Training) -> Selector:
        """Return the selector; see :class:`experiments.lifelong.selector.LifelongSelector`."""
        options: dict[str, Any] = {"scaling": training.scaling, "seed": training.seed}
        return LifelongSelector.learn(
            training.pilot, training.pool, training.priors, **(options | self.options)
        )


METHODS.update({name: Peer(name=name) for name in PEERS})


def variant(
    like: str,
    prior_variant: str | None = None,
    options: dict[str, Any] | None = None,
    without: tuple[str, ...] = (),
    **fields: Any,
) -> Method:
    """Return a registered method with other fields.

    Parameters
    ----------
    like : str
        Name of the registered method.
    prior_variant : str, optional
        Key of `PRIOR_VARIANTS`.
    options : dict, optional
        Options of the selector that differ.
    without : sequence of str
        Candidates that are left out.
    **fields
        Other fields of :class:`kem_pymc.comparison.methods.Method`.
    """
    base = METHODS[like]
    if prior_variant is not None:
        fields["priors"] = PRIOR_VARIANTS[prior_variant]
    return replace(base, without=tuple(without), options=base.options | (options or {}), **fields)
