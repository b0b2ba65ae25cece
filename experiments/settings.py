"""Settings of the experiments on searches, EvoCov, LBO and bandits, read from ``settings.toml``."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from experiments.bandits.games import ProblemName
from experiments.bandits.messages import Truth
from experiments.data.series import HOURLY, TSDL
from experiments.evocov.metrics import MetricName


class Strict(BaseModel):
    """Settings without unknown fields, which don't change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Searches(Strict):
    """Searches for the kernels of single data sets that a figure compares.

    Attributes
    ----------
    data : dict of str to str
        Title of each data set, by its name in :func:`experiments.data.single`.
    methods : list of {"cks", "boms", "random"}
    budget : int
        Number of models that each search evaluates.
    trials : int
        Number of trials, which differ in random starting points.
    quick_budget, quick_trials : int
        Smaller numbers for ``--quick``.
    """

    data: dict[str, str]
    methods: list[Literal["cks", "boms", "random"]]
    budget: PositiveInt
    trials: PositiveInt
    quick_budget: PositiveInt
    quick_trials: PositiveInt


class Extrapolator(Strict):
    """A method that extrapolates time series with evolved kernels, or that these compare with.

    Attributes
    ----------
    strategy : {"evolution", "composed", "climbing", "random", "mutations", "fit", "ps"}
        EvoCov from random kernels, or from those of a compositional kernel search; Go With The
        First, Random Search; mutations, or fits from random starting points, of the kernel that
        compositional kernel search finds; or a fit of the periodic spikes kernel.
    metric : {"lml", "loocv", "posterior_lml", "sopl", "rmse"}
        What hyperparameters are fitted to.
    reference : int, optional
        Number of evaluations of the metric, with its gradient, per kernel, for 350 points; for n
        points it is multiplied by (350 / n)^2, as in the paper. By default each kernel has as many
        as in :func:`kem_pymc.search.evolve`.
    """

    strategy: Literal["evolution", "composed", "climbing", "random", "mutations", "fit", "ps"]
    metric: MetricName = "lml"
    reference: PositiveInt | None = None


class Extrapolations(Strict):
    """Extrapolations of time series that a table of EvoCov compares.

    Attributes
    ----------
    data : "tsdl", "hourly" or list of str
        The thirteen series, the simulated hourly counts, or names of series
        (:mod:`experiments.data.series`).
    methods : list of str
        Names of `Settings.extrapolators`.
    kernels : int, optional
        Largest number of kernels of each search.
    seconds : float, optional
        CPU time of each search.
    trials : int
        Number of trials, which differ in random numbers.
    models : int
        Number of models of compositional kernel search, for "fit" and "mutations".
    quick_kernels, quick_trials, quick_models, quick_reference : int
        Smaller numbers for ``--quick``.
    """

    data: Literal["tsdl", "hourly"] | list[str]
    methods: list[str]
    kernels: PositiveInt | None = None
    seconds: PositiveFloat | None = None
    trials: PositiveInt
    models: PositiveInt = 20
    quick_kernels: PositiveInt
    quick_trials: PositiveInt
    quick_models: PositiveInt = 3
    quick_reference: PositiveInt

    @property
    def names(self) -> list[str]:
        """Names of the series."""
        if isinstance(self.data, str):
            return list(TSDL if self.data == "tsdl" else HOURLY)
        return self.data


#: Optimisers by name, see :func:`experiments.lifelong.samplers.sampler`.
MethodName = Literal[
    "residual", "lbo", "random", "gp", "multitask_gp", "empirical_gp", "dngo", "ablr", "ablr_100"
]


class Optimiser(Strict):
    """An optimiser of functions that follow each other.

    Attributes
    ----------
    method : str
    alpha, max_networks
        See :class:`kem_pymc.lifelong.LifelongSampler`, for "lbo".
    warm_start : bool
        Whether later functions begin where earlier ones were best.
    """

    method: MethodName
    warm_start: bool = False
    alpha: PositiveFloat = 2.0
    max_networks: PositiveInt = 10


class RegistryTable(Strict):
    """A registry in a file, see :func:`experiments.data.registry.read_registry`."""

    path: str
    outcome: str
    year: str


class Sequences(Strict):
    """Sequences of functions on which a figure of LBO compares optimisers.

    Attributes
    ----------
    noises : list of float
        Standard deviations of the parameters of Branin functions, a sequence for each.
    overlaps : list of int
        Numbers of years by which windows of a registry overlap, a sequence for each.
    registry : RegistryTable, optional
        The registry; by default it is simulated.
    methods : dict of str to Optimiser
    functions, evaluations, trials : int
        Length of a sequence, number of evaluations of each function, and number of trials.
    quick_evaluations, quick_trials : int
        Smaller numbers for ``--quick``.
    """

    noises: list[PositiveFloat] = []
    overlaps: list[PositiveInt] = []
    registry: RegistryTable | None = None
    methods: dict[str, Optimiser]
    functions: PositiveInt
    evaluations: PositiveInt
    trials: PositiveInt
    quick_evaluations: PositiveInt
    quick_trials: PositiveInt


class Decisions(Strict):
    """Games of bandits, or regressions, that a figure of D-GPUCB compares; figure 1 has neither.

    Attributes
    ----------
    rounds : dict of str to int
        Number of rounds of each problem's games.
    scales : tuple of float
        Factors of beta_t with which these are played; a fifth is the paper's. With the second and
        later ones only the two policies are played that are compared.
    regressions : dict of str to list of int
        Numbers of components with which regressions of each problem are compared.
    observations : int
        Number of observations of a regression.
    messages : list of {"linear", "nonlinear"}
        How effects depend on contexts in simulated trials of messages.
    trials : int
    quick, quick_trials : int
        Smaller numbers for ``--quick``: of rounds or observations, and of trials.
    """

    rounds: dict[ProblemName, PositiveInt] = {}
    scales: tuple[PositiveFloat, ...] = (0.2,)
    regressions: dict[ProblemName, list[PositiveInt]] = {}
    observations: PositiveInt = 50
    messages: list[Truth] = []
    trials: PositiveInt = 1
    quick: PositiveInt = 5
    quick_trials: PositiveInt = 1


class Settings(Strict):
    """The figures and tables of each kind, by name, and the methods of extrapolations."""

    searches: dict[str, Searches]
    extrapolators: dict[str, Extrapolator]
    extrapolations: dict[str, Extrapolations]
    sequences: dict[str, Sequences]
    decisions: dict[str, Decisions]


@cache
def read() -> dict[str, Any]:
    """Return the tables of ``settings.toml``."""
    return tomllib.loads(Path(__file__).with_name("settings.toml").read_text("utf-8"))


@cache
def default() -> Settings:
    """Return the settings of ``settings.toml``, but those of the Kernel Evolution Model."""
    return Settings(**{name: read()[name] for name in Settings.model_fields})
