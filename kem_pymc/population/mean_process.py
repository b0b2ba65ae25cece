"""The mean process: the function that all users share, given pilot users' data.

It is H(x) w plus what the columns H can't represent, with the columns of a population model and a
normal distribution of their weights w, which has the mean and the covariance of their posterior
(:mod:`kem_pymc.population.posterior`). A smooth function is represented near the pilot users'
inputs. Elsewhere it has its prior variance: with phi(x) the columns times the prior sds of their
weights, v the variance and k the kernel of the function,

    r(x, z) = d(x) k(x, z) d(z),    d(x)^2 = 1 - phi(x) phi(x)' / v.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.population.design import Design, Feature, Surface, Term, similar, spectral_root
from kem_pymc.population.variance_function import MEAN, VarianceFunction


class Smooth(NamedTuple):
    """The kernel of a smooth term.

    Attributes
    ----------
    variance : float
    lengthscales : tuple of float
        In halves of the ranges of its features.
    """

    variance: float
    lengthscales: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class MeanProcess:
    """A normal distribution of the function that users share, in scaled units.

    Attributes
    ----------
    design : Design
    smooths : mapping of str to Smooth
        By name of the term.
    weights : ndarray, shape (P,)
        Mean of the weights.
    root : ndarray, shape (P, P)
        R, lower triangular, with R'R the covariance of the weights.
    variance_function : VarianceFunction, optional
        How the noise's variance depends on a feature or the mean.
    """

    design: Design
    smooths: Mapping[str, Smooth]
    weights: np.ndarray
    root: np.ndarray
    variance_function: VarianceFunction | None = None

    @classmethod
    def of_moments(
        cls,
        design: Design,
        smooths: Mapping[str, Smooth],
        weights: np.ndarray,
        covariance: np.ndarray,
    ) -> Self:
        """Return the process whose weights have this mean (P,) and covariance (P, P)."""
        # The covariance may be singular, which Cholesky's factorisation doesn't allow.
        values, vectors = np.linalg.eigh(covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        triangle = np.linalg.qr(root[:, ::-1], mode="r")[::-1, ::-1]
        return cls(design, smooths, weights, triangle)

    @property
    def dimension(self) -> int:
        """Number of features D."""
        return len(self.design.features)

    @property
    def used(self) -> frozenset[int]:
        """Numbers of the features on which the function depends."""
        names = {name for term in self.design.terms for name in term.every}
        if self.variance_function is not None:
            names.add(self.variance_function.name)
        return frozenset(d for d, f in enumerate(self.design.features) if f.name in names)

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return the mean (n,) at inputs (n, D)."""
        return self.design(x) @ self.weights

    def covariance(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the covariance (n, m) between inputs (n, D) and (m, D)."""
        one = self.design(x) @ self.root.T
        spread = one @ (one if z is x else self.design(z) @ self.root.T).T
        for term in self.design.terms:
            if term.smooth:
                spread += self._left_over(term, x, z)
            elif term.features:
                spread += self._new_level(term, x, z)
        return spread

    def noise_factors(self, x: np.ndarray) -> np.ndarray | None:
        """Return factors (n,) of the noise variance at inputs (n, D); None if all are one."""
        if self.variance_function is None:
            return None
        names = [feature.name for feature in self.design.features]
        name = self.variance_function.name
        values = x[:, names.index(name)] if name in names else self.mean(x)
        return self.variance_function(values)

    def _new_level(self, term: Term, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the covariance (n, m) of the difference of a category's unknown level.

        Its variance is the mean square of the differences of the known levels.
        """
        total = np.zeros((len(x), len(z)))
        if len(term.features) > 1 or not self.design.feature(term.features[0]).category:
            return total
        feature = self.design.feature(term.features[0])
        d = self.design.features.index(feature)
        unknown = [feature.unknown(points[:, d]) for points in (x, z)]
        if not (unknown[0].any() and unknown[1].any()):
            return total
        span = self.design.spans()[self.design.terms.index(term)]
        roots = np.column_stack([self.root[:, span].T, self.weights[span]])
        variance = float(((feature.contrasts @ roots) ** 2).sum(axis=1).mean())
        return variance * np.outer(*unknown) * (x[:, d, None] == z[:, d])

    def _left_over(self, term: Term, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the covariance (n, m) of what a smooth term's columns don't represent."""
        kernel = self.smooths[term.name]
        places = [self.design.places(term, points) for points in (x, z)]
        missing = [self._missing(term, values) for values in places]
        if not (missing[0].any() and missing[1].any()):
            return np.zeros((len(x), len(z)))
        between = similar(*(values / kernel.lengthscales for values in places))
        groups = [self.design.columns(Term("", term.features), points) for points in (x, z)]
        prior = kernel.variance * between * (groups[0] @ groups[1].T)
        return missing[0][:, None] * prior * missing[1]

    def _missing(self, term: Term, places: np.ndarray) -> np.ndarray:
        """Return d (n,) at places (n, d); zero within the range of a single feature."""
        basis = self.design.smooth_columns(term, places)
        surface = term.name in self.design.surfaces
        if not surface:
            basis = basis * spectral_root(np.array(self.smooths[term.name].lengthscales[0]))
        missing = np.sqrt(np.clip(1 - (basis**2).sum(axis=1), 0.0, 1.0))
        return missing if surface else np.where(np.abs(places[:, 0]) > 1, missing, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the process as plain data that can be written to a file."""
        rows = [row[: i + 1].tolist() for i, row in enumerate(self.root)]
        return describe(self) | {"weights": self.weights.tolist(), "root": rows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the process from the data of :meth:`to_dict`.

        Raises
        ------
        InputError
            If the data contradict each other.
        """
        root = np.zeros((len(data["root"]),) * 2)
        for i, row in enumerate(data["root"]):
            root[i, : i + 1] = row
        design, smooths, variances = read(data)
        return cls(design, smooths, np.array(data["weights"]), root, variances)


def describe(process: MeanProcess) -> dict[str, Any]:
    """Return everything of a mean process but its weights as plain data."""
    design, smooths, variances = process.design, process.smooths, process.variance_function
    plain = ["name", "labels", "mean", "sd", "low", "high"]
    features = [
        {name: getattr(f, name) for name in plain} | {"values": f.values.tolist()}
        for f in design.features
    ]
    return {
        "features": [f | {"labels": list(f["labels"])} for f in features],
        "terms": [term.name for term in design.terms],
        "smooths": {name: [s.variance, *s.lengthscales] for name, s in smooths.items()},
        "points": {name: s.points.tolist() for name, s in design.surfaces.items()},
        "variance_function": None if variances is None else variances.to_dict(),
    }


def read(
    data: Mapping[str, Any],
) -> tuple[Design, dict[str, Smooth], VarianceFunction | None]:
    """Return design, smooth terms' kernels and variance function of :func:`describe`.

    Raises
    ------
    InputError
        If the data contradict each other.
    """
    features = tuple(Feature.given(**values) for values in data["features"])
    terms = tuple(Term.parse(name) for name in data["terms"])
    known = {feature.name for feature in features}
    smooths, surfaces = {}, {}
    for term in terms:
        if not {*term.every} <= known:
            raise InputError(f"The shared part's term {term.name!r} has unknown features.")
        if not term.smooth:
            continue
        variance, *lengthscales = data["smooths"].get(term.name, [0.0])
        if len(lengthscales) != len(term.smooth) or not min(variance, *lengthscales) > 0:
            raise InputError(
                f"The shared part's term {term.name!r} lacks its variance and lengthscales. Give "
                "positive numbers."
            )
        smooths[term.name] = Smooth(variance, tuple(lengthscales))
        if term.joint or term.name in data["points"]:
            points = data["points"].get(term.name, [])
            if not points or {len(point) for point in points} != {len(lengthscales)}:
                raise InputError(
                    f"The shared part's term {term.name!r} lacks inducing points with "
                    f"{len(lengthscales)} coordinates."
                )
            surfaces[term.name] = Surface(np.array(points), np.array(lengthscales))
    variances = data.get("variance_function")
    if variances is not None:
        variances = VarianceFunction.from_dict(variances)
        if variances.name not in {*known, MEAN}:
            raise InputError(f"The noise depends on {variances.name!r}. Give a feature.")
    return Design(features, terms, surfaces), smooths, variances
