"""Search for kernels that evolve from elementary mathematical expressions."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from kem_pymc._system.executors import Workers, make_executor
from kem_pymc._system.options import check_choice, check_seed, check_whole, checked
from kem_pymc._system.progress import Progress
from kem_pymc.errors import InputError
from kem_pymc.search.evaluation import Evaluation
from kem_pymc.search.evocov.conversion import COMPOSITIONS, greedy, trees_of
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.result import EvolutionResult
from kem_pymc.search.evocov.strategies import Evolution, PsdCheck, finalists
from kem_pymc.search.exploration import best_so_far, explore
from kem_pymc.search.points import scaled
from kem_pymc.search.record import Record, search_folder

#: Name of the method, in results and files.
METHOD = "evocov"

#: Smallest number of points.
FEWEST = 10

#: Number of kernels to fit, which are 20 generations, and of evaluations to fit one.
BUDGET, EVALUATIONS = 2820, 50

#: Number of points of a first search, number above which there is one, and number of its kernels.
POINTS, MANY, KERNELS = 200, 250, 1410


#: With what kernels a search begins.
Start = Literal["random", "cks"]

#: File of the compositions with which a search began.
COMPOSED = "compositions.jsonl"


@checked
def evolve(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    budget: int = BUDGET,
    evaluations: int = EVALUATIONS,
    start: Start | None = None,
    seed: int = 0,
    cores: int | None = None,
    cluster: Workers | None = None,
    out: str | PathLike[str] | None = None,
    progressbar: bool = True,
) -> EvolutionResult:
    """Search for the kernel of one data set, among elementary mathematical expressions.

    Kernels are expression trees of the primitives of Roman et al. (2019), table 2, simplified, plus
    white noise; the mean is zero. Inputs are scaled to [0, 1] and targets are standardised. If
    there are more than 250 points, a first search of 1,410 kernels on 200 of them finds those with
    which the search on all points begins.

    Parameters
    ----------
    x : array_like, shape (n, D), or (n,) if D is 1
        Inputs, without repetitions.
    y : array_like, shape (n,)
        Targets.
    budget : int
        Number of kernels to fit to all points. Generations have 141.
    evaluations : int
        Number of evaluations of the likelihood, with its gradient, to fit a kernel.
    start : {"random", "cks"}, optional
        Whether the first generation is random, or has the best kernels of a compositional kernel
        search of 40 models of one input, which count in the budget. By default it has these if
        there is one input, and a larger budget.
    seed : int
        The same data, options and seed give the same kernels, wherever they are fitted.
    cores : int, optional
        Number of processes that fit kernels; by default, one per core.
    cluster : str or concurrent.futures.Executor, optional
        Address of a Dask scheduler, or an executor, to use instead of processes on this machine.
    out : path, optional
        Folder to which fitted kernels are written after every generation. If the folder contains a
        search with the same data and options except the budget, that search is continued.
    progressbar : bool
        Whether to show the progress, on the error stream.

    Returns
    -------
    EvolutionResult

    Raises
    ------
    InputError
        If there are fewer than 10 points, the shapes don't match, a value isn't a finite number,
        inputs are repeated, the targets or an input column are constant, an option is out of range,
        there are several inputs or at most 40 kernels to fit for compositions to begin with,
        the folder contains anything else, or no scheduler responds at the address.
    WorkerError
        If workers keep dying.

    Examples
    --------
    >>> found = evolve(years, passengers, budget=1410)
    >>> found.best.formula()
    >>> found.selection.predict(coming_years, include_noise=True)
    """
    x, y, scaling = scaled(x, y, FEWEST)
    repeated = len(x) - len(np.unique(x, axis=0))
    if repeated:
        raise InputError(
            f"{repeated} of {len(x)} rows of inputs are repeated. Average the targets of each, or "
            "use kem_pymc.search.search with the method 'cks' or 'boms'."
        )
    check_whole(budget=budget, evaluations=evaluations)
    check_seed(seed=seed)
    possible = x.shape[1] == 1 and budget > COMPOSITIONS
    if start is None:
        start = "cks" if possible else "random"
    check_choice(get_args(Start), start=start)
    composed = start == "cks"
    if composed and not possible:
        raise InputError(
            f"The number of inputs is {x.shape[1]}, and the budget {budget}. Begin with "
            f"compositions on one input, with a budget of more than {COMPOSITIONS}, or use "
            "start='random'."
        )
    options = {"method": METHOD, "evaluations": evaluations, "start": start, "seed": seed}
    fitter = Fitter(x, y, evaluations, seed)
    with (
        search_folder(out, options, x, y).locked() as folder,
        Progress("models", progressbar) as bars,
        closing(make_executor(cores, cluster)) as executor,
    ):
        record, screened = Record(folder, Individual.from_line), list[Individual]()
        coarse, initial, compositions = screening(fitter), list[Individual](), list[Evaluation]()
        if composed:
            some = coarse or fitter
            compositions = explore(
                *greedy(some.x, some.y, seed),
                COMPOSITIONS,
                callback=best_so_far(bars, COMPOSITIONS, "Compositions"),
                record=Record(folder, partial(Evaluation.from_line, dimension=1), COMPOSED),
            )
            initial = finalists(trees_of(compositions, some.x, some.y))
            budget -= COMPOSITIONS
        before = compositions[-1].elapsed if compositions else 0.0
        if coarse is not None:
            screened = explore(
                evolution(x.shape[1], seed, initial),
                coarse,
                KERNELS,
                executor,
                best_so_far(bars, KERNELS, "Search on some of the points"),
                before=before,
                record=Record(folder, Individual.from_line, "screening.jsonl"),
            )
            initial, before = finalists(screened), screened[-1].elapsed
        individuals = explore(
            evolution(x.shape[1], seed, initial),
            fitter,
            budget,
            executor,
            best_so_far(bars, budget),
            before=before,
            record=record,
        )
        fitted = tuple(individuals), METHOD, scaling, seed, fitter
        return EvolutionResult(
            *fitted,
            compositions=tuple(compositions),
            screened=tuple(screened),
            cores=executor.cores,
        )


def screening(fitter: Fitter) -> Fitter | None:
    """Return the fitter of a first search on some of the points; None if they are few.

    A fit takes about n^3 operations, so that a search on hundreds of points fits few kernels. Which
    kernels are promising is visible on fewer points, chosen at random: regular ones would hide
    periods below twice their distance.
    """
    n = len(fitter.y)
    if n <= MANY:
        return None
    chosen = np.sort(np.random.default_rng([fitter.seed, n]).choice(n, POINTS, replace=False))
    return replace(fitter, x=fitter.x[chosen], y=fitter.y[chosen])


def evolution(dimension: int, seed: int, initial: Sequence[Individual] = ()) -> Evolution:
    """Return the strategy, for a number of input columns D and initial kernels."""
    rng = np.random.default_rng(seed)
    return Evolution(PsdCheck(dimension, rng), rng, initial=initial)
