"""Search for the kernel of one data set."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Literal

import numpy as np
import numpy.typing as npt

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import number_array
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.distances import DRAWS
from kem_pymc.search.evaluation import Criterion, Evaluation, Evaluator, most_similar
from kem_pymc.search.grammar import BASES, Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.progress import Line
from kem_pymc.search.record import Record, opened
from kem_pymc.search.result import SearchResult
from kem_pymc.search.strategies import Boms, Greedy, Random, Strategy

#: Methods of search, and criteria.
METHODS, CRITERIA = ("cks", "boms", "random"), ("laplace", "bic", "aic")

Method = Literal["cks", "boms", "random"]

#: Smallest number of points.
FEWEST = 5


def search(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    method: Method = "cks",
    *,
    budget: int = 40,
    bases: Sequence[str] = BASES,
    changes: bool = False,
    criterion: Criterion = "laplace",
    hyperpriors: Hyperpriors | None = None,
    initial: Iterable[Composition | str] = (),
    starts: int = 3,
    draws: int = DRAWS,
    seed: int = 0,
    out: str | PathLike[str] | None = None,
    progressbar: bool = True,
) -> SearchResult:
    """Search for the kernel of one data set, among sums of products of base kernels.

    Inputs are scaled to [0, 1] and targets are standardised. Every model has a constant mean and
    Gaussian noise.

    Parameters
    ----------
    x : array_like, shape (n, D), or (n,) if D is 1
        Inputs. The same inputs may occur several times.
    y : array_like, shape (n,)
        Targets.
    method : {"cks", "boms", "random"}
        Compositional kernel search, which is greedy (Duvenaud et al. 2013); Bayesian optimisation
        for model search (Malkomes et al. 2016); or random walks.
    budget : int
        Number of models to evaluate.
    bases : sequence of str
        Names of base kernels.
    changes : bool
        Whether kernels may change at a point or in a window of an input
        (:mod:`kem_pymc.kernels.changes`).
    criterion : {"laplace", "bic", "aic"}
        Score of a model: Laplace's approximation of the log evidence, or -1/2 times BIC or AIC.
    hyperpriors : Hyperpriors, optional
        Priors of hyperparameters and noise.
    initial : iterable of Composition or str
        Expressions that are evaluated first, such as the best one for fewer data.
    starts : int
        Number of starting points of the fit of each model.
    draws : int
        Number of draws of hyperparameters for the distances between models, for "boms".
    seed : int
        The same data, options and seed give the same models.
    out : path, optional
        Folder to which every evaluation is written when it is done. If the folder contains a search
        with the same data and options except the budget, that search is continued.
    progressbar : bool
        Whether to show the progress, on the error stream.

    Returns
    -------
    SearchResult

    Raises
    ------
    InputError
        If there are fewer than 5 points, the shapes don't match, a value isn't a finite number, the
        targets or an input column are constant, an option is unknown or out of range, or the folder
        contains anything else.

    Examples
    --------
    >>> found = search(years, passengers, "boms", budget=40)
    >>> found.best
    >>> found.selection.predict(coming_years, include_noise=True)
    """
    x, y, scaling = scaled(x, y)
    check_options(method, criterion, budget=budget, starts=starts, draws=draws, seed=seed)
    hyperpriors = Hyperpriors() if hyperpriors is None else hyperpriors
    grammar = Grammar(x.shape[1], tuple(bases), changes=changes)
    evaluator = Evaluator(x, y, hyperpriors, criterion, starts, seed)
    first = [grammar.parse(str(expression)) for expression in initial]
    options = {
        "method": method,
        "bases": list(grammar.bases),
        "changes": changes,
        "criterion": criterion,
        "hyperpriors": {name: list(row) for name, row in sorted(hyperpriors.table.items())},
        "initial": [str(expression) for expression in first],
        "starts": starts,
        "draws": draws,
        "seed": seed,
    }
    rng = np.random.default_rng(seed)
    with opened(out, options, x, y) as record, Line(budget, progressbar) as line:
        strategy = make_strategy(method, grammar, x, hyperpriors, rng, draws)
        found = explore(strategy, evaluator, budget, first, record, line.show)
    return SearchResult(tuple(found), method, evaluator, scaling)


def check_options(method: str, criterion: str, seed: int, **numbers: int) -> None:
    """Check the options of a search; `numbers` are those of at least 1, by name.

    Raises
    ------
    InputError
        If an option is unknown or out of range.
    """
    if method not in METHODS:
        raise InputError(f"There is no method {method!r}. Use one of {', '.join(METHODS)}.")
    if criterion not in CRITERIA:
        raise InputError(f"There is no criterion {criterion!r}. Use one of {', '.join(CRITERIA)}.")
    for name, value in numbers.items():
        if value < 1:
            raise InputError(f"{name}={value} is too small. Give 1 or more.")
    if seed < 0:
        raise InputError(f"seed={seed} is negative. Give 0 or more.")


def scaled(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray, Scaling]:
    """Return inputs scaled to [0, 1], standardised targets, and the scaling.

    Raises
    ------
    InputError
        As for :func:`search`.
    """
    x, y = number_array("inputs", x), number_array("targets", y)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or y.shape != (len(x),) or not x.shape[1]:
        raise InputError(
            f"There are inputs of shape {x.shape} and targets of shape {y.shape}. "
            "Give one row of inputs per target, and at least one column."
        )
    if len(y) < FEWEST:
        raise InputError(f"There are {len(y)} points. Give at least {FEWEST} to search a kernel.")
    low, high = x.min(axis=0), x.max(axis=0)
    if (low == high).any():
        column = int(np.argmax(low == high))
        raise InputError(f"Input column {column} is constant at {low[column]}. Leave it out.")
    if np.ptp(y) == 0:
        raise InputError(f"All targets are {y[0]}. Give targets that vary.")
    scaling = Scaling(low, high, float(y.mean()), float(y.std()))
    return scaling.inputs(x), scaling.targets(y), scaling


def make_strategy(
    method: str,
    grammar: Grammar,
    x: np.ndarray,
    hyperpriors: Hyperpriors,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> Strategy:
    """Return the strategy of a method of search."""
    if method == "boms":
        return Boms(grammar, x, hyperpriors, rng, draws)
    return Greedy(grammar, rng) if method == "cks" else Random(grammar, rng)


@one_blas_thread()
def explore(
    strategy: Strategy,
    evaluator: Evaluator,
    budget: int,
    first: Sequence[Composition] = (),
    record: Record | None = None,
    callback: Callable[[Sequence[Evaluation]], object] | None = None,
) -> list[Evaluation]:
    """Evaluate what a strategy proposes until the budget is spent, or there is nothing new.

    Parameters
    ----------
    strategy : Strategy
    evaluator : Evaluator
    budget : int
        Number of models to evaluate.
    first : sequence of Composition
        Expressions to evaluate before those that the strategy proposes.
    record : Record, optional
        Files of the search. Evaluations that they contain aren't computed again.
    callback : callable, optional
        Called with all evaluations so far after each one.

    Returns
    -------
    list of Evaluation
    """
    found: list[Evaluation] = []
    waiting = list(dict.fromkeys(first))[::-1]
    began = time.perf_counter()
    while len(found) < budget:
        expression = waiting.pop() if waiting else strategy.propose()
        if expression is None:
            break
        evaluation = None if record is None else record.known(len(found), expression)
        if evaluation is None:
            evaluation = evaluator.evaluate(expression, most_similar(expression, found))
            evaluation = replace(evaluation, elapsed=time.perf_counter() - began)
            if record is not None:
                record.add(evaluation)
        else:  # the clock goes on where it stopped
            began = time.perf_counter() - evaluation.elapsed
        found.append(evaluation)
        strategy.observe(evaluation)
        if callback is not None:
            callback(found)
    return found
