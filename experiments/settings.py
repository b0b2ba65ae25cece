"""Settings of the experiments: studies and figures, read from ``settings.toml``."""

# ruff: noqa: RUF012  (pydantic copies defaults)

import tomllib
from importlib.resources import files
from typing import Any, Literal

from pydantic import PositiveFloat, PositiveInt, ValidationError

from experiments.bandits.games import ProblemName
from experiments.data.series import HOURLY, TSDL
from experiments.evocov.metrics import MetricName
from kem_pymc.comparison import settings
from kem_pymc.comparison.settings import Strict, package_text
from kem_pymc.errors import InputError


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
    "lbo", "random", "gp", "multitask_gp", "warm_start_gp", "dngo", "ablr", "ablr_100"
]


class Optimiser(Strict):
    """An optimiser of functions that follow each other.

    Attributes
    ----------
    method : str
    alpha, max_networks
        See :class:`kem_pymc.lifelong.LifelongSampler`, for "lbo".
    """

    method: MethodName
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


class Settings(settings.Settings):
    """The contents of ``settings.toml``, and the methods of :mod:`kem_pymc.comparison`."""

    searches: dict[str, Searches] = {}
    extrapolators: dict[str, Extrapolator] = {}
    extrapolations: dict[str, Extrapolations] = {}
    sequences: dict[str, Sequences] = {}
    decisions: dict[str, Decisions] = {}


def read(text: str) -> Settings:
    """Return the settings, with those in the text of a TOML file in place of ``settings.toml``'s.

    Kinds of tables that aren't given, such as methods, are those of ``settings.toml``, and so are
    fields of sequences.

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
    """Return the settings from ``experiments/settings.toml``."""
    return read("")


def _entries(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with those that are given in place of its own."""
    text = files("experiments").joinpath("settings.toml").read_text("utf-8")
    entries: dict[str, Any] = tomllib.loads(package_text()) | tomllib.loads(text)
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
