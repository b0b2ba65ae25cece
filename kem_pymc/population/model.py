"""The population model: what users share, how they differ, and noise, as a PyMC model."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pymc as pm
from scipy.special import softmax

from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc._system.progress import Report
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.families import LATENT
from kem_pymc.data.table import check_varies
from kem_pymc.errors import InputError, SamplingWarning
from kem_pymc.population.design import FEWER, LEVEL, MOST, default_terms, designs
from kem_pymc.population.hyperparameters import (
    CORRELATION,
    NOISE,
    OWN,
    PopulationHyperparameter,
    hyperparameters,
    log_prior,
    scales,
)
from kem_pymc.population.importance import ImportanceDraws, differences, sample
from kem_pymc.population.likelihood import DrawnSites, Products, Scales, Total
from kem_pymc.population.posterior import PopulationPosterior, check_named
from kem_pymc.population.sites import Moves, is_unmatched, matched, moves_with
from kem_pymc.population.surfaces import (
    STEP,
    STEPS,
    adjoints,
    carried,
    climb,
    in_lengthscales,
    usual,
)
from kem_pymc.population.variables import add_variables

if TYPE_CHECKING:
    from xarray import DataTree

#: Number of draws by importance sampling, and of those used from other samplers at most.
DRAWS = 1000

#: Number of posteriors that pseudo-observations are matched to, one after another, before units are
#: settled, and of their draws.
ROUNDS, FEW_DRAWS = 2, 200

#: Smallest number of draws; fewer have no covariance.
LEAST_DRAWS = 20

#: Starting values of all sds and amplitudes, and those of lengthscales.
STARTS, LENGTHSCALES = (0.4, 0.1, 0.8), (0.8, 0.2)

#: Smallest noise sd, in scaled units; smaller ones would be rounding errors.
LEAST_NOISE = 1e-5

#: An array of the rows of each user.
type Split = list[np.ndarray]


@checked
class PopulationModel(pm.Model):
    """What users share and how they differ: a linear mixed model with smooth functions.

    The target of user u at inputs x is

        y = b_0 + sum_j b_j h_j(x) + sum_k f_k(x) + a_u + c_u t + r_u(t) + noise,

    with lines and contrasts b of the population, with priors so diffuse that they don't matter;
    smooth functions f of the population, or of its groups; and a level a_u, a line c_u and a smooth
    function r_u of each user. The noise has one variance, which is learned, and on top of it the
    known variance of each target, if the cohort has these. Without smooth functions it is the
    linear mixed model, and the posterior modes of its variances under flat priors are those of REML
    (Harville 1974). All these functions are integrated out, so ``pm.sample`` draws variances,
    lengthscales and a correlation; :meth:`fit` does the same in about a second by importance
    sampling.

    Parameters
    ----------
    cohort : Cohort
        Users, in the units in which results are wanted.
    shared : sequence of str, optional
        Terms that users share: features, as ``"day"`` or ``"arm"``; products, ``"day:arm"``; smooth
        functions, ``"s(day)"``, also of several features, ``"s(day, dose)"``, or for each level of
        a category, ``"s(day):arm"``. By default see
        :func:`~kem_pymc.population.design.default_terms`.
    personal : sequence of str, optional
        Terms of each user's own: ``"level"``, features, and smooth functions.
    priors : mapping of str to distribution, optional
        PyMC distributions that replace default priors, by name of the hyperparameter:
        ``"personal level.sd"``, ``"s(day).lengthscale"``, ``"personal day.correlation"``,
        ``"noise.sd"``.
    lengthscales : mapping of str to array_like, optional
        Those of smooth functions of several features, by name of the term, in halves of the
        features' ranges. The others' are found, see Notes.
    report : callable, optional
        Function of how many steps of finding them are done, and of about how many.

    Attributes
    ----------
    cohort, original : Cohort
        The cohort of latent values, and the one that was given, whose targets may have a family;
        without one they are the same.
    hyperparameters : tuple of PopulationHyperparameter
    target_mean, target_sd : float
        Mean and sd of the target. Sds have the unit `target_sd`, lines that of their feature's sd,
        lengthscales half of their feature's range.
    known_noise : list of ndarray, shape (n_u,)
        Known variances of each user's targets' own noise, in scaled units, on top of which comes
        the noise that is learned, ``"noise.sd"``; zeros if the cohort has none.
    moves : Moves, optional
        How a family's pseudo-observations depend on the hyperparameters
        (:mod:`kem_pymc.population.sites`); None without a family, and for ``student``.
    uncertain : ndarray, shape (m, P)
        R, with R'R the covariance that the shared weights have because the lengthscales of smooth
        functions of several features are uncertain.

    Raises
    ------
    InputError
        If there is only one user, a feature or the target is constant, a term or a prior isn't
        valid, or the time has the name of a column of answers, like ``"mean"``.

    Notes
    -----
    A smooth function of several features, ``"s(day, dose)"``, has one lengthscale for each. Unless
    they are given, they are at the mode of their posterior together with all other hyperparameters,
    and how uncertain they are is approximated (:mod:`kem_pymc.population.surfaces`).

    Examples
    --------
    >>> model = kem.PopulationModel(cohort)
    >>> model.fit().comparisons("arm", over="day")
    """

    def __init__(
        self,
        cohort: Cohort,
        shared: Sequence[str] | None = None,
        personal: Sequence[str] | None = None,
        *,
        priors: Mapping[str, Any] | None = None,
        lengthscales: Mapping[str, npt.ArrayLike] | None = None,
        report: Report | None = None,
    ) -> None:
        if cohort.n_users < 2:
            raise InputError("A population model of one user isn't possible. Give at least two.")
        self.priors = dict(priors or {})
        self._lengthscales = {n: np.asarray(v) for n, v in (lengthscales or {}).items()}
        terms = shared, personal, report or (lambda *_: None)
        self.moves: Moves | None = None
        self._describe(cohort, *terms)
        for _ in range(ROUNDS if is_unmatched(cohort) else 0):
            self._describe(self._matched()[0], *terms)
        if moves_with(cohort):
            self._settle()
        super().__init__(model=None)  # an EvolutionModel that is being made isn't its parent
        add_variables(self)

    def _describe(
        self,
        cohort: Cohort,
        shared: Sequence[str] | None,
        personal: Sequence[str] | None,
        report: Report,
    ) -> None:
        """Set up everything that isn't PyMC's."""
        self.original = cohort
        cohort = cohort.on_latent_scale()
        rows, y = np.concatenate(cohort.inputs), np.concatenate(cohort.targets)
        check_varies((*cohort.features, cohort.target), np.column_stack([rows, y]))
        check_named([cohort.time])
        defaults = default_terms(cohort)
        self.cohort = cohort
        self.shared, self.personal = designs(
            cohort,
            defaults[0] if shared is None else shared,
            defaults[1] if personal is None else personal,
        )
        self.target_mean, self.target_sd = float(y.mean()), float(y.std())
        none = [np.zeros(len(y)) for y in cohort.targets]
        sds = none if cohort.noise is None else cohort.noise
        self.known_noise = [(sd / self.target_sd) ** 2 for sd in sds]
        family = self.original.family
        single = family is not None and family.single
        self.hyperparameters = hyperparameters(
            self.shared, self.personal, self.priors, self.has_known_noise, single
        )
        self._find_surfaces(rows, report)
        self.products = self._products()

    @one_blas_thread()
    def _matched(self) -> tuple[Cohort, Moves | None]:
        """Return the cohort with its pseudo-observations matched to this model, and their moves."""
        rng = np.random.default_rng(0)
        return matched(self._posterior(self._sample(self.products, FEW_DRAWS, rng)))

    def _settle(self) -> None:
        """Match pseudo-observations, in the units that there are now, and keep their moves."""
        self.original, self.moves = self._matched()
        self.cohort = self.original.on_latent_scale()
        sds: Any = self.cohort.noise
        self.known_noise = [(sd / self.target_sd) ** 2 for sd in sds]
        self.products = self._products()

    def log_posterior(self, coordinates: np.ndarray, products: Products) -> np.ndarray:
        """Return log likelihood plus log prior density (S,) at coordinates (S, d)."""
        total = self.log_prior(coordinates)
        inside = np.isfinite(total)
        if inside.any():
            total[inside] += self.log_likelihood(self.named(coordinates[inside]), products)
        return np.where(np.isnan(total), -np.inf, total)

    def log_prior(self, coordinates: np.ndarray) -> np.ndarray:
        """Return log prior densities (S,) of coordinates (S, d)."""
        total = np.full(len(coordinates), -np.inf)
        low = self.lower_ends
        inside = np.isfinite(coordinates).all(axis=1) & (coordinates >= low).all(axis=1)
        if inside.any():
            values = coordinates[inside]
            density = log_prior(self.hyperparameters, self.named(values))
            every = enumerate(self.hyperparameters)
            total[inside] = density + sum(h.log_jacobian(values[:, i]) for i, h in every)
        return total

    @property
    def has_known_noise(self) -> bool:
        """Whether any target has known noise."""
        return any(variances.any() for variances in self.known_noise)

    @property
    def lengthscales(self) -> dict[str, np.ndarray]:
        """Lengthscales of smooth functions of several features, by name of the term."""
        own = {OWN + name: surface for name, surface in self.personal.surfaces.items()}
        return {n: s.lengthscales for n, s in {**self.shared.surfaces, **own}.items()}

    @property
    def mean_label(self) -> str:
        """What means of targets are called on the targets' own scale, like "rate of y"."""
        family, target = self.original.family, self.original.target
        return target if family is None else family.mean_label(target)

    @property
    def own_scale(self) -> bool:
        """Whether targets have a scale that isn't that of latent values."""
        family = self.original.family
        return family is not None and family.name != "student"

    @property
    def logarithm_of(self) -> str | None:
        """What latent values are the logarithms of, like "odds of y"; None if they aren't any."""
        target = self.cohort.target
        if target.startswith("log(") and target.endswith(")"):
            return target[4:-1]
        family = self.original.family
        logarithmic = family is not None and LATENT[family.name].startswith("log ")
        return target.removeprefix("log ") if logarithmic else None

    @property
    def log_constants(self) -> np.ndarray:
        """What is added to log densities (U,) in scaled units to obtain those of users' targets."""
        rows = self.products.rows
        if self.moves is None:
            return -rows * np.log(self.target_sd)
        return np.add.reduceat(self.moves.log_constants, np.cumsum(rows) - rows)

    @property
    def outcomes(self) -> list[np.ndarray]:
        """Each user's targets (n_u,), of counts those per unit of exposure or trial."""
        sizes = self.original.sizes
        if sizes is None:
            return [*self.original.targets]
        return [y / size for y, size in zip(self.original.targets, sizes, strict=True)]

    @property
    def groups(self) -> tuple[str, ...]:
        """Features with categories that are constant within users, such as the arms of a trial."""
        constant = self.cohort.constant
        features = enumerate(self.shared.features)
        return tuple(f.name for d, f in features if f.category and d in constant)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Features with numbers, the time first."""
        names = [f.name for f in self.shared.features if not f.category]
        return tuple(sorted(names, key=lambda name: name != self.cohort.time))

    @property
    def lower_ends(self) -> np.ndarray:
        """Lower end of each hyperparameter's coordinate, shape (d,)."""
        return np.array([0.0 if h.coordinate == "root" else -np.inf for h in self.hyperparameters])

    def named(self, coordinates: np.ndarray) -> dict[str, np.ndarray]:
        """Return natural values (S,) by name for coordinates (S, d)."""
        every = enumerate(self.hyperparameters)
        values = {h.name: h.natural(np.clip(coordinates[:, i], -30, 10)) for i, h in every}
        return values | {NOISE: np.maximum(values[NOISE], LEAST_NOISE)}

    def log_likelihood(self, natural: Mapping[str, np.ndarray], products: Products) -> np.ndarray:
        """Return log likelihoods (S,) of products, minus infinity where rounding errors win."""
        every = scales(self.shared, self.personal, natural)
        parts = map(every.at, products.parts(len(every.noise)))
        found = [_log_likelihood(products.total(part), part) for part in parts]
        return np.concatenate(found) + self._gain(natural)

    def _gain(self, natural: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return what moves of pseudo-observations add to log likelihoods (S,)."""
        if self.moves is None:
            return np.zeros(len(natural[NOISE]))
        return self.moves.gain(self.coordinates(natural))

    def coordinates(self, natural: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return coordinates (S, d) of natural values (S,) by name."""
        return np.column_stack([h.coordinates(natural[h.name]) for h in self.hyperparameters])

    def given_coordinates(
        self, coordinates: np.ndarray, sites: DrawnSites | None
    ) -> PopulationPosterior:
        """Return the posterior given hyperparameters at coordinates (S, d), each equally likely."""
        equal = np.full(len(coordinates), 1 / len(coordinates))
        draws = self.named(coordinates)
        return PopulationPosterior(self, draws, equal, np.nan, np.nan, sites=sites)

    def given_sites(self, coordinates: np.ndarray, sites: DrawnSites) -> np.ndarray:
        """Return log likelihoods (S,) of pseudo-observations at coordinates (S, d)."""
        given = self.given_coordinates(coordinates, sites)._given()
        return np.concatenate([part.log_likelihood for _, part in given])

    @one_blas_thread()
    def fit(self, *, draws: int = DRAWS, seed: int = 0) -> PopulationPosterior:
        """Return the posterior by importance sampling.

        Parameters
        ----------
        draws : int
            Number of draws.
        seed : int

        Returns
        -------
        PopulationPosterior
            If k-hat of its weights is above 0.7, or few draws have most of the weight, a warning
            says so.
        """
        check_whole(LEAST_DRAWS, draws=draws)
        check_seed(seed=seed)
        weighted = self._sample(self.products, draws, np.random.default_rng(seed))
        posterior = self._posterior(weighted)
        if posterior.caution:
            warnings.warn(posterior.caution, SamplingWarning, stacklevel=2)
        return posterior

    def posterior(self, idata: "DataTree") -> PopulationPosterior:
        """Return the posterior from draws of ``pm.sample``, of which at most 1,000 are used.

        Raises
        ------
        InputError
            If `idata` isn't a posterior of this model.
        """
        group: Any = idata["posterior"].to_dataset() if "posterior" in idata.children else {}
        names = [h.name for h in self.hyperparameters]
        if any(name not in group for name in names):
            raise InputError(f"The posterior doesn't have {', '.join(names)}. Give this model's.")
        every = {name: group[name].values.ravel() for name in names}
        total = len(every[NOISE])
        places = np.linspace(0, total - 1, min(total, DRAWS)).round().astype(int)
        draws = {name: values[places] for name, values in every.items()}
        weights = softmax(self._gain(draws))
        return PopulationPosterior(self, draws, weights, -np.inf, np.nan, sites=self._sites(draws))

    def fit_without(self, user: int, draws: int = DRAWS) -> PopulationPosterior:
        """Return the posterior given all users except one, by index, by importance sampling."""
        check_whole(0, self.cohort.n_users - 1, user=user)
        check_whole(LEAST_DRAWS, draws=draws)
        others = self.products.take(np.arange(self.cohort.n_users) != user)
        rng = np.random.default_rng(user)
        return self._posterior(self._sample(others, draws, rng), user)

    def _posterior(
        self, found: ImportanceDraws, left_out: int | None = None
    ) -> PopulationPosterior:
        return PopulationPosterior(
            self,
            self.named(found.draws),
            found.weights,
            found.pareto_k,
            found.log_evidence,
            found.effective,
            left_out,
            self._sites(self.named(found.draws)),
        )

    def _sites(self, natural: Mapping[str, np.ndarray]) -> DrawnSites | None:
        """Return pseudo-observations at natural values (S,), if they depend on them."""
        if self.moves is None:
            return None
        return self.moves.at(self.coordinates(natural), self.products)

    def without(self, term: str) -> "PopulationModel":
        """Return the model without a smooth term that users share, or a term of users' own.

        Raises
        ------
        InputError
            If the term isn't in the model, or is a line or a contrast that users share.
        """
        shared = {t.name: t for t in self.shared.terms}
        personal = {f"{OWN}{t.name}": t for t in self.personal.terms}
        smooth = [name for name, t in shared.items() if t.smooth]
        if term not in (*smooth, *personal):
            raise InputError(
                f"{term!r} isn't a term that can be left out. Use one of "
                f"{', '.join([*smooth, *personal])}; of lines and contrasts that users share, "
                "use the intervals of slopes and comparisons."
            )
        shared.pop(term, None)
        personal.pop(term, None)
        own = [t.name for t in personal.values()]
        names = {h.name: h.prior for h in self.hyperparameters if not h.name.startswith(f"{term}.")}
        if LEVEL not in own:
            names = {n: p for n, p in names.items() if not n.endswith(CORRELATION)}
        left = {*shared, *personal}
        scales = {n: v for n, v in self.lengthscales.items() if n in left}
        return PopulationModel(self.original, [*shared], own, priors=names, lengthscales=scales)

    def _products(self) -> Products:
        return Products.of(*self._columns(), apart=moves_with(self.original))

    def _columns(self) -> tuple[Split, Split, Split, Split]:
        """Return each user's shared and personal columns, targets, and known noise variances."""
        rows, y = np.concatenate(self.cohort.inputs), np.concatenate(self.cohort.targets)
        ends = np.cumsum([len(x) for x in self.cohort.inputs])[:-1]
        scaled = (y - self.target_mean) / self.target_sd
        every = self.shared(rows), self.personal(rows), scaled
        shared, personal, targets = (np.split(values, ends) for values in every)
        return shared, personal, targets, self.known_noise

    @one_blas_thread()
    def _find_surfaces(self, rows: np.ndarray, report: Report) -> None:
        """Find the lengthscales of smooth functions of several features."""
        of = {t.name: usual(t) for t in self.shared.terms if t.joint}
        of |= {OWN + t.name: usual(t) for t in self.personal.terms if t.joint}
        given = self._lengthscales
        for name, values in given.items():
            if name not in of or values.shape != of[name].shape:
                raise InputError(
                    f"{{lengthscales}} has {name!r} with shape {values.shape}. Give a number for "
                    f"each feature of the smooth functions of several: {', '.join(of)}.",
                    lengthscales=...,
                )
        sought = [name for name in of if name not in given]
        self._use(of | given, rows, FEWER if sought else MOST)
        self.uncertain = np.zeros((0, self.shared.size))
        if not sought:
            return
        centre = np.log(np.concatenate([of[name] for name in sought]))
        ends = np.cumsum([len(of[name]) for name in sought])[:-1]
        starts = np.concatenate(self._starts)
        x = starts[np.argmax(self.log_posterior(starts, self._products()))]
        logs, done = centre, count()
        climbed = STEPS + 2 * (len(x) + len(logs))
        total = 2 * climbed + 2 * len(logs)

        def scales(logs: np.ndarray) -> dict[str, np.ndarray]:
            return given | dict(zip(sought, np.split(np.exp(logs), ends), strict=True))

        def height(x: np.ndarray, logs: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            report(next(done), total)
            self._use(scales(logs))
            values, slope = differences(partial(self.log_posterior, products=self._products()), x)
            in_logs = self._in_lengthscales(x, rows)
            return values, slope, np.concatenate([in_logs[name] for name in sought])

        for before in (0, climbed):  # with few points, and with many where lengthscales need them
            done = count(before)
            x, logs, covariance = climb(height, x, self.lower_ends, logs, centre)
            self._use(scales(logs), rows)
        base, moves = self.shared, STEP * np.linalg.cholesky(covariance).T
        found = []
        for place, move in enumerate((*moves, *-moves)):
            report(2 * climbed + place, total)
            self._use(scales(logs + move))
            found.append(carried(self.shared, base, self._mean_weights(x)))
        self._use(scales(logs))
        up, down = np.split(np.array(found), 2)
        self.uncertain = (up - down) / (2 * STEP)

    def _mean_weights(self, x: np.ndarray) -> np.ndarray:
        """Return the posterior mean (P,) of the shared weights at coordinates (d,)."""
        every = scales(self.shared, self.personal, self.named(x[None]))
        given = self._products().total(every).given(every)
        return np.linalg.solve(given.factor[0].T, given.white[0]) * every.shared[0]

    def _use(
        self,
        lengthscales: Mapping[str, np.ndarray],
        rows: np.ndarray | None = None,
        most: int = MOST,
    ) -> None:
        """Use lengthscales, with inducing points chosen among rows, or those of before."""
        own = {n.removeprefix(OWN): v for n, v in lengthscales.items() if n.startswith(OWN)}
        common = {name: v for name, v in lengthscales.items() if not name.startswith(OWN)}
        self.shared = self.shared.with_lengthscales(common, rows, most)
        self.personal = self.personal.with_lengthscales(own, rows, most)

    def _in_lengthscales(self, x: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return derivatives of the log likelihood in the logs of lengthscales, by name."""
        every = scales(self.shared, self.personal, self.named(x[None]))
        found = adjoints(*self._columns(), Scales(*(values[0] for values in every)))
        own = in_lengthscales(self.personal, rows, found.personal)
        common = in_lengthscales(self.shared, rows, found.shared)
        return common | {OWN + name: values for name, values in own.items()}

    @property
    def _starts(self) -> np.ndarray:
        """Coordinates to start from, (r, m, d): of all sds, for each of r lengthscales."""
        names = [h.name for h in self.hyperparameters]
        smooth = any(name.endswith("lengthscale") for name in names)
        every = [
            [[self._start(h, sd, scale) for h in self.hyperparameters] for sd in STARTS]
            for scale in (LENGTHSCALES if smooth else LENGTHSCALES[:1])
        ]
        return np.array(every)

    def _sample(self, products: Products, draws: int, rng: np.random.Generator) -> ImportanceDraws:
        density = partial(self.log_posterior, products=products)
        return sample(density, self._starts, self.lower_ends, draws, rng)

    @staticmethod
    def _start(hyperparameter: PopulationHyperparameter, sd: float, lengthscale: float) -> float:
        name = hyperparameter.name
        value = 0.0 if name.endswith(CORRELATION) else lengthscale if "lengthscale" in name else sd
        return float(hyperparameter.coordinates(np.array(value)))


def robust(cohort: Cohort) -> Cohort:
    """Return the cohort of pilots, of whom kernels are learned, with little weight of outliers.

    If the family is ``student``, pseudo-observations are those of the default
    :class:`PopulationModel`. Their variances rest on all rows of a user, later ones included, so
    that an outlier has little weight from its first time step on. Less noise is learned than new
    users show at first, whose selections use the likelihood of their rows up to then; scores lose
    less by it than without weights (docs/explanation/evidence/families.md). Those of other families
    stay their own: matched to all targets of a user, later ones would be part of earlier ones. So
    do those of one user, who has no population model, and of cohorts that have pseudo-observations
    already.
    """
    heavy = cohort.family is not None and cohort.family.name == "student"
    if cohort.n_users < 2 or not (heavy and is_unmatched(cohort)):
        return cohort
    return PopulationModel(cohort).original


def _log_likelihood(total: Total, every: Scales) -> np.ndarray:
    """Return log likelihoods (S,); a failed factorisation is found by halving the draws."""
    try:
        return total.given(every).log_likelihood
    except np.linalg.LinAlgError:
        count = len(every.noise)
        if count == 1:
            return np.array([-np.inf])
        halves = slice(0, count // 2), slice(count // 2, count)
        return np.concatenate([_log_likelihood(total.at(h), every.at(h)) for h in halves])
