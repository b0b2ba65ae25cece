"""Search for the kernel of one data set, as a regressor."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from kem_pymc.search.grammar import BASES
from kem_pymc.search.points import FEWEST
from kem_pymc.search.run import search
from kem_pymc.sklearn.base import GaussianRegressor, moments


class KernelSearchRegressor(GaussianRegressor):
    """Gaussian process whose kernel is searched for among sums of products of base kernels.

    Parameters
    ----------
    method : {"cks", "boms", "random", "evocov"}
        Greedy search, Bayesian optimisation, random walks, or evolved formulas.
    budget : int, optional
        Number of kernels to evaluate; by default 40, and 2,820 for "evocov".
    bases : sequence of str
        Base kernels, each on every column.
    changes : bool
        Whether kernels may change at a point or in a window of a column.
    criterion : {"laplace", "bic", "aic"}
        Score of a kernel.
    horizon : int, optional
        Number of future points that will be predicted, if the first column is the time.
    out : path, optional
        Folder to which every evaluated kernel is written. Another fit to the same data with the
        same options reads them there, and evaluates none again.
    random_state : int, RandomState instance or None
        The same number gives the same kernels.
    verbose : bool
        Whether to show how far the search is, on the error stream.

    Attributes
    ----------
    result_ : SearchResult
        What was found: the evaluated kernels, and the best one with its parts.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    kem_pymc.search.search : What the parameters mean, at more length, and others.

    Examples
    --------
    >>> regressor = KernelSearchRegressor(budget=20, random_state=0).fit(X, y)
    >>> mean, sd = regressor.predict(X_new, return_std=True)
    >>> regressor.result_.best
    """

    def __init__(
        self,
        method: Literal["cks", "boms", "random", "evocov"] = "cks",
        *,
        budget: int | None = None,
        bases: Sequence[str] = BASES,
        changes: bool = False,
        criterion: Literal["laplace", "bic", "aic"] = "laplace",
        horizon: int | None = None,
        out: str | PathLike[str] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.budget = budget
        self.bases = bases
        self.changes = changes
        self.criterion = criterion
        self.horizon = horizon
        self.out = out
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Search for a kernel.

        Parameters
        ----------
        X : array_like or DataFrame, shape (n, D)
        y : array_like, shape (n,)

        Returns
        -------
        KernelSearchRegressor

        Raises
        ------
        InputError
            As :func:`kem_pymc.search.search`: for instance, if a column is constant.
        ValueError
            If X or y have missing values, other shapes, or fewer than five rows.
        """
        inputs, targets = self._points(X, y, reset=True, least=FEWEST)
        options: dict[str, Any] = {"bases": self.bases, "changes": self.changes}
        options |= {"criterion": self.criterion, "horizon": self.horizon}
        table: Any = inputs
        if self.method != "evocov":
            table = pd.DataFrame(inputs, columns=list(self._features))
        self.result_ = search(
            table,
            targets,
            self.method,
            budget=self.budget,
            seed=self._seed(),
            out=self.out,
            progressbar=bool(self.verbose),
            **options,
        )
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, ...]:
        """Predict new observations, averaged over kernels by their weights.

        Parameters
        ----------
        X : array_like or DataFrame, shape (m, D)
        return_std : bool
            Whether to return the standard deviation of an observation, too.

        Returns
        -------
        ndarray, shape (m,), or two of them
            Mean, and sd if that is asked for. Quantiles and parts are in
            ``result_.selection.predict(X)``.
        """
        inputs = self._inputs(X)
        return moments(self.result_.selection.predict(inputs, include_noise=True), return_std)
