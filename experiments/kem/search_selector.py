"""Search as a method of selection: again at every time step, started from the last selection."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import check_points
from kem_pymc.errors import InputError
from kem_pymc.search.evaluation import MEAN, Evaluator
from kem_pymc.search.grammar import Grammar
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.run import Method, check_options, search_compositions
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous, as_composition


class SearchSelector:
    """Selector that searches for a kernel at every time step, without pilot users.

    The kernel of the previous time step is evaluated first.

    Parameters
    ----------
    dimension : int
        Number of features D.
    method : {"cks", "boms", "random"}
        Method of search, see :func:`kem_pymc.search.search`.
    budget : int
        Number of kernels that are evaluated at each time step.
    scaling : Scaling, optional
        Scaling to the range that the priors of hyperparameters expect: features from 0 to 1 and
        targets with mean 0 and sd 1. By default data aren't scaled.
    dimensions : sequence of int, optional
        Features that kernels use; by default all. Categories should be left out.
    seed : int

    Raises
    ------
    InputError
        If an option is unknown or out of range.
    """

    def __init__(
        self,
        dimension: int,
        method: Method = "cks",
        *,
        budget: int = 20,
        scaling: Scaling | None = None,
        dimensions: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        check_options(method, "laplace", budget=budget, seed=seed)
        chosen = None if dimensions is None else tuple(dimensions)
        self.grammar = Grammar(dimension, dimensions=chosen)
        self.method, self.budget, self.seed = method, budget, seed
        self.scaling = Scaling.identity(dimension) if scaling is None else scaling

    def __repr__(self) -> str:
        return f"SearchSelector({self.grammar.dimension}, {self.method!r}, budget={self.budget})"

    def select(
        self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None, **given: Any
    ) -> Selection:
        """Search for a kernel for one user's data up to now.

        Parameters
        ----------
        x : array_like, shape (n, D), or (n,) if D is 1
            All of the user's inputs so far, in the user's units.
        y : array_like, shape (n,)
        previous : Selection, Composition, str or None
            Selection or composition of the previous time step; None at the first.

        Returns
        -------
        Selection

        Raises
        ------
        InputError
            If there are no points, the shapes don't match, a value isn't a finite number, or
            `previous` isn't an expression of the grammar.
        """
        if given:
            raise InputError(f"A search can't use {', '.join(given)} of the targets. Leave it out.")
        x, y = check_points(x, y, self.grammar.dimension)
        x, y = self.scaling.inputs(x), self.scaling.targets(y)
        last = as_composition(previous, self.grammar.dimension) - MEAN
        first = [self.grammar.parse(str(last))] if len(last) else []
        evaluator = Evaluator(x, y, Hyperpriors(), seed=self.seed)
        return search_compositions(
            self.method, self.grammar, evaluator, self.scaling, self.budget, first=first
        ).selection
