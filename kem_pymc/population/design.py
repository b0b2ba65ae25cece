"""Terms of the population model, and the columns in which they are linear.

A term that all users share is a level (which is always there), a line ``"day"`` or the contrasts of
a category ``"arm"``, a product of such ``"arm:day"``, a smooth function ``"s(day)"``, or a smooth
function for each level of a category, ``"s(day):arm"``, whose functions add up to zero. A term of
each user's own is ``"level"``, ``"day"`` or ``"s(day)"``.

Smooth functions have the squared exponential kernel in its Hilbert space approximation (Solin and
Särkkä 2020; Riutort-Mayol et al. 2023): on [-L, L] the functions sin(j pi (x + L) / (2 L)) /
sqrt(L) with independent normal weights, whose variances are the kernel's spectral density at
j pi / (2 L). A smooth function of several features, ``"s(day, dose)"``, has a :class:`Surface`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.population.likelihood import Arrays

#: Number of basis functions of a smooth function, and L: half the width of the interval on which
#: they vanish at the ends, where the feature's values have half width 1.
BASIS, BOUNDARY = 20, 1.5

#: Codes of levels that are closer to each other are the same, but for rounding.
SAME = 1e-6

#: Added to the diagonal of the kernel at inducing points.
JITTER = 1e-6

#: Largest number of inducing points; a smaller one, for a first search of lengthscales; and the
#: share of the variance that points needn't explain.
MOST, FEWER, UNEXPLAINED = 256, 64, 1e-6

#: Name of each user's own level.
LEVEL = "level"

_SMOOTH = re.compile(r"s\((?P<features>.+)\)")


@dataclass(frozen=True, eq=False)
class Feature:
    """A feature's values as columns: one of standardised numbers, or the contrasts of a category.

    Attributes
    ----------
    name : str
    values : ndarray, shape (K,)
        Codes of the levels of a category, as they are in a cohort's inputs; empty for numbers. A
        feature with two values always is a category.
    labels : tuple of str, length K
        Names of the levels.
    contrasts : ndarray, shape (K, K - 1)
        Orthonormal columns that add up to zero over the levels.
    mean, sd, low, high : float
        Of the numbers, over all rows.
    gap : float
        Smallest difference of two numbers, in thousandths of their range, where 1 is half of it.
    distinct : int
        Number of different values.
    """

    name: str
    values: np.ndarray
    labels: tuple[str, ...]
    contrasts: np.ndarray
    mean: float
    sd: float
    low: float
    high: float
    gap: float
    distinct: int

    @classmethod
    def of(cls, cohort: Cohort, name: str) -> Self:
        """Read a feature from the rows of a cohort."""
        x = np.concatenate(cohort.inputs)[:, cohort.features.index(name)]
        distinct = np.unique(x)
        labels: tuple[str, ...] = cohort.levels.get(name, ())
        # In scaled units, a code has an offset of less than half.
        values = np.arange(len(labels)) + float(distinct[0] - np.round(distinct[0]))
        if not labels and len(distinct) == 2 and name != cohort.time:
            values, labels = distinct, tuple(f"{value:g}" for value in distinct)
        low, high = distinct[0], distinct[-1]
        places = np.unique(np.round((distinct - low) / ((high - low) or 1.0), 3))
        gap = 2 * float(np.min(np.diff(places), initial=1.0))
        of_numbers = float(x.mean()), float(x.std()), float(low), float(high), gap, len(distinct)
        return cls.given(name, values, labels, *of_numbers)

    @classmethod
    def given(
        cls,
        name: str,
        values: npt.ArrayLike,
        labels: Sequence[str],
        mean: float,
        sd: float,
        low: float,
        high: float,
        gap: float = 0.0,
        distinct: int = 0,
    ) -> Self:
        """Return a feature with these attributes, and orthonormal contrasts."""
        values = np.asarray(values, dtype=np.float64)
        k = len(values)
        both = np.column_stack([np.ones(k), np.eye(k)[:, :-1]]) if k else np.zeros((0, 1))
        contrasts = np.linalg.qr(both)[0][:, 1:]
        return cls(name, values, tuple(labels), contrasts, mean, sd, low, high, gap, distinct)

    @property
    def category(self) -> bool:
        """Whether the feature is a category."""
        return len(self.values) > 0

    def columns(self, x: np.ndarray) -> np.ndarray:
        """Return the columns (n, K - 1) or (n, 1) of values (n,).

        Between two values they are interpolated, because the values may be numbers. Those of a
        level that isn't one of the feature's are zero: it is an average one.
        """
        if not self.category:
            return ((x - self.mean) / (self.sd or 1.0))[:, None]
        if len(self.values) == 2:
            share = (x - self.values[0]) / (self.values[1] - self.values[0])
            between = np.column_stack([1 - share, share])
            return np.where((between >= -SAME).all(axis=1), between.T, 0.0).T @ self.contrasts
        return (np.abs(x[:, None] - self.values) < SAME) @ self.contrasts

    def unknown(self, x: np.ndarray) -> np.ndarray:
        """Return which of values (n,) are levels that the feature hasn't."""
        return ~(self.columns(x) ** 2).any(axis=1) if self.category else np.zeros(len(x), bool)

    def from_middle(self, x: np.ndarray) -> np.ndarray:
        """Return differences of numbers (n,) from the middle, in halves of the range."""
        return (x - (self.low + self.high) / 2) / ((self.high - self.low) / 2 or 1.0)


#: Frequencies of the basis functions, shape (BASIS,).
FREQUENCIES = np.pi * np.arange(1, BASIS + 1) / (2 * BOUNDARY)


def basis_functions(places: np.ndarray) -> np.ndarray:
    """Return the basis functions (n, BASIS) at places (n,), which are zero beyond the boundary."""
    inside = np.clip(places, -BOUNDARY, BOUNDARY)
    return np.sin(FREQUENCIES * (inside[:, None] + BOUNDARY)) / np.sqrt(BOUNDARY)


def spectral_root(lengthscale: Any, arrays: Any = Arrays) -> Any:
    """Return sds (..., BASIS) of the weights of a smooth function with variance 1.

    They are square roots of the spectral density of the squared exponential kernel with
    lengthscales of shape (...), where 1 is half of the feature's range. `arrays` are the operations
    of NumPy or PyTensor.
    """
    scale = lengthscale[..., None]
    return (np.sqrt(2 * np.pi) * scale) ** 0.5 * arrays.exp(-((scale * FREQUENCIES) ** 2) / 4)


@dataclass(frozen=True, eq=False)
class Surface:
    """The columns of a smooth function of several features, given its lengthscales.

    Attributes
    ----------
    points : ndarray, shape (M, d)
        Inducing points Z, in halves of the features' ranges from their middles.
    lengthscales : ndarray, shape (d,)
        Those of the squared exponential kernel k, in halves of the ranges.
    """

    points: np.ndarray
    lengthscales: np.ndarray

    def basis(self, x: np.ndarray) -> np.ndarray:
        """Return k(x, Z) L'^-1 (n, M) at values (n, d)."""
        z = self.points / self.lengthscales
        return solve_triangular(self.factor, similar(z, x / self.lengthscales), lower=True).T

    @cached_property
    def factor(self) -> np.ndarray:
        """L, lower triangular (M, M), with L L' = k(Z, Z)."""
        z = self.points / self.lengthscales
        return np.linalg.cholesky(similar(z, z) + JITTER * np.eye(len(z)))


def similar(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the squared exponential kernel (n, m) of scaled values (n, d) and (m, d)."""
    return np.exp(-cdist(one, other, "sqeuclidean") / 2)


def inducing_points(places: np.ndarray, lengthscales: np.ndarray, most: int = MOST) -> np.ndarray:
    """Return inducing points among places (n, d): each is the one that the others explain least.

    It is the incomplete Cholesky factorisation with pivots, which ends when the others explain all
    places but for `UNEXPLAINED` of the variance.
    """
    distinct = np.unique(places, axis=0)
    x = distinct / lengthscales
    variance, factor = np.ones(len(x)), np.zeros((len(x), min(most, len(x))))
    chosen: list[int] = []
    # The first is the place nearest to the mean.
    pivot = int(np.argmin(((distinct - distinct.mean(axis=0)) ** 2).sum(axis=1)))
    while len(chosen) < factor.shape[1] and variance[pivot] > UNEXPLAINED:
        done = factor[:, : len(chosen)]
        column = similar(x, x[pivot : pivot + 1])[:, 0] - done @ done[pivot]
        factor[:, len(chosen)] = column / np.sqrt(variance[pivot])
        variance -= factor[:, len(chosen)] ** 2
        chosen.append(pivot)
        pivot = int(np.argmax(variance))
    return distinct[chosen]


@dataclass(frozen=True)
class Term:
    """A term of the model: a product of features' columns, or of a smooth function and them.

    Attributes
    ----------
    name : str
    features : tuple of str
        Features of the columns; empty for a level.
    smooth : tuple of str
        Features of the smooth function; empty without one.
    """

    name: str
    features: tuple[str, ...]
    smooth: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a term from its name."""
        features: list[str] = []
        smooth: tuple[str, ...] = ()
        for factor in () if name == LEVEL else name.split(":"):
            match = _SMOOTH.fullmatch(factor)
            if match and not smooth:
                smooth = tuple(text.strip() for text in match["features"].split(","))
            else:
                features.append(factor)
        return cls(name, tuple(features), smooth)

    @property
    def every(self) -> tuple[str, ...]:
        """All features that the term depends on."""
        return (*self.features, *self.smooth)

    @property
    def joint(self) -> bool:
        """Whether it is a smooth function of several features."""
        return len(self.smooth) > 1


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of terms at any inputs.

    Attributes
    ----------
    features : tuple of Feature
        Those of the cohort, in its order.
    terms : tuple of Term
    surfaces : dict of str to Surface
        The columns of smooth functions of several features, by name of the term.
    """

    features: tuple[Feature, ...]
    terms: tuple[Term, ...]
    surfaces: Mapping[str, Surface] = field(default_factory=dict)

    def feature(self, name: str) -> Feature:
        """Return a feature by name.

        Raises
        ------
        InputError
            If there is none.
        """
        if name not in self._numbers:
            raise InputError(
                f"There is no feature {name!r}. Use one of {', '.join(self._numbers)}."
            )
        return self.features[self._numbers[name]]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Numbers of the features by name."""
        return {feature.name: number for number, feature in enumerate(self.features)}

    def category(self, name: str) -> Feature:
        """Return a feature with categories; raise an `InputError` if it has numbers."""
        feature = self.feature(name)
        if not feature.category:
            raise InputError(
                f"{name} has numbers, whose levels can't be compared. Read the column as "
                "categories ({categorical}), or use slopes.",
                categorical=name,
            )
        return feature

    def number(self, name: str) -> Feature:
        """Return a feature with numbers; raise an `InputError` if it has categories."""
        feature = self.feature(name)
        if feature.category:
            raise InputError(f"{name} has categories. Use comparisons, or give another feature.")
        return feature

    def columns(self, term: Term, x: np.ndarray) -> np.ndarray:
        """Return the columns (n, p) of a term at inputs (n, D), in the units of the cohort."""
        out = self.feature_columns(term, x)
        if term.smooth:
            out = _products(out, self.smooth_columns(term, self.places(term, x)))
        return out

    def feature_columns(self, term: Term, x: np.ndarray) -> np.ndarray:
        """Return the columns (n, p) of a term's features, without its smooth function."""
        out = np.ones((len(x), 1))
        for name in term.features:
            out = _products(out, self.feature(name).columns(x[:, self._numbers[name]]))
        return out

    def smooth_columns(self, term: Term, places: np.ndarray) -> np.ndarray:
        """Return the basis functions of a smooth term at places (n, d) of its features."""
        surface = self.surfaces.get(term.name)
        return basis_functions(places[:, 0]) if surface is None else surface.basis(places)

    def places(self, term: Term, x: np.ndarray) -> np.ndarray:
        """Return the values (n, d) of a smooth term's features, in halves of their ranges."""
        every = ((self.feature(name), x[:, self._numbers[name]]) for name in term.smooth)
        return np.column_stack([feature.from_middle(values) for feature, values in every])

    def with_lengthscales(
        self,
        lengthscales: Mapping[str, np.ndarray],
        rows: np.ndarray | None = None,
        most: int = MOST,
    ) -> Self:
        """Return the design with other lengthscales of smooth functions of several features.

        At most `most` inducing points are chosen among rows (n, D); without these they remain.
        """
        surfaces = {}
        for term in self.terms:
            if term.joint:
                scales = lengthscales[term.name]
                if rows is None:
                    points = self.surfaces[term.name].points
                else:
                    points = inducing_points(self.places(term, rows), scales, most)
                surfaces[term.name] = Surface(points, scales)
        return replace(self, surfaces=surfaces)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the columns (n, P) of all terms, one after another."""
        return np.hstack([np.zeros((len(x), 0)), *(self.columns(term, x) for term in self.terms)])

    @property
    def size(self) -> int:
        """Number of columns P."""
        return self.spans()[-1].stop if self.terms else 0

    def spans(self) -> list[slice]:
        """Return the places of each term among the columns."""
        sizes = []
        for term in self.terms:
            of_features = [self.feature(name) for name in term.features]
            size = np.prod([f.contrasts.shape[1] if f.category else 1 for f in of_features])
            surface = self.surfaces.get(term.name)
            own = BASIS if surface is None else len(surface.points)
            sizes.append(int(size) * (own if term.smooth else 1))
        ends = np.cumsum([0, *sizes]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]


def _products(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    columns = one.shape[1] * other.shape[1]
    return (one[:, :, None] * other[:, None, :]).reshape(len(one), columns)


def default_terms(cohort: Cohort) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of shared and personal terms that suit a cohort.

    Shared are the line of each feature or the contrasts of its categories; for categories that are
    constant within users also their lines in time; and, if there are at least `CURVED` different
    times, smooth functions of time, for each level of these categories, too. Personal are the level
    and the line in time, and a smooth function of time if users have at least `CURVED` rows on
    average.
    """
    groups = [f.name for f in _features(cohort) if f.category and _constant(cohort, f.name)]
    shared, personal = list(cohort.features), [LEVEL]
    time = cohort.time
    if time is not None:
        shared += [f"{time}:{group}" for group in groups]
        personal.append(time)
        times = np.concatenate(cohort.inputs)[:, cohort.features.index(time)]
        if len(np.unique(times)) >= CURVED:
            curve = f"s({time})"
            shared += [curve, *(f"{curve}:{group}" for group in groups)]
            if len(times) >= CURVED * cohort.n_users:
                personal.append(curve)
    return tuple(shared), tuple(personal)


#: Smallest number of times, and of rows of a user, with which there are smooth functions of time.
CURVED = 5


def _features(cohort: Cohort) -> list[Feature]:
    return [Feature.of(cohort, name) for name in cohort.features]


def _constant(cohort: Cohort, name: str) -> bool:
    d = cohort.features.index(name)
    return all(np.ptp(x[:, d]) == 0 for x in cohort.inputs)


def designs(
    cohort: Cohort, shared: Sequence[str], personal: Sequence[str]
) -> tuple[Design, Design]:
    """Return the designs of shared and personal terms.

    Raises
    ------
    InputError
        If a term is unknown, is there twice, or can't be in the model.
    """
    features = tuple(_features(cohort))
    if LEVEL in cohort.features:
        raise InputError(f"{LEVEL!r} is the name of a term. Rename the feature.")
    common = tuple(Term.parse(name) for name in (LEVEL, *(n for n in shared if n != LEVEL)))
    own = tuple(Term.parse(name) for name in personal)
    for which, terms in (("shared", common), ("personal", own)):
        names = [term.name for term in terms]
        if len({*names}) < len(names):
            raise InputError(f"The {which} terms {', '.join(names)} repeat one. Give each once.")
        for term in terms:
            _check(term, which, features)
    return Design(features, common), Design(features, own)


def _check(term: Term, which: str, features: Sequence[Feature]) -> None:
    by_name = {feature.name: feature for feature in features}
    for name in term.every:
        if name not in by_name:
            raise InputError(
                f"The {which} term {term.name!r} isn't valid: there is no feature {name!r}. Use "
                f"names of features ({', '.join(by_name)}), products like 'arm:day', and smooth "
                "functions like 's(day)' and 's(day):arm'."
            )
    for name in term.smooth:
        if len(by_name[name].values) > (2 if term.joint else 0):
            raise InputError(
                f"The {which} term {term.name!r} isn't valid: {name} is a category. Give a smooth "
                "function of features with numbers, or of several ones with at most two levels."
            )
    if which == "personal" and len(term.features) + bool(term.smooth) > 1:
        raise InputError(
            f"The personal term {term.name!r} isn't valid. Personal terms are 'level', features, "
            "and smooth functions."
        )
