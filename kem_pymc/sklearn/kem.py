"""The Kernel Evolution Model, as a regressor."""

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets.pools import default_pool
from kem_pymc.diagnostics.diagnosis import diagnose, disagreements
from kem_pymc.errors import InputError, SamplingWarning
from kem_pymc.evolutions.evolutions import DISAGREE, Evolutions
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.priors import Priors
from kem_pymc.runs.models import models_of
from kem_pymc.runs.sampling import sample
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.new_users import check_users
from kem_pymc.selection.pilots import DRAWS, calibrate
from kem_pymc.selection.selector import Selector
from kem_pymc.sklearn.users import UserRegressor


class KEMRegressor(UserRegressor):
    """Gaussian process for each user, whose kernel evolves as it did for those learned from.

    :meth:`fit` learns from pilot users how kernels evolve, which takes minutes; a kernel is then
    selected for each user at each time step in milliseconds, also for the users of
    :meth:`partial_fit`. Of a user without rows, the prediction is what pilot users say of a new
    one.

    Parameters
    ----------
    pool : CandidatePool, optional
        Candidates of which kernels consist; by default
        :func:`kem_pymc.datasets.default_pool`.
    priors : Priors, optional
        Priors, as for :class:`kem_pymc.EvolutionModel`.
    shared : "auto", str, sequence of str, or FixedMean
        What users share, as for :meth:`kem_pymc.EvolutionModel.from_cohort`.
    evolutions : Evolutions, optional
        What was learned before, as by `kem fit`; then :meth:`fit` learns nothing, and selects for
        its users alone. Features have the names and the order that they had there, and numbers.
    batch : int, optional
        Number of rows of a time step. By default each time of a user is one; without times, a sixth
        of the rows of the user with most.
    draws, tune, chains : int
        Draws of each chain, those before them, and chains, as for :func:`kem_pymc.sample`.
    n_jobs : int, optional
        Number of processes that sample; by default, one per core, but no more than chains.
    random_state : int, RandomState instance or None
        The same number gives the same draws.
    verbose : bool
        Whether to show how far learning is, on the error stream.

    Attributes
    ----------
    evolutions_ : Evolutions
        What was learned: which compositions follow which. Its `save` writes a file that later
        versions read, for `evolutions`.
    posterior_ : dict of str to DataTree
        Draws by model, ``""``, ``"final"`` and, if users share something, ``"unshared"``; empty if
        `evolutions` were given.
    selector_ : KEMSelector
    selections_ : dict of label to list of Selection
        Of each user, the selections at all time steps.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    kem_pymc.EvolutionModel : The model, with more options.

    Examples
    --------
    >>> regressor = KEMRegressor(random_state=0).fit(X, y, groups=user, times=week)
    >>> regressor.partial_fit(X_new, y_new, groups=user_new, times=week_new)
    >>> mean, sd = regressor.predict(X_next, groups=user_next, return_std=True)
    """

    def __init__(
        self,
        pool: CandidatePool | None = None,
        *,
        priors: Priors | None = None,
        shared: Any = "auto",
        evolutions: Evolutions | None = None,
        batch: int | None = None,
        draws: int = 300,
        tune: int = 300,
        chains: int = 4,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.pool = pool
        self.priors = priors
        self.shared = shared
        self.evolutions = evolutions
        self.batch = batch
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, cohort: Cohort, grouped: bool) -> KEMSelector:
        self.posterior_ = {}
        if self.evolutions is not None:
            if self.evolutions.levels:
                raise InputError(
                    f"{', '.join(self.evolutions.levels)} has categories, which regressors don't. "
                    "Read a cohort, and select with kem.KEMSelector."
                )
            check_users(cohort, self.evolutions)
            self.evolutions_ = self.evolutions
            return KEMSelector(self.evolutions_)
        pool = default_pool(cohort) if self.pool is None else self.pool
        model = EvolutionModel.from_cohort(
            cohort, pool, self.priors, shared=self.shared, progress=bool(self.verbose)
        )
        options: dict[str, Any] = {"draws": self.draws, "tune": self.tune, "chains": self.chains}
        options |= {"random_seed": self._seed(), "cores": self.n_jobs}
        options |= {"progress": bool(self.verbose)}
        idata = sample(model, **options)
        others: dict[str, Any] = {
            name: sample(of(model), **options) for name, of in models_of(model).items()
        }
        self.posterior_ = {"": idata} | others
        self.evolutions_ = Evolutions.from_posterior(idata, **others)
        with suppress(InputError):  # where there are too few users for it
            self.evolutions_ = calibrate(self.evolutions_, idata, **others)
        apart = " ".join(disagreements(diagnose(idata, final=others["final"])))
        if apart:
            settings = {**self.evolutions_.settings, DISAGREE: apart}
            self.evolutions_ = replace(self.evolutions_, settings=settings)
            message = f"{apart} Give more draws, and more before them: draws= and tune=."
            warnings.warn(message, SamplingWarning, stacklevel=3)
        return KEMSelector(self.evolutions_)

    def _without(self, selector: Selector, user: int) -> Selector:
        if not self.posterior_:  # evolutions that were given are those of others
            return selector
        posteriors = {name or "idata": idata for name, idata in self.posterior_.items()}
        others = Evolutions.from_posterior(**posteriors, max_draws=DRAWS, without=user)
        kept = {name: getattr(self.evolutions_, name) for name in ("novelty", "calibration")}
        return KEMSelector(replace(others, **kept))
