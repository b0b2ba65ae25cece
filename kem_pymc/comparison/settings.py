"""Settings of the experiments: studies, methods and figures, read from ``settings.toml``."""

import tomllib
from importlib.resources import files
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    NonNegativeInt,
    PositiveInt,
)

from kem_pymc.data.transforms import Name

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


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(Strict):
    """Numbers of chains, tuning steps and draws for sampling a posterior."""

    chains: PositiveInt
    tune: PositiveInt
    draws: PositiveInt


class Study(Strict):
    """A data set, with its candidates, priors and number of trials.

    Attributes
    ----------
    title : str
        Name of the study in figures and tables.
    data : str
        Name of a loader in :mod:`kem_pymc.comparison.data`.
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


class Method(Strict):
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


class Figure(Strict):
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


class Quick(Strict):
    """Smaller numbers for ``--quick``: trials, test users, steps of a search, posterior draws."""

    trials: PositiveInt
    test_users: PositiveInt
    steps: PositiveInt
    sampling: dict[str, Sampling]


class Settings(Strict):
    """The contents of ``settings.toml``."""

    sampling: dict[str, Sampling]
    studies: dict[str, Study] = {}
    methods: dict[str, Method]
    figures: dict[str, Figure] = {}
    quick: Quick


def default() -> Settings:
    """Return the settings from the package's ``settings.toml``."""
    return Settings.model_validate(tomllib.loads(package_text()))


def package_text() -> str:
    """Return the text of the package's ``settings.toml``."""
    return files(__package__).joinpath("settings.toml").read_text("utf-8")
