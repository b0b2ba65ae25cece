"""Settings of the experiments: studies, methods and figures, read from ``settings.toml``."""

import tomllib
from importlib.resources import files
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from kem_pymc.data.transforms import Name
from kem_pymc.datasets.series import HOURLY, TSDL
from kem_pymc.errors import InputError
from kem_pymc.experiments.games import ProblemName
from kem_pymc.lifelong.optimizer import MethodName
from kem_pymc.search.evocov.metrics import Metric

#: What methods learn from pilot users: posteriors of `EvolutionModel` for either target, or with
#: the paper's schedule; those of its ablations; fits of ARD; two-level models; or nothing, for the
#: Memoryless baseline and for the searches of :mod:`kem_pymc.search`.
Learns = Literal[
    "cut",
    "joint",
    "paper",
    "final",
    "stratified",
    "ard",
    "two-level",
    "nothing",
    "search",
    "lifelong",
]

#: Priors of a method: the study's; these with the paper's noise floor, or without CONST (individual
#: levels of users) among the candidates; the paper's; these with the same noise prior for every
#: parent, or with the expected number of entering candidates of the synthetic study.
Supposes = Literal["study", "floor", "no-level", "paper", "one-noise", "few-enter"]


#: Whether a mean process that users share is learned if it improves predictions.
Shares = Literal["auto", "none"]

#: Name of the pool that stands for the default candidates of tables.
DEFAULT_POOL = "default"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(_Strict):
    """Numbers of chains, tuning steps and draws for sampling a posterior."""

    chains: PositiveInt
    tune: PositiveInt
    draws: PositiveInt


class Study(_Strict):
    """A data set, with its candidates, priors and number of trials.

    Attributes
    ----------
    title : str
        Name of the study in figures and tables.
    data : str
        Name of a loader in :mod:`kem_pymc.experiments.data`.
    options : dict
        Options of the loader.
    pool : str or list of str
        Name of a pool in :mod:`kem_pymc.datasets.pools`, or a list of candidates; "default" for the
        default candidates of tables, which depend on the pilot users.
    priors : {"default", "paper", "synthetic"}
        Name of the table of priors.
    transform : {"sqrt", "log", "log1p", "yeo-johnson"}, optional
        Transform of the target.
    judged : {"truth", "next"}
        Data against which predictions are scored: the true function on a grid, or the next batch.
    trials : int
        Number of trials.
    users : {"same", "new"}
        Whether all trials split the same users again, or each trial has different users. A user who
        is in several trials is counted once.
    """

    title: str
    data: str
    options: dict[str, Any] = {}
    pool: str | list[str]
    priors: Literal["default", "paper", "synthetic"] = "default"
    transform: Name | None = None
    judged: Literal["truth", "next"]
    trials: PositiveInt
    users: Literal["same", "new"] = "same"


class Method(_Strict):
    """A method of kernel selection.

    Attributes
    ----------
    learns : str
        What the method learns from pilot users, see `Learns`.
    supposes : str
        Priors under which it learns, see `Supposes`.
    shared : {"auto", "none"}
        Whether a mean process that users share is learned in addition, if it improves predictions.
    single : bool
        Whether predictions use only the selected kernel, with its fitted values.
    options : dict
        Options of the selector.
    """

    learns: Learns
    supposes: Supposes = "study"
    shared: Shares = "none"
    single: bool = False
    options: dict[str, Any] = {}


class Figure(_Strict):
    """The studies and methods that a figure or table compares.

    Attributes
    ----------
    studies, methods : list of str
        Names of studies and methods.
    trials : int, optional
        Number of trials of each study; by default the study's own number.
    folds : int, optional
        Number of folds for cross-validation on pilot users. Test users aren't used then: the pilot
        users of every trial are held out in turn, and predictions scored on their next batch.
    seed : int
        Number added to the seed of the experiment, so that a figure from which options are chosen
        doesn't use the same users as the figures that report results.
    """

    studies: list[str]
    methods: list[str]
    trials: PositiveInt | None = None
    folds: PositiveInt | None = None
    seed: NonNegativeInt = 0


class Searches(_Strict):
    """Searches for the kernels of single data sets that a figure compares.

    Attributes
    ----------
    data : dict of str to str
        Title of each data set, by its name in :func:`kem_pymc.datasets.single`.
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


class Extrapolator(_Strict):
    """A method that extrapolates time series with evolved kernels, or that these compare with.

    Attributes
    ----------
    strategy : {"evolution", "climbing", "random", "mutations", "fit", "ps"}
        EvoCov, Go With The First, Random Search; mutations, or fits from random starting points, of
        the kernel that compositional kernel search finds; or a fit of the periodic spikes kernel.
    metric : {"lml", "loocv", "posterior_lml", "sopl", "rmse"}
        What hyperparameters are fitted to.
    reference : int, optional
        Number of evaluations of the metric, with its gradient, per kernel, for 350 points; for n
        points it is multiplied by (350 / n)^2, as in the paper. By default each kernel has as many
        as in :func:`kem_pymc.search.evolve`.
    """

    strategy: Literal["evolution", "climbing", "random", "mutations", "fit", "ps"]
    metric: Metric = "lml"
    reference: PositiveInt | None = None


class Extrapolations(_Strict):
    """Extrapolations of time series that a table of EvoCov compares.

    Attributes
    ----------
    data : "tsdl", "hourly" or list of str
        The thirteen series, the simulated hourly counts, or names of series
        (:mod:`kem_pymc.datasets.series`).
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


class Optimiser(_Strict):
    """An optimiser of functions that follow each other.

    Attributes
    ----------
    method, alpha, max_networks
        See :class:`kem_pymc.lifelong.LifelongOptimizer`.
    """

    method: MethodName
    alpha: PositiveFloat = 2.0
    max_networks: PositiveInt = 10


class RegistryTable(_Strict):
    """A registry in a file, see :func:`kem_pymc.datasets.registry.read_registry`."""

    path: str
    outcome: str
    year: str


class Sequences(_Strict):
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


class Decisions(_Strict):
    """Games of bandits, or regressions, that a figure of D-GPUCB compares; figure 1 has neither.

    Attributes
    ----------
    rounds : dict of str to int
        Number of rounds of each problem's games.
    regressions : dict of str to list of int
        Numbers of components with which regressions of each problem are compared.
    observations : int
        Number of observations of a regression.
    trials : int
    quick, quick_trials : int
        Smaller numbers for ``--quick``: of rounds or observations, and of trials.
    """

    rounds: dict[ProblemName, PositiveInt] = {}
    regressions: dict[ProblemName, list[PositiveInt]] = {}
    observations: PositiveInt = 50
    trials: PositiveInt = 1
    quick: PositiveInt = 5
    quick_trials: PositiveInt = 1


class Quick(_Strict):
    """Smaller numbers for ``--quick``: trials, test users, steps of a search, posterior draws."""

    trials: PositiveInt
    test_users: PositiveInt
    steps: PositiveInt
    sampling: dict[str, Sampling]


class Settings(_Strict):
    """The contents of ``settings.toml``."""

    sampling: dict[str, Sampling]
    studies: dict[str, Study]
    methods: dict[str, Method]
    figures: dict[str, Figure]
    searches: dict[str, Searches] = {}
    extrapolators: dict[str, Extrapolator] = {}
    extrapolations: dict[str, Extrapolations] = {}
    sequences: dict[str, Sequences] = {}
    decisions: dict[str, Decisions] = {}
    quick: Quick


def read(text: str) -> Settings:
    """Return the package's settings, with those in the text of a TOML file in place of its own.

    Kinds of tables that aren't given, such as methods, are the package's, and so are fields of
    sequences.

    Raises
    ------
    InputError
        If the text isn't valid TOML or is nested too deeply, an entry is missing or unknown, or a
        figure refers to a study or method that isn't defined.
    """
    try:
        settings = Settings.model_validate(_entries(tomllib.loads(text)))
    except (tomllib.TOMLDecodeError, ValidationError, RecursionError) as error:
        raise InputError(f"The settings can't be used: {error}. Fix the settings file.") from error
    for name, figure in settings.figures.items():
        unknown = [s for s in figure.studies if s not in settings.studies]
        unknown += [m for m in figure.methods if m not in settings.methods]
        if unknown:
            raise InputError(
                f"{name} uses {unknown[0]!r}, which isn't defined. Add it to the settings."
            )
    for name, table in settings.extrapolations.items():
        missing = [m for m in table.methods if m not in settings.extrapolators]
        if missing:
            raise InputError(
                f"{name} uses {missing[0]!r}, which isn't defined. Add it to the settings."
            )
        if table.kernels is None and table.seconds is None:
            raise InputError(f"{name} has no limit. Give kernels or seconds in the settings.")
    return settings


def default() -> Settings:
    """Return the settings from the package's ``settings.toml``."""
    return read("")


def _entries(given: dict[str, Any]) -> dict[str, Any]:
    """Return the package's settings, with those that are given in place of its own."""
    text = files(__package__).joinpath("settings.toml").read_text("utf-8")
    entries: dict[str, Any] = tomllib.loads(text)
    for kind, tables in given.items():
        known = entries.get(kind)
        if kind == "sequences" and isinstance(tables, dict) and isinstance(known, dict):
            changed = {name: _fields(known.get(name), own) for name, own in tables.items()}
            entries[kind] = known | changed
        else:
            entries[kind] = tables
    return entries


def _fields(known: Any, given: Any) -> Any:
    """Return the fields of a table, with those that are given in place of known ones."""
    return known | given if isinstance(known, dict) and isinstance(given, dict) else given
