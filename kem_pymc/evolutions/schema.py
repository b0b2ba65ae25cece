"""Schemas of the files of evolutions and runs: types, ranges and sizes of all entries.

The maximum sizes are far beyond those of any study. They prevent files from unknown sources from
taking all memory, and their numbers from overflowing when they are squared.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from kem_pymc._system.files import first_fault
from kem_pymc.data.validation import LARGEST
from kem_pymc.errors import InputError

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
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
#: A positive number whose log has at most the absolute value :data:`LARGEST_LOG`.
Positive = Annotated[float, Field(ge=1e-130, le=1e130)]
Share = Annotated[float, Field(ge=0, le=1)]

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
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Transform(_Strict):
    name: Literal["sqrt", "log", "log1p", "yeo-johnson"]
    parameter: Annotated[float, Field(ge=0, le=LARGEST)]


class _Scaling(_Strict):
    feature_low: list[Number]
    feature_high: list[Number]
    target_mean: Number
    target_sd: Positive
    transform: _Transform | None = None


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


class _Shares(BaseModel):
    """Schema of the setting ``shared``: the entries that reports show; others are allowed."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    shares: dict[Name, Number] = {}
    relevance: dict[Name, list[Number]] = {}


class _Settings(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    shared: _Shares | None = None
    likelihood_power: Number = 1.0


class _Kernel(_Strict):
    composition: Text
    hyperparameters: dict[Text, Number]
    inducing: Annotated[list[list[Number]], Field(max_length=FEATURES)]


class _Shared(_Strict):
    kernel: _Kernel
    weights: Annotated[list[Number], Field(max_length=2 * FEATURES)]
    root: list[list[Number]]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        rows = [len(row) for row in self.root]
        if rows != list(range(1, len(self.weights) + 1)):
            raise ValueError("has to contain a triangular root with one row for each weight")
        return self


class _Cluster(_Strict):
    draw: Annotated[int, Field(ge=0, lt=DRAWS)]
    parent: Text
    child: Text
    count: Annotated[int, Field(ge=1, le=MEMBERS)]
    values: Annotated[list[Number], Field(min_length=1, max_length=CANDIDATES)]


class _Ended(_Strict):
    schema_version: Annotated[int, Field(ge=1)]
    dimension: Annotated[int, Field(ge=1, le=FEATURES)]
    pool: Annotated[list[Text], Field(min_length=1, max_length=CANDIDATES)]
    features: Annotated[list[Name], Field(max_length=FEATURES)]
    levels: Levels = {}
    target: Name
    scaling: _Scaling
    concentration: Concentration
    population: dict[Name, list[Number]] = {}
    priors: _Priors
    settings: _Settings
    versions: dict[Name, Text]
    shared: _Shared | None = None
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
            raise ValueError("has to contain levels of its own features only")
        if set(self.coordinates) != {cluster.child for cluster in self.clusters}:
            raise ValueError("has to contain coordinates of exactly the children in its clusters")
        return self


class _Evolutions(_Ended):
    final: _Ended | None = None
    unshared: _Ended | None = None


class _OfPosterior(_Settings):
    """Schema of the settings of a study that are stored in its posterior."""

    dimension: Annotated[int, Field(ge=1, le=FEATURES)]
    pool: Annotated[list[Text], Field(min_length=1, max_length=CANDIDATES)]
    features: Annotated[list[Name], Field(max_length=FEATURES)]
    levels: Levels = {}
    target: Name
    scaling: _Scaling
    priors: _Priors
    concentration: Annotated[
        Annotated[Positive, Tag("number")] | Annotated[dict[Name, Any], Tag("prior")],
        Discriminator(lambda value: "prior" if isinstance(value, dict) else "number"),
    ]
    versions: dict[Name, Text]


def check(data: Mapping[str, Any], path: object) -> None:
    """Check the entries of a file of evolutions; `path` is for messages.

    Raises
    ------
    InputError
        If an entry is missing, unknown, or has a wrong type, range or size; the message states
        which.
    """
    fault = _fault(_Evolutions, data)
    if fault:
        raise InputError(
            f"{path} isn't a valid file of evolutions ({fault}). "
            "Restore the file, or give another that Evolutions.save wrote."
        )


def check_settings(data: Mapping[str, Any], path: object) -> None:
    """Check the settings of a study that are stored in its posterior; see :func:`check`."""
    fault = _fault(_OfPosterior, data)
    if fault:
        raise InputError(f"The settings in {path} are invalid ({fault}). Restore the file.")


def _fault(schema: type[BaseModel], data: Mapping[str, Any]) -> str:
    """Return the error of the first invalid entry as text; "" if all entries are valid."""
    try:
        schema.model_validate(data)
    except ValidationError as error:
        return first_fault(error)
    return ""


def is_deep(data: Any, depth: int = DEPTH) -> bool:
    """Return whether lists and objects are nested to more than `depth` levels."""
    if not isinstance(data, dict | list):
        return False
    if depth == 0:
        return True
    items = data.values() if isinstance(data, dict) else data
    return any(is_deep(item, depth - 1) for item in items)
