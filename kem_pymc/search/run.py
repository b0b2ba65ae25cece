"""Search for the kernel of one data set."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from kem_pymc._system.executors import Workers
from kem_pymc._system.folder import RunFolder
from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc._system.progress import Progress
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Transform
from kem_pymc.errors import InputError
from kem_pymc.gp.fit import FEW
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.backtests import TRIED, WALKS, backtests, gain, origins
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

#: With a horizon, number of searches that share the budget, and distance of their seeds, which is
#: far above that of seeds that people give.
SEARCHES, APART = 3, 10**9

#: Positive targets are also searched as logs if the largest one is so many times the smallest.
FOLD = 1.5


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
    horizon: int | None = None,
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
    horizon : int, optional
        Number of future points that will be predicted, if the first input is the time. The budget
        is then shared by three searches with other seeds, and models of a random walk are added.
        The most probable models predict as many of the given points from several origins, and
        predictions have the weights with which they do that best
        (:mod:`kem_pymc.search.backtests`). Positive targets that vary are searched as logs, too,
        and the scale that forecasts better is kept. Models are compared on 250 points at most.
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
        constant, an option is unknown, out of range, or not one of the method, the horizon is too
        long for the data, or the folder contains anything else.

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
            "horizon": horizon is not None,
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
    scales = {"": (y, scaling)}
    if horizon is not None:
        origins(len(y), horizon)
        order = np.argsort(x[:, 0], kind="stable")
        x, y = x[order], y[order]
        scales = {"": (y, scaling)} | logs(scaling.targets_back(y), scaling)
    hyperpriors = Hyperpriors() if hyperpriors is None else hyperpriors
    grammar = Grammar(x.shape[1], tuple(bases), changes=changes)
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
        "horizon": horizon,
        "seed": seed,
    }
    with (
        search_folder(out, options, x, y).locked() as folder,
        Progress("models", progressbar) as bars,
    ):

        def run(
            own: Evaluator, scaling: Scaling, share: int, name: str, before: float
        ) -> SearchResult:
            return search_compositions(
                method,
                grammar,
                own,
                scaling,
                share,
                draws,
                features,
                callback=best_so_far(bars, share, f"Search{name}"),
                first=first,
                before=before,
                record=_record(folder, f"evaluations{name}.jsonl", grammar),
            )

        if horizon is None:
            evaluator = Evaluator(x, y, hyperpriors, criterion, starts, seed)
            return run(evaluator, scaling, budget, "", 0.0)
        found = []
        for name, (targets, own) in scales.items():
            evaluator = Evaluator(x, targets, hyperpriors, criterion, starts, seed, FEW)
            found.append(_ahead(run, evaluator, own, budget, horizon, name, grammar, folder, bars))
    better = len(found) > 1 and gain(found[1].backtests, found[0].backtests) > 0
    return found[1 if better else 0]


def _record(folder: RunFolder, file: str, grammar: Grammar) -> Record[Evaluation]:
    return Record(folder, partial(Evaluation.from_line, dimension=grammar.dimension), file)


def _ahead(
    run: Callable[[Evaluator, Scaling, int, str, float], SearchResult],
    evaluator: Evaluator,
    scaling: Scaling,
    budget: int,
    horizon: int,
    name: str,
    grammar: Grammar,
    folder: RunFolder,
    bars: Progress,
) -> SearchResult:
    """Search several times on one scale, and try the best models on the last points."""
    every, seconds = list[Evaluation](), 0.0
    for i in range(min(SEARCHES, budget)):
        own, share = (
            evaluator.reseeded(evaluator.seed + i * APART),
            (budget - i - 1) // SEARCHES + 1,
        )
        result = run(own, scaling, share, f"{name}-{i + 1}", seconds)
        every += result.evaluations
        seconds = result.seconds
    walks = [Composition.parse(text, grammar.dimension) for text in WALKS]
    walked = explore(
        Random(grammar, np.random.default_rng(evaluator.seed)),
        evaluator,
        len(walks),
        first=walks,
        before=seconds,
        record=_record(folder, f"walks{name}.jsonl", grammar),
    )
    task = bars.add(f"Backtests{name}", TRIED + len(walks))
    file, arrived = f"backtests{name}.jsonl", partial(bars.advance, task)
    tried = backtests(evaluator, every, walked, scaling, horizon, folder, file, arrived)
    evaluations = (*every, *walked)
    return replace(result, evaluations=evaluations, evaluator=evaluator, backtests=tried)


def logs(y: np.ndarray, scaling: Scaling) -> dict[str, tuple[np.ndarray, Scaling]]:
    """Return standardised logs of targets (n,) with their scaling; nothing if none are needed.

    That is so unless all targets are positive, and the largest one is `FOLD` times the smallest.
    """
    if not (y.min() > 0 and y.max() >= FOLD * y.min()):
        return {}
    log = np.log(y)
    mean, sd = float(log.mean()), float(log.std())
    own = replace(scaling, target_mean=mean, target_sd=sd, transform=Transform("log"))
    return {"-log": (own.targets(y), own)}


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
