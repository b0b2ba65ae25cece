"""Search for the kernel of one data set."""

from collections.abc import Iterable, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from kem_pymc._system.executors import Workers
from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc._system.progress import Progress
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.distances import DRAWS
from kem_pymc.search.evaluation import Criterion, Evaluation, Evaluator
from kem_pymc.search.exploration import Strategy, best_so_far, explore
from kem_pymc.search.grammar import BASES, Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.points import scaled
from kem_pymc.search.record import Record, search_folder
from kem_pymc.search.result import SearchResult
from kem_pymc.search.strategies import Boms, Greedy, Random

#: Methods of search among compositions.
Method = Literal["cks", "boms", "random"]

#: Default numbers of models to evaluate, and of starting points of a fit.
BUDGET, STARTS = 40, 3


@checked
def search(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    method: Method | Literal["evocov"] = "cks",
    *,
    budget: int | None = None,
    bases: Sequence[str] = BASES,
    changes: bool = False,
    criterion: Criterion = "laplace",
    hyperpriors: Hyperpriors | None = None,
    initial: Iterable[Composition | str] = (),
    starts: int = STARTS,
    draws: int = DRAWS,
    seed: int = 0,
    cores: int | None = None,
    cluster: Workers | None = None,
    out: str | PathLike[str] | None = None,
    progressbar: bool = True,
) -> SearchResult:
    """Search for the kernel of one data set.

    Inputs are scaled to [0, 1] and targets are standardised. Every model has Gaussian noise, and,
    except for "evocov", a constant mean. All are compared with a constant plus noise, the empty
    composition, which is evaluated first.

    Parameters
    ----------
    x : array_like, shape (n, D), or (n,) if D is 1
        Inputs, for the methods of compositions also a DataFrame, whose columns are shown in the
        names of models. The same inputs may occur several times, except for "evocov".
    y : array_like, shape (n,)
        Targets.
    method : {"cks", "boms", "random", "evocov"}
        Among sums of products of base kernels: compositional kernel search, which is greedy
        (Duvenaud et al. 2013); Bayesian optimisation for model search (Malkomes et al. 2016); or
        random walks. Among elementary mathematical expressions: evolution (Roman et al. 2019),
        whose other options are those of :func:`kem_pymc.search.evolve`.
    budget : int, optional
        Number of models to evaluate, beside the constant; by default 40, and 2,820 for "evocov".
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
    cores : int, optional
        Number of processes that fit kernels, for "evocov"; by default, one per core. The other
        methods choose each model after they have evaluated those before.
    cluster : str or concurrent.futures.Executor, optional
        Address of a Dask scheduler, or an executor, to use instead of processes on this machine,
        for "evocov".
    out : path, optional
        Folder to which every evaluation is written when it is done. If the folder contains a search
        with the same data and options except the budget, that search is continued.
    progressbar : bool
        Whether to show the progress, on the error stream.

    Returns
    -------
    SearchResult
        For "evocov" an :class:`~kem_pymc.search.evocov.result.EvolutionResult`.

    Raises
    ------
    InputError
        If there are fewer than 5 points (10 for "evocov"), the shapes don't match, a value isn't a
        finite number, inputs are repeated (for "evocov"), the targets or an input column are
        constant, an option is unknown, out of range, or not one of the method, or the folder
        contains anything else.

    Examples
    --------
    >>> found = search(years, passengers, "boms", budget=40)
    >>> found.best
    >>> found.selection.predict(coming_years, include_noise=True)
    """
    if method == "evocov":
        compositional = {
            "bases": tuple(bases) != BASES,
            "changes": changes,
            "criterion": criterion != "laplace",
            "hyperpriors": hyperpriors is not None,
            "initial": bool(tuple(initial)),
            "starts": starts != STARTS,
            "draws": draws != DRAWS,
        }
        if given := [name for name, there in compositional.items() if there]:
            raise InputError(
                f"The method evocov has no {', '.join(given)}: its kernels aren't compositions. "
                "Leave these options out."
            )
        from kem_pymc.search.evocov.run import BUDGET as KERNELS
        from kem_pymc.search.evocov.run import evolve

        budget = KERNELS if budget is None else budget
        return evolve(
            x,
            y,
            budget=budget,
            seed=seed,
            cores=cores,
            cluster=cluster,
            out=out,
            progressbar=progressbar,
        )
    if cores is not None or cluster is not None:
        raise InputError(
            f"Models of {method} are evaluated one after the other, in this process. Leave out "
            "cores and cluster."
        )
    budget = BUDGET if budget is None else budget
    features = tuple(map(str, x.columns)) if isinstance(x, pd.DataFrame) else ()
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
        "noise": [list(row) for row in hyperpriors.noise],
        "initial": [str(expression) for expression in first],
        "starts": starts,
        "draws": draws,
        "seed": seed,
    }
    with (
        search_folder(out, options, x, y).locked() as folder,
        Progress("models", progressbar) as bars,
    ):
        return search_compositions(
            method,
            grammar,
            evaluator,
            scaling,
            budget,
            draws,
            features,
            callback=best_so_far(bars, budget),
            first=first,
            record=Record(folder, partial(Evaluation.from_line, dimension=grammar.dimension)),
        )


def check_options(method: str, criterion: str, seed: int, **numbers: int) -> None:
    """Check the options of a search; `numbers` are those of at least 1, by name.

    Raises
    ------
    InputError
        If an option is unknown or out of range.
    """
    methods, criteria = get_args(Method), get_args(Criterion)
    if method not in methods:
        raise InputError(f"There is no method {method!r}. Use one of {', '.join(methods)}, evocov.")
    if criterion not in criteria:
        raise InputError(f"There is no criterion {criterion!r}. Use one of {', '.join(criteria)}.")
    check_whole(**numbers)
    check_seed(seed=seed)


def search_compositions(
    method: Method,
    grammar: Grammar,
    evaluator: Evaluator,
    scaling: Scaling,
    budget: int,
    draws: int = DRAWS,
    features: tuple[str, ...] = (),
    **options: Any,
) -> SearchResult:
    """Search among the expressions of a grammar; `options` are those of :func:`.explore`.

    A constant plus noise is evaluated first, beside the budget.
    """
    rng, x = np.random.default_rng(evaluator.seed), evaluator.x
    strategy: Strategy[Composition, Evaluation]
    if method == "boms":
        strategy = Boms(grammar, x, evaluator.hyperpriors, rng, draws)
    else:
        strategy = Greedy(grammar, rng) if method == "cks" else Random(grammar, rng)
    first = [Composition(), *options.pop("first", ())]
    evaluations = explore(strategy, evaluator, budget + 1, first=first, **options)
    every = tuple(evaluations)
    return SearchResult(every, method, scaling, evaluator.seed, evaluator, features)
