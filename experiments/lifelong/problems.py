"""Sequences of functions to optimise: Branin functions, and scores on windows of a registry."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from optuna.trial import Trial

from experiments.data.branin import RANGES, branin_sequence
from experiments.data.registry import read_registry, simulated_registry
from experiments.lifelong.classifiers import check_installed, score, suggest
from kem_pymc.errors import InputError

type Direction = Literal["minimize", "maximize"]

#: Number of folds of cross-validation.
FOLDS = 5


class ObjectiveFunction(NamedTuple):
    """A function to optimise.

    Attributes
    ----------
    evaluate : callable
        Returns the value of a point, NaN if the evaluation failed.
    optimum : float
        The best value; NaN if it isn't known.
    """

    evaluate: Callable[[Mapping[str, Any]], float]
    optimum: float


class ProblemSequence(Protocol):
    """Functions that follow each other.

    Attributes
    ----------
    key : str
        Name of the setting that differs between the sequences of a figure.
    direction : {"minimize", "maximize"}
    """

    key: ClassVar[str]
    direction: ClassVar[Direction]

    @property
    def setting(self) -> float:
        """The value of the setting."""

    def suggest(self, trial: Trial) -> None:
        """Suggest a point."""

    def problems(self, rng: np.random.Generator) -> Iterator[ObjectiveFunction]:
        """Return the functions, in their order."""


@dataclass(frozen=True)
class BraninSequence:
    """Branin functions whose parameters are normal around the standard ones.

    Attributes
    ----------
    noise : float
        Standard deviation of the parameters.
    functions : int
        Length of the sequence.
    """

    key: ClassVar[str] = "noise"
    direction: ClassVar[Direction] = "minimize"

    noise: float
    functions: int

    @property
    def setting(self) -> float:
        """The standard deviation; see :class:`ProblemSequence`."""
        return self.noise

    def suggest(self, trial: Trial) -> None:
        """Suggest both inputs; see :class:`ProblemSequence`."""
        for name, ends in RANGES.items():
            trial.suggest_float(name, *ends)

    def problems(self, rng: np.random.Generator) -> Iterator[ObjectiveFunction]:
        """Return the functions; see :class:`ProblemSequence`."""
        for function in branin_sequence(self.noise, self.functions, rng):

            def evaluate(point: Mapping[str, Any], function=function) -> float:
                return float(function(**point))

            yield ObjectiveFunction(evaluate, function.minimum)


@dataclass(frozen=True)
class RegistrySequence:
    """Cross-validated scores of classifiers on windows of a registry (section 3.2).

    Attributes
    ----------
    overlap : int
        Number of years by which windows overlap.
    functions : int
        Number of windows.
    path, outcome, year : str, optional
        A table, see :func:`experiments.data.registry.read_registry`; by default a registry is
        simulated.
    digest : str
        Digest of the table.
    """

    key: ClassVar[str] = "overlap"
    direction: ClassVar[Direction] = "maximize"

    overlap: int
    functions: int
    path: str | None = None
    outcome: str = ""
    year: str = ""
    digest: str = ""

    @property
    def setting(self) -> float:
        """The overlap; see :class:`ProblemSequence`."""
        return self.overlap

    def suggest(self, trial: Trial) -> None:
        """Suggest a classifier; see :class:`ProblemSequence`."""
        suggest(trial)

    def problems(self, rng: np.random.Generator) -> Iterator[ObjectiveFunction]:
        """Return the scores; see :class:`ProblemSequence`."""
        check_installed()
        if self.path is None:
            registry = simulated_registry(rng)
        else:
            registry = read_registry(self.path, self.outcome, self.year)
        for years, (x, y) in registry.windows(self.overlap, self.functions).items():
            fewest = np.unique(y, return_counts=True)[1].min()
            if fewest < FOLDS:
                raise InputError(
                    f"The years {years} have an outcome with {fewest} rows. Give a table with "
                    f"{FOLDS} rows of each outcome at least, one for every fold."
                )
            yield ObjectiveFunction(partial(score, x=x, y=y, folds=FOLDS), np.nan)
