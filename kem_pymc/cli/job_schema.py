"""Schema of job files, and its validation."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Whole = Annotated[int, Field(ge=1, le=1_000_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Columns(_Strict):
    user: str | None
    time: str | None
    target: str | None
    features: list[str] | None
    batch: Whole | None
    skip_gaps: bool
    categorical: list[str] | None = None
    missing: Literal["error", "drop"] | None = None


class _ModelOf(_Strict):
    candidates: list[str] | None
    base: list[str] | None
    interactions: bool
    priors: Literal["default", "unit", "synthetic"] | None
    shared: str | None = None
    transform: Literal["sqrt", "log", "log1p", "yeo-johnson"] | None = None


class _Sampler(_Strict):
    draws: Whole | None
    tune: Annotated[int, Field(ge=0, le=1_000_000_000)] | None
    chains: Annotated[int, Field(ge=1, le=10_000)] | None
    random_seed: Annotated[int, Field(ge=0)] | None
    cores: Annotated[int, Field(ge=1, le=100_000)] | None


class _Job(_Strict):
    study: str | None
    data: str | None
    columns: _Columns
    model_of: _ModelOf
    feedback: Literal["cut", "joint"] | None
    sampler: _Sampler
    out: Annotated[str, Field(min_length=1)]
    directory: str
    command: str
    likelihood: Literal["cumulative", "sequential"] | None = None


def fault(data: dict[str, Any]) -> str:
    """Return a description of the first invalid entry of a job file; "" if all are valid."""
    try:
        job = _Job.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        return f"entry {where}: {first['msg'].rstrip('.')}"
    if (job.study is None) == (job.data is None):
        return "it names both a study file and a table, or neither"
    paths = (job.study, job.data, job.out, job.directory)
    return "a path contains a null character" if any("\0" in path for path in paths if path) else ""
