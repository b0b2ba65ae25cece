"""What is run, as data: studies, methods and figures, read from ``settings.toml``."""

import tomllib
from importlib.resources import files
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from kem_pymc.errors import InputError
from kem_pymc.transforms import Name

#: What methods go by: posteriors of `EvolutionModel` for either target, or by the paper's schedule;
#: those of its ablations; ARD's fits to pilot users; two-level models; or nothing.
Learns = Literal["cut", "joint", "paper", "final", "stratified", "ard", "two-level", "nothing"]

#: The study's priors as they are; these with the paper's noise floor, or without users' own levels
#: among the candidates; the paper's; those with one prior of the noise whatever the parent, or with
#: as many candidates entering as in the synthetic study, however many there are.
Supposes = Literal["study", "floor", "no-level", "paper", "one-noise", "few-enter"]


#: Whether a mean process that users share is learned, where it predicts better.
Shares = Literal["auto", "none"]

#: A study's pool: what a table has for which no candidates are named.
DEFAULT_POOL = "default"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sampling(_Strict):
    """How much of a posterior is drawn."""

    chains: PositiveInt
    tune: PositiveInt
    draws: PositiveInt


class Study(_Strict):
    """A data set with what belongs to it.

    Attributes
    ----------
    title : str
    data : str
        Name of a loader in :mod:`kem_pymc.experiments.data`.
    options : dict
        Of the loader.
    pool : str or list of str
        Name of a pool in :mod:`kem_pymc.datasets.pools`, or its candidates; "default" for those
        of tables, which the pilot users decide.
    priors : {"default", "paper", "synthetic"}
    transform : {"sqrt", "log", "log1p", "yeo-johnson"}, optional
        Of the target.
    judged : {"truth", "next"}
        What predictions are judged by: the true function on a grid, or the next batch.
    trials : int
    users : {"same", "new"}
        Whether trials deal the same users anew, or each makes users of its own. A user who is in
        several trials is counted once.
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
    """A method of selection.

    Attributes
    ----------
    learns : str
    supposes : str
        Under which priors.
    shared : {"auto", "none"}
        Whether a mean process that users share is learned beside it, where it pays.
    single : bool
        Whether the selected kernel predicts alone, with its fitted values.
    options : dict
        Of the selector.
    """

    learns: Learns
    supposes: Supposes = "study"
    shared: Shares = "none"
    single: bool = False
    options: dict[str, Any] = {}


class Figure(_Strict):
    """What a figure or table needs.

    Attributes
    ----------
    studies, methods : list of str
    trials : int, optional
        Of each study; by default as many as it says.
    folds : int, optional
        Test users have no part in it: the pilot users of every trial are held out in turn, in so
        many parts, and judged by their next batch.
    seed : int
        Added to the seed of the experiment: what is chosen by a figure isn't to be chosen on the
        users that others report.
    """

    studies: list[str]
    methods: list[str]
    trials: PositiveInt | None = None
    folds: PositiveInt | None = None
    seed: NonNegativeInt = 0


class Quick(_Strict):
    """What ``--quick`` replaces: trials, test users, steps of a search, posterior draws."""

    trials: PositiveInt
    test_users: PositiveInt
    steps: PositiveInt
    sampling: dict[str, Sampling]


class Settings(_Strict):
    """All of it."""

    sampling: dict[str, Sampling]
    studies: dict[str, Study]
    methods: dict[str, Method]
    figures: dict[str, Figure]
    quick: Quick


def read(text: str) -> Settings:
    """Return settings from TOML.

    Raises
    ------
    InputError
        If something is missing, unknown, or refers to what isn't there.
    """
    try:
        settings = Settings.model_validate(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise InputError(f"The settings can't be used: {error}. Mend them.") from error
    for name, figure in settings.figures.items():
        unknown = [s for s in figure.studies if s not in settings.studies]
        unknown += [m for m in figure.methods if m not in settings.methods]
        if unknown:
            raise InputError(f"{name} needs {unknown[0]!r}, which isn't there. Add it.")
    return settings


def default() -> Settings:
    """Return the settings of the package."""
    return read(files(__package__).joinpath("settings.toml").read_text("utf-8"))
