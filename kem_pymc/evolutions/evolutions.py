"""Evolutions learned from the pilot users: which kernels follow which, and their typical values."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from kem_pymc._system.display import Display, Displayed, Listing, from_to, number, plural, some
from kem_pymc._system.options import checked
from kem_pymc.data.feature_distribution import FeatureDistribution
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions import files
from kem_pymc.evolutions.children import TAILS, Child, children_below, shares_of
from kem_pymc.evolutions.clusters import Cluster, KernelSummary, summarise
from kem_pymc.evolutions.from_posterior import (
    read_clusters,
    read_concentration,
    read_distribution,
    read_population,
    read_shared,
    study_settings,
)
from kem_pymc.evolutions.novelty import Novelty
from kem_pymc.gp.calibration import Calibration, Outcome
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.kernels.prose import named
from kem_pymc.population.mean_process import MeanProcess

if TYPE_CHECKING:
    from xarray import DataTree

#: Displays show at most this many parents, this many children of each with at least this
#: probability, and this many features.
PARENTS, CHILDREN, LEAST, FEATURES = 6, 5, 0.02, 15

#: Setting of evolutions that states in what the chains disagree from which they were learned, and
#: advice on that.
DISAGREE = "chains_disagree"

#: Maximum number of characters of a message on the content of a file.
MESSAGE = 500


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Evolutions(Displayed):
    """Learned evolutions of kernels, from which kernels are selected for new users.

    Parameters
    ----------
    pool : CandidatePool
    scaling : Scaling
        Transformation from the users' units to those of the hyperparameters; learned from pilot
        users only.
    features, target : tuple of str (D,), str
        Names of the columns.
    levels : dict of str to tuple of str, optional
        Names of the levels of categorical features, by feature.
    clusters : tuple of Cluster
        Clusters of all posterior draws.
    n_draws : int
        Number of posterior draws.
    concentration : float or tuple of float (n_draws,)
        Concentration alpha of every parent's process; in every draw, if it was learned.
    population : dict of str to tuple of float (n_draws,), optional
        Population parameters of the priors, by name, in every draw.
    priors : dict, optional
        The study's priors, as returned by `Priors.to_dict`.
    settings, versions : dict, optional
        Settings with which the posterior was sampled, and versions of the packages used.
    shared : MeanProcess, optional
        Mean process that all users share, in scaled units, given all pilot users.
    final : Evolutions, optional
        Final compositions of the pilot users, from the posterior of :func:`kem_pymc.final_model`.
        At deployment, kernels that are new below a parent are drawn from these.
    unshared : Evolutions, optional
        Final compositions of the pilot users in a model in which they share nothing, from the
        posterior of :func:`kem_pymc.final_model` with ``shared=None``. They are used for new users
        whose data don't follow the shared mean process.
    distribution : FeatureDistribution, optional
        Distribution of pilot users' features, over which predictions integrate where a feature
        other than the time is missing.
    novelty : Novelty, optional
        Weight of the pilot users' final compositions at each number of points, from
        :func:`kem_pymc.calibrate`.
    calibration : Calibration, optional
        How far intervals have to reach, from :func:`kem_pymc.calibrate`.
    held_out : tuple of Outcome
        How well the next time steps of pilot users were predicted from what was learned without
        each of them, from :func:`kem_pymc.calibrate`.

    Raises
    ------
    InputError
        If there are no clusters, names, values or numbers of draws don't match, or `final` or
        `unshared` don't fit the other arguments.
    """

    pool: CandidatePool
    scaling: Scaling
    features: tuple[str, ...]
    target: str
    clusters: tuple[Cluster, ...]
    n_draws: int
    concentration: float | tuple[float, ...] = 1.0
    population: dict[str, tuple[float, ...]] = field(default_factory=dict)
    priors: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    shared: MeanProcess | None = None
    final: "Evolutions | None" = None
    unshared: "Evolutions | None" = None
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    distribution: FeatureDistribution | None = None
    novelty: Novelty | None = None
    calibration: Calibration | None = None
    held_out: tuple[Outcome, ...] = ()

    def __post_init__(self) -> None:
        if not self.clusters:
            raise InputError("There are no clusters to learn from. Sample the posterior first.")
        if len(self.features) != self.pool.dimension:
            raise InputError(
                f"The number of features is {len(self.features)}, and that of dimensions "
                f"{self.pool.dimension}. "
                "Name one feature per dimension of the pool."
            )
        if np.shape(self.concentration) not in ((), (self.n_draws,)):
            raise InputError(
                f"The number of concentrations is {np.size(self.concentration)}, and that of draws "
                f"{self.n_draws}. "
                "Give one for all draws, or one for each."
            )
        if self.final is not None and self.final.pool != self.pool:
            raise InputError(
                "The pilot users' final compositions were learned with other candidates. "
                "Sample kem.final_model with the same pool."
            )
        self._check_unshared()
        if self.distribution is not None and self.distribution.features != self.features:
            raise InputError(
                "The distribution of features is one of other features. Learn it from the same "
                "pilot users."
            )
        for name, values in self.population.items():
            if len(values) != self.n_draws:
                raise InputError(
                    f"The number of values of {name} is {len(values)}, and that of draws "
                    f"{self.n_draws}. "
                    "Give one value for each draw."
                )
        lengths = {c: len(Coordinates(self.pool, c)) for c in {c.child for c in self.clusters}}
        for cluster in self.clusters:
            if len(cluster.values) != lengths[cluster.child] or cluster.draw >= self.n_draws:
                raise InputError(
                    f"A cluster of {cluster.child} doesn't fit the pool or the number of draws. "
                    "Give one value per coordinate, and count draws from 0."
                )

    def _check_unshared(self) -> None:
        other = self.unshared
        if other is None:
            return
        same = other.pool == self.pool and other.scaling.to_dict() == self.scaling.to_dict()
        if (
            not same
            or self.shared is None
            or (other.shared, other.parents) != (None, (Composition(),))
        ):
            raise InputError(
                "unshared= has to contain final compositions without the shared part, with the "
                "same pool and scaling, and is only for evolutions with a shared part. "
                "Sample kem.final_model(cohort, pool)."
            )

    @classmethod
    def from_posterior(
        cls,
        idata: "DataTree",
        max_draws: int = 200,
        weights: npt.ArrayLike | None = None,
        *,
        final: "DataTree | None" = None,
        unshared: "DataTree | None" = None,
        without: int | None = None,
    ) -> Self:
        """Extract the evolutions from the posterior of an ``EvolutionModel``.

        Parameters
        ----------
        idata : DataTree
            Posterior with the groups ``posterior`` and ``constant_data``, as returned by
            ``pm.sample``.
        max_draws : int
            Maximum number of draws; more are thinned, evenly over all chains.
        weights : array_like, shape (chains,), optional
            Weights of the chains, as returned by :func:`kem_pymc.diagnostics.stack`: each
            chain gets its share of the draws.
        final : DataTree, optional
            Posterior of :func:`kem_pymc.final_model` of the same pilot users, for their final
            compositions.
        unshared : DataTree, optional
            Posterior of :func:`kem_pymc.final_model` with ``shared=None``, in which users share
            nothing.
        without : int, optional
            Index of a pilot user to leave out, for whom selections are then almost those of a new
            user. The shared mean process is that of the other users' data. The user belongs to no
            cluster, but draws aren't weighted anew: the user's data had a part in the other users'
            clusters, in what hyperparameters are likely in them, and in the scaling.

        Raises
        ------
        InputError
            If `idata` isn't the posterior of an evolution model, `max_draws` is below 1, the
            weights aren't one non-negative number for each chain, or `final` or `unshared` don't
            fit `idata`.
        """
        settings = study_settings(idata)
        shared, process = read_shared(idata, settings), None
        if shared is not None:
            process = shared.process if without is None else shared.without[without]
        pool = CandidatePool(settings.pop("pool"), settings.pop("dimension"))
        clusters, kept = read_clusters(idata, pool, max_draws, weights, without)
        concentration: float | tuple[float, ...] = settings["concentration"]
        if isinstance(concentration, dict):  # the prior, which stays among the settings
            alpha = read_concentration(idata, settings).ravel()[kept]
            concentration = tuple(alpha.tolist())
        else:
            del settings["concentration"]
        population = {
            name: tuple(values.ravel()[kept].tolist())
            for name, values in read_population(idata, settings).items()
        }
        ends, alone = (
            None if other is None else cls.from_posterior(other, max_draws, without=without)
            for other in (final, unshared)
        )
        return cls(
            pool=pool,
            scaling=Scaling.from_dict(settings.pop("scaling")),
            features=tuple(settings.pop("features")),
            target=settings.pop("target"),
            levels={name: tuple(texts) for name, texts in settings.pop("levels", {}).items()},
            clusters=clusters,
            n_draws=len(kept),
            concentration=concentration,
            population=population,
            priors=settings.pop("priors"),
            versions=settings.pop("versions"),
            shared=process,
            # Those of the others are the same.
            final=None if ends is None else replace(ends, shared=None, distribution=None),
            unshared=None if alone is None else replace(alone, distribution=None),
            distribution=read_distribution(idata, without),
            settings=settings,
        )

    @cached_property
    def _by_parent(self) -> dict[Composition, list[Cluster]]:
        groups: dict[Composition, list[Cluster]] = {}
        for cluster in self.clusters:
            groups.setdefault(cluster.parent, []).append(cluster)
        return groups

    @cached_property
    def _members(self) -> dict[Composition, np.ndarray]:
        """Number of members of each parent's process in each draw (n_draws,)."""
        members = {parent: np.zeros(self.n_draws) for parent in self._by_parent}
        for cluster in self.clusters:
            members[cluster.parent][cluster.draw] += cluster.count
        return members

    @cached_property
    def _alpha(self) -> np.ndarray:
        """alpha in each draw (n_draws,)."""
        return np.broadcast_to(self.concentration, self.n_draws)

    @property
    def typical_population(self) -> dict[str, float]:
        """Posterior median of every population parameter, by name.

        Medians don't depend on whether they are taken of values or of their logs.
        """
        return {name: float(np.median(values)) for name, values in self.population.items()}

    @property
    def noise_floor(self) -> float:
        """Minimum noise variance of fits, in scaled units, from the study's priors."""
        return float(self.priors.get("noise_floor", NOISE_FLOOR))

    def with_noise_floor(self, noise_floor: float) -> Self:
        """Return the same evolutions with another minimum noise variance of fits."""
        priors = {**self.priors, "noise_floor": noise_floor}
        unshared = self.unshared and self.unshared.with_noise_floor(noise_floor)
        return replace(self, priors=priors, unshared=unshared)

    @cached_property
    def _cache(self) -> dict[Any, Any]:
        return {}

    @property
    def parents(self) -> tuple[Composition, ...]:
        """Compositions that some dataset had one time step earlier, the most frequent first."""
        return tuple(sorted(self._members, key=lambda p: (-self._members[p].sum(), p)))

    def children(self, parent: Composition | str) -> tuple[Child, ...]:
        """Return the compositions that followed a parent, the most probable first.

        The tuple is empty if no pilot user had the parent.
        """
        parent = self._composition(parent)
        if parent not in self._cache:
            below = self._by_parent.get(parent, ())
            members = self._members.get(parent, np.zeros(self.n_draws))
            children = children_below(below, members, self._alpha, self.noise_floor)
            self._cache[parent] = tuple(
                sorted(children, key=lambda c: (-c.probability, c.composition))
            )
        return self._cache[parent]

    def probability_of_new(self, parent: Composition | str) -> float:
        """Return the predictive probability of a kernel not seen below this parent.

        It is the posterior mean of alpha / (alpha + N_parent) over the draws in which the parent
        has members, and one if no pilot user had the parent.
        """
        parent = self._composition(parent)
        if parent not in self._members:
            return 1.0
        draws = self.draws_with(parent)
        alpha = self._alpha[draws]
        return float(np.mean(alpha / (alpha + self._members[parent][draws])))

    def typical(self, composition: Composition | str) -> KernelSummary | None:
        """Return the summary of a composition's clusters below any parent; None if it has none."""
        composition = self._composition(composition)
        key = "typical", composition
        if key not in self._cache:
            clusters = [c for c in self.clusters if c.child == composition]
            self._cache[key] = summarise(clusters, self.noise_floor) if clusters else None
        return self._cache[key]

    def shares(self, parent: Composition | str, child: Composition | str) -> np.ndarray:
        """Return the probability of a child in each draw with the parent, in the order of draws.

        Their mean is the child's :attr:`~kem_pymc.evolutions.children.Child.probability`.
        """
        parent, child = self._composition(parent), self._composition(child)
        counts = np.zeros(self.n_draws)
        for cluster in self._by_parent.get(parent, ()):
            if cluster.child == child:
                counts[cluster.draw] += cluster.count
        members = self._members.get(parent, np.zeros(self.n_draws))
        return shares_of(counts, members, self._alpha)

    def draws_with(self, parent: Composition | str) -> np.ndarray:
        """Return the draws in which some dataset had this composition one time step earlier."""
        members = self._members.get(self._composition(parent), np.zeros(self.n_draws))
        return np.flatnonzero(members)

    def single_draw(self, index: int) -> "Evolutions":
        """Return the evolutions of one posterior draw.

        Raises
        ------
        InputError
            If there is no such draw.
        """
        if not 0 <= index < self.n_draws:
            raise InputError(f"There is no draw {index}. Give 0 to {self.n_draws - 1}.")
        key = "draw", index
        if key not in self._cache:
            alpha = self.concentration
            self._cache[key] = replace(
                self,
                clusters=tuple(replace(c, draw=0) for c in self.clusters if c.draw == index),
                n_draws=1,
                concentration=alpha[index : index + 1] if isinstance(alpha, tuple) else alpha,
                population={name: (values[index],) for name, values in self.population.items()},
            )
        return self._cache[key]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per evolution, with the 90 % interval of its probability."""
        names = ["parent", "child", "probability", "lower", "upper", "count", "occurrence"]
        rows = [
            (
                *(self.label(p), self.label(c.composition), c.probability),
                *(*c.interval, c.count, c.occurrence),
            )
            for p in self.parents
            for c in self.children(p)
        ]
        return pd.DataFrame(rows, columns=names)

    def label(self, composition: Composition) -> str:
        """Return a composition's label, with ``ARD`` for the product over all dimensions."""
        return composition.label(self.pool.dimension)

    def _composition(self, composition: Composition | str) -> Composition:
        if isinstance(composition, str):
            return Composition.parse(composition, self.pool.dimension)
        return composition

    def __repr__(self) -> str:
        return (
            f"Evolutions from {plural(self.n_draws, 'draw')}, "
            f"{plural(len(self.parents), 'parent')}: "
            f"{', '.join(self.features)} -> {self.target}"
        )

    def _likely(self, parent: Composition) -> list[Child]:
        return [c for c in self.children(parent)[:CHILDREN] if c.probability >= LEAST]

    def _display(self) -> Display:
        rows: list[tuple[str | float, ...]] = []
        for parent in self.parents[:PARENTS]:
            first = named(parent, self.features)
            for c in self._likely(parent):
                interval = "{:.2f} to {:.2f}".format(*c.interval)
                child = named(c.composition, self.features)
                rows.append((first, child, c.probability, interval, c.count, c.occurrence))
                first = ""
        total = sum(len({c.child for c in clusters}) for clusters in self._by_parent.values())
        alpha = number(float(self._alpha.mean()))
        if isinstance(self.concentration, tuple):
            alpha += _interval(self._alpha)
        columns = ("parent", "child", "probability", "90 % interval", "datasets", "in draws")
        forms = {"probability": ".2f", "datasets": ".1f", "in draws": ".2f"}
        more = f"{len(rows)} of {total} evolutions are shown, the most probable below each of the "
        more += f"{min(PARENTS, len(self.parents))} most frequent of {len(self.parents)} parents."
        return Display(
            f"Evolutions from {plural(self.n_draws, 'draw')}",
            {
                "Target": f"{self.target}, from {some(self.features, FEATURES)}",
                "Concentration": alpha,
                **{
                    name: number(self.typical_population[name]) + _interval(values)
                    for name, values in self.population.items()
                },
            },
            [Listing(columns, rows, forms, more=more if len(rows) < total else "")],
            [] if self.calibration is None else [f"{self.calibration}."],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evolutions) and self.content_hash == other.content_hash

    def to_dict(self) -> dict[str, Any]:
        """Return all content as plain data, for files."""
        alpha, label = self.concentration, self.label
        population = {name: list(values) for name, values in self.population.items()}
        levels = {name: list(texts) for name, texts in self.levels.items()}
        children = sorted({c.child for c in self.clusters})
        return {
            "schema_version": files.SCHEMA_VERSION,
            "dimension": self.pool.dimension,
            "pool": self.pool.names,
            "features": list(self.features),
            **({"levels": levels} if levels else {}),
            "target": self.target,
            "scaling": self.scaling.to_dict(),
            "concentration": list(alpha) if isinstance(alpha, tuple) else alpha,
            **({"population": population} if population else {}),
            "priors": self.priors,
            "settings": self.settings,
            "versions": self.versions,
            **({} if self.shared is None else {"shared": self.shared.to_dict()}),
            **({} if self.distribution is None else {"distribution": self.distribution.to_dict()}),
            **({} if self.final is None else {"final": self.final.to_dict()}),
            **({} if self.unshared is None else {"unshared": self.unshared.to_dict()}),
            **({} if self.novelty is None else {"novelty": self.novelty.to_dict()}),
            **({} if self.calibration is None else {"calibration": self.calibration.to_dict()}),
            **({"held_out": [one._asdict() for one in self.held_out]} if self.held_out else {}),
            "n_draws": self.n_draws,
            "coordinates": {label(c): Coordinates(self.pool, c).names for c in children},
            "clusters": [
                {
                    **vars(c),
                    "parent": label(c.parent),
                    "child": label(c.child),
                    "values": list(c.values),
                }
                for c in self.clusters
            ],
        }

    @property
    def content_hash(self) -> str:
        """SHA-256 of the content, as stored in files."""
        return files.content_hash(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Write the evolutions to a human-readable JSON file, which :meth:`load` reads.

        The file is written atomically.

        Raises
        ------
        InputError
            If the folder doesn't exist or can't be written to.
        """
        files.write(self.to_dict(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is missing, doesn't contain evolutions, was written by a newer version, was
            changed, or has content that this version can't read; the message states the file and
            what is wrong with it.
        """
        file = files.EvolutionsFile.read(Path(path))
        try:
            final, unshared = (
                None if part is None else cls(**part.fields(path))
                for part in (file.final, file.unshared)
            )
            return cls(**file.fields(path), final=final, unshared=unshared)
        except InputError as error:
            if str(path) in str(error):
                raise
            message = shorten(str(error), MESSAGE, placeholder="...")  # it may quote the file
            raise InputError(f"In {path}: {message}") from error


def _interval(values: np.ndarray | tuple[float, ...]) -> str:
    """Return the 90 % interval of the values of all draws, as text."""
    low, high = np.quantile(values, TAILS)
    return f" (90 % interval {from_to(float(low), float(high))})"
