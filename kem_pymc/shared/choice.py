"""Learn from pilot users what users share: the kernel, if any, that best predicts other users."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.categories import (
    CAT,
    category_features,
    check_categories,
    number_features,
    over_time,
    smooth_function,
)
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.mean_process import MeanProcess
from kem_pymc.kernels.composition import Candidate, Composition, Factor
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.kernels.prose import describe
from kem_pymc.shared.fit import fit_two_level
from kem_pymc.shared.fixed_mean import FixedMean
from kem_pymc.shared.inducing import with_inducing_points
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel

#: Options from which "auto" chooses.
AUTO = ("nothing", "linear", "smooth", "additive", "pooled")

#: Smallest gain over "nothing", in standard errors, with which another option is chosen.
STANDARD_ERRORS = 1.0

#: Smallest number of distinct values with which a feature has a smooth curve in "additive".
LEAST_VALUES = 3


@dataclass(frozen=True, eq=False)
class SharedPart:
    """The part of a two-level model that all users of a cohort share.

    Attributes
    ----------
    posterior : SharedPosterior
        Posterior of the mean process.
    users : tuple of labels
        User labels, in the order of the posterior.
    scores : dict of str to ndarray, shape (U,)
        Log density of each user's targets given all other users', by name of the compared option.
    unexplained : float
        Mean squared residual of the targets from the mean process given all other users.
    """

    posterior: SharedPosterior
    users: tuple[Hashable, ...]
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    unexplained: float = 1.0

    @property
    def model(self) -> TwoLevel:
        """The two-level model."""
        return self.posterior.model

    @property
    def nothing(self) -> bool:
        """Whether users share nothing."""
        return not len(self.model.kernel.composition)

    @property
    def process(self) -> MeanProcess:
        """The mean process given all users, for users who aren't in the cohort."""
        return self.posterior.process

    def function(self, user: Hashable) -> MeanProcess:
        """Return the mean process given all users except one, by label.

        Raises
        ------
        InputError
            If the mean process wasn't learned from a user with this label.
        """
        if user not in self.users:
            raise InputError(
                f"The shared mean process wasn't learned from user {user!r}. "
                "Learn it from all users of the cohort."
            )
        return self.posterior.without(self.users.index(user))

    def functions(self, cohort: Cohort) -> list[MeanProcess]:
        """Return the mean process without each user of a cohort, see :meth:`function`."""
        return [self.function(user) for user in cohort.users]

    def describe(self, features: Sequence[str]) -> str:
        """Return a sentence that describes what users share.

        Parameters
        ----------
        features : sequence of str (D,)
            Names of the features.

        Returns
        -------
        str
        """
        return in_words(self.model.kernel.composition, features)

    def to_dict(self) -> dict[str, Any]:
        """Return the model without its inducing points, and summed scores, as plain data."""
        model = self.model.to_dict()
        del model["kernel"]["inducing"]
        return model | {
            "scores": {name: float(values.sum()) for name, values in self.scores.items()},
            "unexplained": self.unexplained,
        }


def in_words(composition: Composition, features: Sequence[str]) -> str:
    """Return a sentence that describes what users share.

    Parameters
    ----------
    composition : Composition
        Composition of the mean process.
    features : sequence of str (D,)
        Names of the features.

    Returns
    -------
    str
    """
    if not len(composition):
        return "Users share no function that improves predictions for other users."
    return f"Users share {describe(composition, features)}."


@one_blas_thread()
def learn_shared(
    cohort: Cohort,
    shared: Composition | FixedMean | str | Literal["auto"] = "auto",
    *,
    personal: Composition | None = None,
    noise_floor: float = 1e-4,
    seed: int = 0,
) -> SharedPart:
    """Learn what the users of a cohort share, or use a given mean process.

    With "auto", every composition of `AUTO` is fitted in a two-level model, with a personal part
    that suits most users: a level, a line in every feature, and one smooth function of all
    features. An exception is "pooled", which is "smooth" without a personal part. Categories have
    differences between levels instead of lines, which in "smooth" and "additive" may also change
    smoothly over time; categories that are constant over the rows of every user aren't in the
    personal part. The composition with the largest sum over users of the log density of their
    targets, given all other users', is chosen. If its gain over "nothing" is at most one standard
    error, "nothing" is chosen.

    Parameters
    ----------
    cohort : Cohort
        Pilot users, in scaled units.
    shared : Composition, FixedMean or str
        ``"auto"``, one of `AUTO`, a composition, or a mean and a covariance that aren't learned.
    personal : Composition, optional
        Personal part to use instead of the default, for all options.
    noise_floor : float
        Smallest noise variance.
    seed : int
        Seed of the random number generators.

    Returns
    -------
    SharedPart

    Raises
    ------
    InputError
        If there is only one user and `shared` is neither "auto" nor a `FixedMean`, `shared` isn't a
        composition of the cohort's features, or a given function can't be used.
    """
    if isinstance(shared, FixedMean):
        posterior = shared.posterior(cohort, noise_floor, np.random.default_rng(seed))
        return _part(posterior, cohort, {})
    named = _compositions(cohort)
    if cohort.n_users < 2:
        if shared != "auto":
            raise InputError(
                "A shared mean process can't be learned from one user. "
                "Give at least two pilot users, or {shared}.",
                shared=None,
            )
        named = {"nothing": named["nothing"]}
    if shared != "auto":
        name = shared if isinstance(shared, str) and shared in named else "given"
        named = {name: _composition(shared, named, cohort)}
    posteriors: dict[str, SharedPosterior] = {}
    scores: dict[str, np.ndarray] = {}
    for name, composition in named.items():
        rng = np.random.default_rng(seed)
        data = cohort.inputs, cohort.targets
        personal_part = personal
        if personal_part is None:
            personal_part = Composition() if name == "pooled" else personal_composition(cohort)
        model = fit_two_level(*data, composition, personal_part, noise_floor, rng)
        model = with_inducing_points(model, cohort.inputs, rng)
        posteriors[name] = posterior = SharedPosterior.of(model, *data)
        densities = [
            posterior.log_predictive_density(u, x, y)
            for u, (x, y) in enumerate(zip(*data, strict=True))
        ]
        scores[name] = np.array(densities)
    return _part(posteriors[_best(scores)], cohort, scores)


def _part(
    posterior: SharedPosterior, cohort: Cohort, scores: Mapping[str, np.ndarray]
) -> SharedPart:
    others = [posterior.without(u).mean(x) for u, x in enumerate(cohort.inputs)]
    residuals = np.concatenate(cohort.targets) - np.concatenate(others)
    return SharedPart(posterior, cohort.users, scores, float(np.mean(residuals**2)))


def _best(scores: Mapping[str, np.ndarray]) -> str:
    best = max(scores, key=lambda name: float(scores[name].sum()))
    if "nothing" not in scores or best == "nothing":
        return best
    gain = scores[best] - scores["nothing"]
    error = gain.std(ddof=1) * np.sqrt(len(gain))
    return best if gain.sum() > STANDARD_ERRORS * error else "nothing"


def personal_composition(cohort: Cohort) -> Composition:
    """Return a personal part that suits most users: CONST, LIN of every feature, and ARD.

    Categories that vary within users have CAT instead of LIN, and aren't in ARD.
    """
    lines = linear_composition(cohort, personal=True)
    return lines + Composition(tuple(smooth_function(number_features(cohort))))


def linear_composition(cohort: Cohort, personal: bool = False) -> Composition:
    """Return CONST and LIN of every feature, with CAT instead of LIN for categories.

    If `personal`, categories that are constant over the rows of every user are left out.
    """
    kinds = dict.fromkeys(number_features(cohort), "LIN")
    kinds |= dict.fromkeys(category_features(cohort), CAT)
    left_out = category_features(cohort) & cohort.constant if personal else frozenset()
    lines = [Candidate((Factor(kind, d),)) for d, kind in kinds.items() if d not in left_out]
    return Composition((Candidate(), *lines))


def _compositions(cohort: Cohort) -> dict[str, Composition]:
    """Return the compositions that "auto" chooses from, by name."""
    linear, numbers = linear_composition(cohort), number_features(cohort)
    rows = np.concatenate(cohort.inputs)
    curved = [d for d in numbers if len(np.unique(rows[:, d])) >= LEAST_VALUES]
    single = Composition(tuple(Candidate.parse(f"SE{d}") for d in curved))
    changing = Composition(tuple(over_time(cohort, category_features(cohort))))
    smooth = linear + Composition(tuple(smooth_function(numbers))) + changing
    options = {
        "nothing": Composition(),
        "linear": linear,
        "smooth": smooth,
        "additive": linear + single + changing,
        "pooled": smooth,
    }
    if len(numbers) < 2:  # "additive" would repeat "smooth" or "linear"
        del options["additive"]
    return options


def _composition(given: Any, named: Mapping[str, Composition], cohort: Cohort) -> Composition:
    dimension = cohort.dimension
    if isinstance(given, str):
        given = named[given] if given in named else Composition.parse(given, dimension)
    if not isinstance(given, Composition):
        raise InputError(
            f"shared is a {type(given).__name__}. "
            f"Give 'auto', None, a composition, or one of {', '.join(AUTO)}."
        )
    if len(given):
        CandidatePool(given.candidates, dimension)
        check_categories(given, cohort)
    return given
