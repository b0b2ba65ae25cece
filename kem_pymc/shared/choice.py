"""What users share, learned from pilot users: the kernel, if any, that predicts other users."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from kem_pymc.categories import (
    CAT,
    category_features,
    check_categories,
    number_features,
    over_time,
    smooth_function,
)
from kem_pymc.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.gp.mean_process import MeanProcess, composition_covariance
from kem_pymc.kernels.composition import Candidate, Composition, Factor
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.kernels.prose import describe
from kem_pymc.shared.fit import fit_two_level
from kem_pymc.shared.given import Given
from kem_pymc.shared.inducing import with_inducing_points
from kem_pymc.shared.relevance import relevance_by_feature
from kem_pymc.shared.two_level import SharedPosterior, TwoLevel

#: What "auto" chooses from.
AUTO = ("nothing", "linear", "smooth", "additive", "pooled")

#: Something is shared if it gains more than so many standard errors over nothing.
STANDARD_ERRORS = 1.0

#: A feature with fewer distinct values has no smooth curve of its own.
LEAST_VALUES = 3


@dataclass(frozen=True, eq=False)
class SharedPart:
    """What the users of a cohort share.

    Attributes
    ----------
    posterior : SharedPosterior
    users : tuple of labels
        In the order of the posterior.
    scores : dict of str to ndarray, shape (U,)
        By what was compared: the log density of each user's targets given all other users'.
    shares : dict of str to float
        Shares of variance that the two-level model gives to its parts: ``"shared"`` is the variance
        of the mean process' posterior mean over all rows, ``"personal"`` the mean prior variance of
        users' own functions there, ``"noise"`` the noise's.
    unexplained : float
        Mean square of what the mean process of all other users leaves of the targets.
    relevance : dict of str to tuple of float (D,)
        Each feature's total effect in ``"shared"`` and in ``"personal"``, as shares of the same
        variance as `shares`; see :func:`~kem_pymc.shared.relevance.relevance_by_feature`.
    """

    posterior: SharedPosterior
    users: tuple[Hashable, ...]
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    unexplained: float = 1.0
    relevance: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

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
        """The mean process given all users, for users who aren't among them."""
        return self.posterior.process

    def function(self, user: Hashable) -> MeanProcess:
        """Return the mean process given all users but one of them, by label.

        Raises
        ------
        InputError
            If it wasn't learned from such a user.
        """
        if user not in self.users:
            raise InputError(
                f"What users share wasn't learned from user {user!r}. "
                "Learn it from all users of the cohort."
            )
        return self.posterior.without(self.users.index(user))

    def functions(self, cohort: Cohort) -> list[MeanProcess]:
        """Return :meth:`function` of each user of a cohort."""
        return [self.function(user) for user in cohort.users]

    def describe(self, features: Sequence[str]) -> str:
        """Return in a sentence what users share.

        Parameters
        ----------
        features : sequence of str (D,)
        """
        return in_words(self.model.kernel.composition, features, self.shares)

    def to_dict(self) -> dict[str, Any]:
        """Return the model without its inducing points, and sums of the scores, as plain data."""
        model = self.model.to_dict()
        del model["kernel"]["inducing"]
        return model | {
            "scores": {name: float(own.sum()) for name, own in self.scores.items()},
            "shares": dict(self.shares),
            "unexplained": self.unexplained,
            "relevance": {part: list(own) for part, own in self.relevance.items()},
        }


def in_words(composition: Composition, features: Sequence[str], shares: Mapping[str, float]) -> str:
    """Return in a sentence what users share, and how much where that is known.

    Parameters
    ----------
    composition : Composition
        Of the mean process.
    features : sequence of str (D,)
    shares : mapping of str to float
        As in :class:`SharedPart`; perhaps empty.
    """
    if not len(composition):
        return "Users share nothing that predicts other users better."
    much = f": {shares['shared']:.0%} of the variance" if shares else ""
    return f"Users share {describe(composition, features)}{much}."


def learn_shared(
    cohort: Cohort,
    shared: Composition | Given | str | Literal["auto"] = "auto",
    *,
    personal: Composition | None = None,
    noise_floor: float = 1e-4,
    seed: int = 0,
) -> SharedPart:
    """Learn what users share from a cohort in scaled units.

    Every composition of `AUTO` is fitted in a two-level model, with a personal part that suits most
    users: a level, a line in every feature, and one smooth function of all features; but for
    "pooled", which is "smooth" with nothing personal. Categories have differences between levels in
    place of lines, which with "smooth" and "additive" may also change smoothly over time; those
    that are the same throughout the rows of every user are no part of what is personal. The one
    with the largest sum over users of the log density of their targets, given all other users', is
    taken; nothing is, unless that gains more than a standard error.

    Parameters
    ----------
    cohort : Cohort
    shared : Composition, Given or str
        ``"auto"``, one of `AUTO`, a composition, or a mean and a covariance that aren't learned.
    personal : Composition, optional
        Another personal part, for all.
    noise_floor : float
        Smallest noise variance.
    seed : int

    Raises
    ------
    InputError
        If there is one user, but for "auto"; or it is no composition of the cohort's features.
    """
    if isinstance(shared, Given):
        return _given(shared, cohort, noise_floor, seed)
    named = _compositions(cohort)
    if cohort.n_users < 2:
        if shared != "auto":
            raise InputError("One user shares nothing. Give two pilot users, or shared=None.")
        named = {"nothing": named["nothing"]}
    if shared != "auto":
        name = shared if isinstance(shared, str) and shared in named else "given"
        named = {name: _composition(shared, named, cohort)}
    found: dict[str, SharedPosterior] = {}
    scores: dict[str, np.ndarray] = {}
    for name, composition in named.items():
        rng = np.random.default_rng(seed)
        data = cohort.inputs, cohort.targets
        own_part = personal
        if own_part is None:
            own_part = Composition() if name == "pooled" else personal_composition(cohort)
        model = fit_two_level(*data, composition, own_part, noise_floor, rng)
        model = with_inducing_points(model, cohort.inputs, rng)
        found[name] = own = SharedPosterior.of(model, *data)
        densities = [
            own.log_predictive_density(u, x, y) for u, (x, y) in enumerate(zip(*data, strict=True))
        ]
        scores[name] = np.array(densities)
    return _part(found[_best(scores)], cohort, scores, seed)


def _part(
    posterior: SharedPosterior, cohort: Cohort, scores: Mapping[str, np.ndarray], seed: int
) -> SharedPart:
    variances = _variances(posterior, cohort)
    total = sum(variances.values())
    return SharedPart(
        posterior=posterior,
        users=cohort.users,
        scores=scores,
        shares={name: variance / total for name, variance in variances.items()},
        unexplained=_unexplained(posterior, cohort),
        relevance=relevance_by_feature(posterior, cohort, total, np.random.default_rng(seed)),
    )


def _given(shared: Given, cohort: Cohort, noise_floor: float, seed: int) -> SharedPart:
    """Return what is given; of the rest it isn't known what is personal and what is noise."""
    posterior = shared.posterior(cohort, noise_floor, np.random.default_rng(seed))
    part = _part(posterior, cohort, {}, seed)
    rest = {"personal and noise": 1 - part.shares["shared"]}
    return replace(
        part,
        shares={"shared": part.shares["shared"]} | rest,
        relevance={"shared": part.relevance["shared"]},
    )


def _variances(posterior: SharedPosterior, cohort: Cohort) -> dict[str, float]:
    """Return the variances of which a :class:`SharedPart` has the shares."""
    model = posterior.model
    own = [
        composition_covariance(model.personal, model.hyperparameters, x, x).diagonal()
        for x in cohort.inputs
    ]
    return {
        "shared": float(np.var(posterior.process.mean(np.concatenate(cohort.inputs)))),
        "personal": float(np.mean(np.concatenate(own))),
        "noise": model.noise,
    }


def _unexplained(posterior: SharedPosterior, cohort: Cohort) -> float:
    """Return the mean square of what all other users' mean process leaves of users' targets."""
    left = [
        y - posterior.without(u).mean(x)
        for u, (x, y) in enumerate(zip(cohort.inputs, cohort.targets, strict=True))
    ]
    return float(np.mean(np.concatenate(left) ** 2))


def _best(scores: Mapping[str, np.ndarray]) -> str:
    best = max(scores, key=lambda name: float(scores[name].sum()))
    if "nothing" not in scores or best == "nothing":
        return best
    gain = scores[best] - scores["nothing"]
    error = gain.std(ddof=1) * np.sqrt(len(gain))
    return best if gain.sum() > STANDARD_ERRORS * error else "nothing"


def personal_composition(cohort: Cohort) -> Composition:
    """Return a composition that suits most users: CONST, LIN of every feature, ARD.

    Of categories that vary within users CAT, which is no part of ARD.
    """
    own = linear_composition(cohort, personal=True)
    return own + Composition(tuple(smooth_function(number_features(cohort))))


def linear_composition(cohort: Cohort, personal: bool = False) -> Composition:
    """Return CONST and LIN of every feature, of categories CAT.

    Where it is `personal`, without categories that are the same in all rows of every user.
    """
    kinds = dict.fromkeys(number_features(cohort), "LIN")
    kinds |= dict.fromkeys(category_features(cohort), CAT)
    left_out = category_features(cohort) & cohort.constant if personal else frozenset()
    lines = [Candidate((Factor(kind, d),)) for d, kind in kinds.items() if d not in left_out]
    return Composition((Candidate(), *lines))


def _compositions(cohort: Cohort) -> dict[str, Composition]:
    """Return what "auto" chooses from, by name."""
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
    if len(numbers) < 2:  # one feature alone is all of them
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
