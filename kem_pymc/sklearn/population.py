"""The population model, as a regressor."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.population.model import DRAWS, PopulationModel
from kem_pymc.selection.selector import Selector
from kem_pymc.selection.two_level import TwoLevelSelector
from kem_pymc.sklearn.users import UserRegressor


class PopulationRegressor(UserRegressor):
    """What users share, and how they differ: a mixed model with smooth functions.

    Predictions are those of the function that users share, whose weights have their posterior, and
    of the user's own, given the user's rows, with hyperparameters at their posterior means. Without
    groups no user has rows of their own: it is a regression with lines and smooth functions.

    Parameters
    ----------
    shared, personal : sequence of str, optional
        Terms that users share, and those of each user's own, as for
        :class:`kem_pymc.PopulationModel`: columns as ``"dose"``, products, and smooth functions
        ``"s(day)"``. By default those that suit `time` and the columns.
    time : str, optional
        Column that is the time, of which default terms have a smooth function and users' own lines.
    priors : mapping of str to distribution, optional
        PyMC distributions that replace default priors.
    draws : int
        Number of draws, by importance sampling.
    random_state : int, RandomState instance or None
        The same number gives the same draws.

    Attributes
    ----------
    posterior_ : PopulationPosterior
        The posterior, which compares groups, has slopes, and says who is unusual.
    selector_ : TwoLevelSelector
    selections_ : dict of label to list of Selection
        Of each user, the model given the user's rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> regressor = PopulationRegressor(time="day").fit(X, y, groups=user)
    >>> regressor.predict(X_next, groups=user_next)
    >>> regressor.posterior_.slopes("day")
    """

    def __init__(
        self,
        shared: Sequence[str] | None = None,
        personal: Sequence[str] | None = None,
        *,
        time: str | None = None,
        priors: Mapping[str, Any] | None = None,
        draws: int = DRAWS,
        random_state: Any = None,
    ) -> None:
        self.shared = shared
        self.personal = personal
        self.time = time
        self.priors = priors
        self.draws = draws
        self.random_state = random_state

    #: A user's model is the same at all time steps.
    evolves = False

    def _learn(self, cohort: Cohort, grouped: bool) -> TwoLevelSelector:
        cohort = replace(cohort, time=self.time)
        personal = () if self.personal is None and not grouped else self.personal
        model = PopulationModel(cohort, self.shared, personal, priors=self.priors)
        self.posterior_ = model.fit(draws=self.draws, seed=self._seed())
        return TwoLevelSelector(self.posterior_, Scaling.none(cohort))

    def _without(self, selector: Selector, user: int) -> Selector:
        others, *_ = self.posterior_.without(user)
        return TwoLevelSelector(others, Scaling.none(self.posterior_.model.original))
