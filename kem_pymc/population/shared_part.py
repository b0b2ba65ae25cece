"""What users share, as kernels of their own functions need it: for each user without that user."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from kem_pymc._system.display import some
from kem_pymc._system.options import checked
from kem_pymc._system.progress import Report, waiting
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.population.design import CURVED, LEVEL, Feature, Term, default_terms, designs
from kem_pymc.population.fixed_mean import FixedMean
from kem_pymc.population.hyperparameters import OWN, scales
from kem_pymc.population.mean_process import MeanProcess, Smooth, describe
from kem_pymc.population.model import PopulationModel
from kem_pymc.population.posterior import PopulationPosterior
from kem_pymc.population.variance_function import (
    MEAN,
    ROWS,
    Covariate,
    UserRows,
    VarianceFunction,
    choose,
)
from kem_pymc.priors.unexplained import Unexplained

#: Names of the choices from which "auto" chooses.
AUTO = ("nothing", "linear", "additive", "smooth")

#: Gain over "nothing", in nats, that another choice needs: what is shared by chance gains less.
GAIN = 1.0

#: Number of draws of the hyperparameters.
DRAWS = 400

#: Number of steps of finding lengthscales that take about as long as leaving out a user.
PER_USER = 10

#: Largest number of features with numbers of which each has a personal line, or a smooth function
#: of its own. More would have too many hyperparameters for importance sampling.
LINES = 3

#: Largest number of features of a smooth function that are named.
NAMED = 5


@dataclass(frozen=True, eq=False)
class SharedPart:
    """What the users of a cohort share, given all users, and given all users except each one.

    Attributes
    ----------
    process : MeanProcess
        Given all users, for users who aren't in the cohort.
    without : sequence of MeanProcess, length U
        Given all users except one.
    users : tuple of labels
        User labels, in the order of `without`.
    scores : dict of str to ndarray, shape (U,)
        Log density of each user's targets given all other users', by name of the choice.
    unexplained : Unexplained
        What the mean given all other users leaves to explain of the targets.
    posterior : PopulationPosterior, optional
        What was learned; None if the part was given, or read from a file.
    """

    process: MeanProcess
    without: Sequence[MeanProcess]
    users: tuple[Hashable, ...]
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    unexplained: Unexplained = field(default_factory=Unexplained)
    posterior: PopulationPosterior | None = None

    @property
    def nothing(self) -> bool:
        """Whether users share nothing but a level."""
        same_noise = self.process.variance_function is None
        return same_noise and [term.name for term in self.process.design.terms] == [LEVEL]

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
        return self.without[self.users.index(user)]

    def functions(self, cohort: Cohort) -> list[MeanProcess]:
        """Return the mean process without each user of a cohort, see :meth:`function`."""
        return [self.function(user) for user in cohort.users]

    def __str__(self) -> str:
        """Return a sentence that describes what users share."""
        terms = [_words(term) for term in self.process.design.terms if term.name != LEVEL]
        noise = self.process.variance_function
        more = "" if noise is None else f" {noise}"
        if not terms:
            return f"Users share no function that improves predictions for other users.{more}"
        return f"Users share {', '.join(['a level', *terms[:-1]])} and {terms[-1]}.{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return the columns and kernels, and summed scores, as plain data."""
        return describe(self.process) | {
            "scores": {name: float(values.sum()) for name, values in self.scores.items()},
            "unexplained": self.unexplained._asdict(),
        }


@checked
@one_blas_thread()
def learn_shared(
    cohort: Cohort,
    shared: FixedMean | Sequence[str] | str | Literal["auto"] = "auto",
    *,
    seed: int = 0,
    progress: bool = True,
) -> SharedPart:
    """Learn what the users of a cohort share, or use a given mean process.

    It is the shared part of a :class:`~kem_pymc.PopulationModel`: a normal distribution of the
    weights of its columns, with the mean and the covariance of their posterior, in which
    hyperparameters are averaged over. With "auto", every choice of `AUTO` is fitted: a level only;
    lines of all features, with differences between levels of categories; these and smooth functions
    of each feature, also for each level of categories that are constant within users; and one
    smooth function of all features. Each has the same personal part, which suits most users: a
    level, lines, and a smooth function. The choice with the largest sum over users of the log
    density of their targets, given all other users', is made; users share
    nothing unless it gains at least one nat over "nothing".

    Parameters
    ----------
    cohort : Cohort
        Pilot users, in scaled units.
    shared : FixedMean, sequence of str, or str
        ``"auto"``, one of `AUTO`, terms of a :class:`~kem_pymc.PopulationModel` as a sequence or as
        one text ("day + s(day)"), or a mean and a covariance that aren't learned.
    seed : int
        Seed of the random number generators.
    progress : bool
        Whether to show on the error stream that this goes on, and the time left.

    Returns
    -------
    SharedPart

    Raises
    ------
    InputError
        If there is only one user and `shared` is neither "auto" nor a `FixedMean`, or `shared`
        isn't valid.
    """
    if isinstance(shared, FixedMean):
        process = shared.process(cohort, np.random.default_rng(seed))
        return _part(process, [process] * cohort.n_users, cohort)
    if cohort.n_users < 2:
        if shared != "auto":
            raise InputError(
                "A shared mean process can't be learned from one user. "
                "Give at least two pilot users, or {shared}.",
                shared="auto",
            )
        return _alone(cohort)
    named = choices(cohort)
    if shared != "auto":
        name = shared if isinstance(shared, str) and shared in named else "given"
        named = {name: named[name] if name in named else _terms(shared)}
    own = personal_terms(cohort)
    waited = waiting("Learning what users share") if progress else nullcontext(lambda *_: None)
    with waited as report:
        return _learned(cohort, named, own, seed, report)


def _learned(
    cohort: Cohort,
    named: Mapping[str, tuple[str, ...]],
    own: tuple[str, ...],
    seed: int,
    report: Report,
) -> SharedPart:
    """Fit the named choices of shared terms with the same personal ones; return the best part.

    Per user, all choices and the result of the best one are reported as the same work, and so are
    `PER_USER` steps of finding lengthscales, which only the first choice needs with many features.
    """
    posteriors, scores, others = {}, {}, {}
    lengthscales: dict[str, np.ndarray] = {}
    total = (len(named) + 1) * cohort.n_users
    sought = 0

    def report_search(done: float, of: float) -> None:
        nonlocal sought
        sought = round(of / PER_USER)
        if not done % PER_USER:
            report(done / PER_USER, sought + total)

    for place, (name, terms) in enumerate(reversed([*named.items()])):
        # The richest model is the first, and finds lengthscales for all.
        known = {*terms, *(OWN + n for n in own)} & lengthscales.keys()
        model = PopulationModel(
            cohort,
            terms,
            own,
            lengthscales={n: lengthscales[n] for n in known},
            report=report_search,
        )
        posterior = model.fit(draws=DRAWS, seed=seed)
        lengthscales |= model.lengthscales
        left_out = []
        for user in range(cohort.n_users):
            report(sought + place * cohort.n_users + user, sought + total)
            left_out.append(posterior.without(user))
        posteriors[name] = posterior
        others[name] = [other for other, _, _ in left_out]
        scores[name] = np.array([log_density for _, log_density, _ in left_out])
    scores = {name: scores[name] for name in named}
    totals = {name: float(values.sum()) for name, values in scores.items()}
    best = max(totals, key=lambda name: totals[name] + (GAIN if name == "nothing" else 0.0))
    without, process = [], mean_process(posteriors[best])
    for user, other in enumerate(others[best]):
        report(sought + len(named) * cohort.n_users + user, sought + total)
        without.append(mean_process(other))
        other.forget()
    varying = _variance_function(cohort, posteriors[best], without)
    process, *without = (replace(p, variance_function=varying) for p in (process, *without))
    posteriors[best].forget()
    return _part(process, without, cohort, scores, posteriors[best])


def _variance_function(
    cohort: Cohort, posterior: PopulationPosterior, without: Sequence[MeanProcess]
) -> VarianceFunction | None:
    """Return how the noise depends on a feature or the mean; families have their own noise."""
    if cohort.family is not None or cohort.latent_of is not None:
        return None
    model = posterior.model
    own = scales(model.shared, model.personal, posterior.centre()).personal * model.target_sd
    rows, values, means = [], [], []
    for u, other in enumerate(without):
        n = len(cohort.targets[u])
        few = np.linspace(0, n - 1, min(n, ROWS)).astype(int)
        x, noise = cohort.inputs[u][few], cohort.noise_of(u)
        mean, personal = other.mean(x), model.personal(x) @ own
        known = np.zeros(len(x)) if noise is None else noise[few]
        covariance = other.covariance(x, x) + personal @ personal.T
        rows.append(UserRows.of(cohort.targets[u][few] - mean, covariance, known))
        values.append(x)
        means.append(mean)
    columns = np.concatenate(values).T
    candidates = [
        Covariate(name, column, cohort.levels.get(name, ()))
        for name, column in zip(cohort.features, columns, strict=True)
    ]
    return choose(rows, [*candidates, Covariate(MEAN, np.concatenate(means))])


def _part(
    process: MeanProcess,
    without: Sequence[MeanProcess],
    cohort: Cohort,
    scores: Mapping[str, np.ndarray] | None = None,
    posterior: PopulationPosterior | None = None,
) -> SharedPart:
    others = [other.mean(x) for other, x in zip(without, cohort.inputs, strict=True)]
    residuals = [y - mean for y, mean in zip(cohort.targets, others, strict=True)]
    unexplained = Unexplained.of(residuals, cohort.noise)
    return SharedPart(process, without, cohort.users, scores or {}, unexplained, posterior)


def _alone(cohort: Cohort) -> SharedPart:
    """Return the part of a single user, who shares nothing."""
    process = MeanProcess(designs(cohort, (), ())[0], {}, np.zeros(1), np.zeros((1, 1)))
    return _part(process, [process], cohort)


def _words(term: Term) -> str:
    """Return a term in words."""
    few = len(term.smooth) <= NAMED
    smooth = " and ".join(term.smooth) if few else some(term.smooth, NAMED)
    groups = list(term.features)
    what = f"a smooth function of {smooth}" if smooth else f"the effect of {groups.pop(0)}"
    return what + (f" for each {' and '.join(groups)}" if groups else "")


def _terms(given: Any) -> tuple[str, ...]:
    """Return the names of given terms."""
    if isinstance(given, str):
        given = given.split("+")
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InputError(
            f"shared is a {type(given).__name__}. Give 'auto', None, one of {', '.join(AUTO)}, or "
            "terms as 'day + s(day)'."
        )
    return tuple(name.strip() for name in given)


def choices(cohort: Cohort) -> dict[str, tuple[str, ...]]:
    """Return the shared terms of which "auto" chooses, by name."""
    features = [Feature.of(cohort, name) for name in cohort.features]
    lines = tuple(cohort.features)
    curved = [f.name for f in features if not f.category and f.distinct >= CURVED]
    constant = {cohort.features[d] for d in cohort.constant}
    groups = tuple(name for name in default_terms(cohort)[0] if ":" in name)
    found: dict[str, tuple[str, ...]] = {"nothing": (), "linear": lines}
    if groups or 0 < len(curved) <= LINES:
        found["additive"] = (*lines, *(f"s({name})" for name in curved), *groups)
    if len(curved) > 1:
        changing = [f for f in features if len(f.values) == 2 and f.name not in constant]
        joint = [f.name for f in features if not f.category or f in changing]
        others = tuple(name for name in lines if name not in joint)
        found["smooth"] = (*others, f"s({', '.join(joint)})", *groups)
    return found


def personal_terms(cohort: Cohort) -> tuple[str, ...]:
    """Return personal terms that suit most users: a level, lines and a smooth function.

    Features that are constant within users have lines, too, in which users with large values differ
    more than others. Categories that are constant within users are left out.
    """
    features = [Feature.of(cohort, name) for name in cohort.features]
    constant = {cohort.features[d] for d in cohort.constant}
    numbers = [f.name for f in features if not f.category]
    lines = [f.name for f in features if f.category and f.name not in constant]
    if len(numbers) <= LINES:
        lines = [*numbers, *lines]
    changing = [f for f in features if not f.category and f.name not in constant]
    curved = [f.name for f in changing if f.distinct >= CURVED]
    enough = sum(map(len, cohort.targets)) >= CURVED * cohort.n_users
    return (LEVEL, *lines, *([f"s({', '.join(curved)})"] if curved and enough else []))


def mean_process(posterior: PopulationPosterior) -> MeanProcess:
    """Return the function that users share, with the posterior's means and covariances.

    The variances and lengthscales of smooth functions, which only matter where the pilot users have
    no data, are posterior means.
    """
    model, weights = posterior.model, posterior.weights
    mean, covariance = posterior.moments()
    mean, covariance = mean * model.target_sd, covariance * model.target_sd**2
    mean[0] += model.target_mean  # of the level, which comes first
    smooths = {}
    for term in model.shared.terms:
        if term.smooth:
            variance = float(weights @ posterior.draws[f"{term.name}.sd"] ** 2)
            lengthscales = (
                tuple(model.shared.surfaces[term.name].lengthscales.tolist())
                if term.joint
                else (float(weights @ posterior.draws[f"{term.name}.lengthscale"]),)
            )
            smooths[term.name] = Smooth(variance * model.target_sd**2, lengthscales)
    return MeanProcess.of_moments(model.shared, smooths, mean, covariance)
