"""Files of evolutions: human-readable JSON with a schema version and a content hash.

The maximum sizes are far beyond those of any study. They prevent files from unknown sources from
taking all memory, and their numbers from overflowing when they are squared.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from kem_pymc._system.files import STRICT, first_fault, write_atomically, written_by
from kem_pymc.data.feature_distribution import CELLS, VALUES, FeatureDistribution
from kem_pymc.data.scaling import Scaling
from kem_pymc.data.validation import LARGEST
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.novelty import Novelty
from kem_pymc.gp.calibration import FURTHEST, LEVELS, Calibration, Outcome
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.mean_process import MeanProcess

#: Version 2 added the part that users share, version 3 the distribution of features.
SCHEMA_VERSION = 3

#: Maximum depth of nested lists and objects.
DEPTH = 40

#: Maximum number of draws, of members of a cluster, and of characters of a text.
DRAWS, MEMBERS, CHARACTERS = 1_000_000, 1_000_000_000, 100_000

#: Maximum number of candidates, of features, and of clusters.
CANDIDATES, FEATURES, CLUSTERS = 100_000, 10_000, 10_000_000

#: Maximum absolute value of the logs of positive hyperparameters and of noise variances.
LARGEST_LOG = 300.0

Text = Annotated[str, Field(max_length=CHARACTERS)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
# Whole numbers stay whole numbers: the hash of the content is one of its text.
Number = Annotated[int | float, Field(ge=-LARGEST, le=LARGEST)]
#: A positive number whose log has at most the absolute value :data:`LARGEST_LOG`.
Positive = Annotated[int | float, Field(ge=1e-130, le=1e130)]
Share = Annotated[int | float, Field(ge=0, le=1)]

#: Names of categories, by feature.
Levels = dict[Name, Annotated[list[Text], Field(min_length=2, max_length=FEATURES)]]


def _kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "number"


#: One number for all draws, or a list of one number for each draw.
Concentration = Annotated[
    Annotated[Positive, Tag("number")] | Annotated[list[Positive], Tag("list")],
    Discriminator(_kind),
]


class _Strict(BaseModel):
    model_config = STRICT


class _Transform(_Strict):
    name: Literal["sqrt", "log", "log1p", "yeo-johnson"]
    parameter: Annotated[int | float, Field(ge=0, le=LARGEST)]


class _Family(_Strict):
    name: Literal["count", "binary", "binomial", "ordinal", "positive", "student"]
    parameters: list[Number] = []
    latent: list[Number] | None = None


class _Scaling(_Strict):
    feature_low: list[Number]
    feature_high: list[Number]
    target_mean: Number
    target_sd: Positive
    transform: _Transform | None = None
    family: _Family | None = None
    time_kind: Literal["numbers", "dates", "durations"] | None = None


class _Prior(_Strict):
    distribution: Annotated[str, Field(pattern=r"^[A-Z]\w{0,99}$")] | None = None
    parameters: list[Number | Name] = []
    text: Text | None = None

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.distribution is None) == (self.text is None):
            raise ValueError("has to contain either a distribution or a text")
        return self


class _BySize(_Strict):
    mu: list[Number]
    sigma: list[Positive]


class _Noise(_Strict):
    by_size: _BySize | None = None
    same: _Prior | None = None
    text: Text | None = None


class _Priors(_Strict):
    hyperparameters: dict[Name, _Prior] = {}
    noise: _Noise | None = None
    noise_without_parent: _Prior | None = None
    stay: Share = 1.0
    enter: dict[Text, Share] = {}
    scaling: Literal["none", "unit"] = "none"
    noise_floor: Positive = 1.0
    population: dict[Name, _Prior] = {}

    @model_validator(mode="after")
    def _has_stay(self) -> Self:
        if self.model_fields_set and "stay" not in self.model_fields_set:
            raise ValueError("has to contain stay, if it contains any entry")
        return self


class _Settings(_Strict, extra="allow"):
    likelihood_power: Number = 1.0


class _Feature(_Strict):
    name: Text
    labels: list[Text]
    values: list[Number]
    mean: Number
    sd: Number
    low: Number
    high: Number


class _VarianceFunction(_Strict):
    name: Text
    labels: list[Text] = []
    values: Annotated[list[Number], Field(min_length=1, max_length=VALUES)]
    log_factors: Annotated[list[Number], Field(min_length=1, max_length=VALUES)]


class _Shared(_Strict):
    features: list[_Feature]
    terms: Annotated[list[Text], Field(min_length=1, max_length=FEATURES)]
    smooths: dict[Text, list[Number]]
    points: dict[Text, Annotated[list[list[Number]], Field(max_length=FEATURES)]]
    weights: Annotated[list[Number], Field(max_length=2 * FEATURES)]
    root: list[list[Number]]
    variance_function: _VarianceFunction | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rows = [len(row) for row in self.root]
        if rows != list(range(1, len(self.weights) + 1)):
            raise ValueError("has to contain a triangular root with one row for each weight")
        return self

    def process(self, dimension: int) -> MeanProcess:
        """Return the mean process.

        Raises
        ------
        InputError
            If features, terms, kernels, inducing points or weights contradict each other.
        """
        if len(self.features) != dimension:
            raise InputError(
                f"The shared part has {len(self.features)} features. Give {dimension}."
            )
        process = MeanProcess.from_dict(self.model_dump())
        if process.design.size != len(process.weights):
            raise InputError(
                f"The shared part has {len(process.weights)} weights and {process.design.size} "
                "basis functions. Give one weight for each function."
            )
        return process


class _Margin(_Strict):
    values: Annotated[list[Number], Field(min_length=1, max_length=VALUES)]
    shares: Annotated[list[Share], Field(min_length=1, max_length=VALUES)]


class _FeatureDistribution(_Strict):
    margins: dict[Name, _Margin]
    cells: Annotated[list[list[Number]], Field(min_length=1, max_length=CELLS)]
    shares: Annotated[list[Share], Field(min_length=1, max_length=CELLS)]
    means: Annotated[list[list[Number]], Field(min_length=1, max_length=CELLS)]
    covariance: Annotated[list[list[Number]], Field(max_length=FEATURES)]
    time: Name | None = None


class _Cluster(_Strict):
    draw: Annotated[int, Field(ge=0, lt=DRAWS)]
    parent: Text
    child: Text
    count: Annotated[int, Field(ge=1, le=MEMBERS)]
    values: Annotated[list[Number], Field(min_length=1, max_length=CANDIDATES)]


class _Study(_Strict):
    """What files of evolutions and posteriors contain on a study."""

    dimension: Annotated[int, Field(ge=1, le=FEATURES)]
    pool: Annotated[list[Text], Field(min_length=1, max_length=CANDIDATES)]
    features: Annotated[list[Name], Field(max_length=FEATURES)]
    levels: Levels = {}
    target: Name
    scaling: _Scaling
    priors: _Priors
    versions: dict[Name, Text]


class _Novelty(_Strict):
    points: list[Annotated[int, Field(ge=1, le=MEMBERS)]]
    weights: list[Share]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        increase = self.points == sorted(set(self.points)) and len(self.points) > 0
        if not increase or len(self.points) != len(self.weights):
            raise ValueError("has to contain a weight for each of its numbers of points, in order")
        return self

    def novelty(self) -> Novelty:
        """Return the weights."""
        return Novelty(tuple(self.points), tuple(self.weights))


class _Calibration(_Strict):
    reaches: list[Annotated[int | float, Field(ge=0, le=FURTHEST)]]
    users: Annotated[int, Field(ge=1, le=MEMBERS)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.reaches) != len(LEVELS) or self.reaches != sorted(self.reaches):
            raise ValueError(f"has to contain {len(LEVELS)} reaches that increase with the level")
        return self

    def calibration(self) -> Calibration:
        """Return the calibration."""
        return Calibration(tuple(self.reaches), self.users)


class _Outcome(_Strict):
    user: Annotated[int, Field(ge=0, le=MEMBERS)]
    time_step: Annotated[int, Field(ge=1, le=MEMBERS)]
    points: Annotated[int, Field(ge=1, le=MEMBERS)]
    within50: Annotated[int, Field(ge=0, le=MEMBERS)]
    within80: Annotated[int, Field(ge=0, le=MEMBERS)]
    within95: Annotated[int, Field(ge=0, le=MEMBERS)]
    log_density: Number
    probit: Number
    distance: Number

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.within50 <= self.within80 <= self.within95 <= self.points:
            raise ValueError(
                "has to have no more points in a narrower interval than in a wider one"
            )
        if not abs(self.probit) <= self.distance <= FURTHEST * self.points:
            raise ValueError("has to have a distance between the probit and its largest value")
        return self


class EvolutionsFile(_Study):
    """Content of a file of evolutions, but for its hash."""

    schema_version: Annotated[int, Field(ge=1)]
    concentration: Concentration
    population: dict[Name, list[Number]] = {}
    settings: _Settings
    shared: _Shared | None = None
    distribution: _FeatureDistribution | None = None
    final: "EvolutionsFile | None" = None
    unshared: "EvolutionsFile | None" = None
    novelty: _Novelty | None = None
    calibration: _Calibration | None = None
    held_out: Annotated[list[_Outcome], Field(max_length=CLUSTERS)] = []
    n_draws: Annotated[int, Field(ge=1, le=DRAWS)]
    coordinates: Annotated[dict[Text, list[Text]], Field(max_length=CANDIDATES)]
    clusters: Annotated[list[_Cluster], Field(min_length=1, max_length=CLUSTERS)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        scaled = {len(self.scaling.feature_low), len(self.scaling.feature_high)}
        if {len(self.features), *scaled} != {self.dimension}:
            raise ValueError("has to contain one name and one range for each dimension")
        if len(set(self.features)) < self.dimension:
            raise ValueError("has to contain distinct names of features")
        if not set(self.levels) <= set(self.features):
            raise ValueError("has to contain levels of its features only")
        ends = [end for end in (self.final, self.unshared) if end is not None]
        if any(end.final or end.unshared for end in ends):
            raise ValueError("has to contain final compositions that have none themselves")
        if set(self.coordinates) != {cluster.child for cluster in self.clusters}:
            raise ValueError("has to contain coordinates of exactly the children in its clusters")
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the content of a file, after checking that it is valid and unchanged.

        Raises
        ------
        InputError
            If the file is missing or doesn't contain evolutions, was written by a newer version,
            was changed, or has an invalid entry; the message states which.
        """
        data = _data(path)
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InputError(
                f"{path} isn't a valid file of evolutions ({first_fault(error)}). "
                "Restore the file, or give another that Evolutions.save wrote."
            ) from error

    def fields(self, path: str | Path) -> dict[str, Any]:
        """Return the fields of the ``Evolutions`` in the file; `path` is for messages.

        Raises
        ------
        InputError
            If a base kernel isn't registered or has other hyperparameters, a cluster has a wrong
            number of values or values out of range, or the part that users share is inconsistent.
        """
        try:
            pool = CandidatePool(self.pool, self.dimension)
        except InputError as error:
            raise InputError(
                f"The candidates in {path} can't be read: {str(error).split('. ')[0]}. "
                "Run the study file first, which registers its base kernels."
            ) from error
        labels = {label for c in self.clusters for label in (c.parent, c.child)}
        named = {label: Composition.parse(label, pool.dimension) for label in labels}
        coordinates = {label: Coordinates(pool, kernel) for label, kernel in named.items()}
        for label, names in self.coordinates.items():
            if list(coordinates[label].names) != names:
                raise InputError(
                    f"The hyperparameters of {label} aren't those with which {path} was written. "
                    "Register the base kernels of that study."
                )
        for i, cluster in enumerate(self.clusters):
            positive, values = coordinates[cluster.child].positive, np.abs(cluster.values)
            if len(values) != len(positive) or values[positive].max() > LARGEST_LOG:
                raise InputError(
                    f"clusters[{i}] has {len(values)} values, up to {values.max():.3g}. Give "
                    f"{len(positive)}, with logs between plus and minus {LARGEST_LOG:.0f}."
                )
        alpha, features, distribution = self.concentration, tuple(self.features), None
        if self.distribution is not None:
            data = self.distribution.model_dump()
            distribution = FeatureDistribution.from_dict(data, features)
        return {
            "pool": pool,
            "scaling": Scaling.from_dict(self.scaling.model_dump(exclude_unset=True)),
            "features": features,
            "levels": {name: tuple(levels) for name, levels in self.levels.items()},
            "clusters": tuple(
                Cluster(c.draw, named[c.parent], named[c.child], c.count, tuple(c.values))
                for c in self.clusters
            ),
            "shared": None if self.shared is None else self.shared.process(pool.dimension),
            "distribution": distribution,
            "novelty": None if self.novelty is None else self.novelty.novelty(),
            "calibration": None if self.calibration is None else self.calibration.calibration(),
            "held_out": tuple(Outcome(**one.model_dump()) for one in self.held_out),
            "concentration": tuple(alpha) if isinstance(alpha, list) else alpha,
            "population": {name: tuple(values) for name, values in self.population.items()},
            "priors": self.priors.model_dump(exclude_unset=True),
            "settings": self.settings.model_dump(exclude_unset=True),
            **{name: getattr(self, name) for name in ("n_draws", "target", "versions")},
        }


class _Unexplained(_Strict):
    total: Positive
    within: Positive


class _SharedSettings(_Strict, extra="allow"):
    unexplained: _Unexplained


class StudySettings(_Study, _Settings):
    """The settings of a study that are stored in its posterior."""

    shared: _SharedSettings | None = None
    concentration: Annotated[
        Annotated[Positive, Tag("number")] | Annotated[dict[Name, Any], Tag("prior")],
        Discriminator(lambda value: "prior" if isinstance(value, dict) else "number"),
    ]


def check_settings(data: Mapping[str, Any]) -> None:
    """Check the settings of a study that are stored in its posterior.

    Raises
    ------
    InputError
        If an entry is missing or has a wrong type, range or size; the message states which.
    """
    try:
        StudySettings.model_validate(data)
    except ValidationError as error:
        raise InputError(
            f"The settings in the posterior are invalid, {first_fault(error)}. "
            "Sample it again with this version of kem_pymc, or restore the file."
        ) from error


def content_hash(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain data, independent of the order of its entries."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()


def readable(data: Mapping[str, Any]) -> str:
    """Return plain data as indented JSON, with one line for each item of a list of objects."""
    entries = []
    for name, value in data.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join(f"    {json.dumps(item)}" for item in value)
            text = f"[\n{lines}\n  ]"
        else:
            text = json.dumps(value, indent=2).replace("\n", "\n  ")
        entries.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def write(data: Mapping[str, Any], path: Path) -> None:
    """Write plain data and its hash to a file, atomically.

    Raises
    ------
    InputError
        If the folder doesn't exist or can't be written to.
    """
    text = readable({**data, "sha256": content_hash(data)})
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise InputError(
            f"{path} can't be written ({error.strerror}). Give a file in an existing folder."
        ) from error


def _data(path: Path) -> dict[str, Any]:
    """Return the entries of a file but its hash, which is compared with their hash."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(
            f"The evolutions in {path} can't be read ({error.strerror}). "
            "Give the file that Evolutions.save wrote."
        ) from error
    except (ValueError, RecursionError):  # it isn't JSON
        data = None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version < 1 or "sha256" not in data:
        raise InputError(
            f"{path} doesn't contain evolutions. Give the file that Evolutions.save wrote."
        )
    if version > SCHEMA_VERSION:
        writer = written_by(data, "versions", "kem-pymc")
        raise InputError(
            f"{path} was written by a newer version of kem_pymc{writer}. "
            "Update kem_pymc to read it."
        )
    if is_deep(data):
        raise InputError(
            f"{path} isn't a valid file of evolutions (its entries are nested too deeply). "
            "Restore the file, or give another that Evolutions.save wrote."
        )
    try:
        unchanged = data.pop("sha256") == content_hash(data)
    except ValueError:  # a number that JSON can't represent, such as 1e999 or NaN
        unchanged = False
    if not unchanged:
        raise InputError(
            f"{path} was changed after it was written. Save the evolutions again, or restore it."
        )
    return data


def is_deep(data: Any, depth: int = DEPTH) -> bool:
    """Return whether lists and objects are nested to more than `depth` levels."""
    if not isinstance(data, dict | list):
        return False
    if depth == 0:
        return True
    items = data.values() if isinstance(data, dict) else data
    return any(is_deep(item, depth - 1) for item in items)
