"""Files of evolutions: JSON that people can read, with a schema version and a content hash."""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc.errors import InputError
from kem_pymc.evolution.clusters import Cluster
from kem_pymc.gp.mean_process import MeanProcess
from kem_pymc.gp.objective import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.scaling import Scaling

if TYPE_CHECKING:
    from kem_pymc.evolution.evolutions import Evolutions

#: 2 came with what users share.
SCHEMA_VERSION = 2


def as_data(evolutions: "Evolutions") -> dict[str, Any]:
    """Return evolutions as plain data."""
    alpha, label = evolutions.concentration, evolutions.label
    population = {name: list(values) for name, values in evolutions.population.items()}
    levels = {name: list(own) for name, own in evolutions.levels.items()}
    children = sorted({c.child for c in evolutions.clusters})
    return {
        "schema_version": SCHEMA_VERSION,
        "dimension": evolutions.pool.dimension,
        "pool": evolutions.pool.names,
        "features": list(evolutions.features),
        **({"levels": levels} if levels else {}),
        "target": evolutions.target,
        "scaling": evolutions.scaling.to_dict(),
        "concentration": list(alpha) if isinstance(alpha, tuple) else alpha,
        **({"population": population} if population else {}),
        "priors": evolutions.priors,
        "settings": evolutions.settings,
        "versions": evolutions.versions,
        **({} if evolutions.shared is None else {"shared": evolutions.shared.to_dict()}),
        **({} if evolutions.final is None else {"final": as_data(evolutions.final)}),
        **({} if evolutions.unshared is None else {"unshared": as_data(evolutions.unshared)}),
        "n_draws": evolutions.n_draws,
        "coordinates": {label(c): Coordinates(evolutions.pool, c).names for c in children},
        "clusters": [
            {
                "draw": c.draw,
                "parent": label(c.parent),
                "child": label(c.child),
                "count": c.count,
                "values": list(c.values),
            }
            for c in evolutions.clusters
        ],
    }


def fields(data: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """Return the fields of the evolutions that plain data describe; `path` is for messages.

    Raises
    ------
    InputError
        If this version's base kernels have other hyperparameters, or lack some.
    """
    try:
        pool = CandidatePool(data["pool"], data["dimension"])
    except InputError as error:
        raise InputError(
            f"The candidates in {path} can't be read: {str(error).split('. ')[0]}. "
            "Run the study file first, which registers its base kernels."
        ) from error
    labels = {label for c in data["clusters"] for label in (c["parent"], c["child"])}
    named = {label: Composition.parse(label, pool.dimension) for label in labels}
    for label, names in data["coordinates"].items():
        if list(Coordinates(pool, named[label]).names) != names:
            raise InputError(
                f"The hyperparameters of {label} are others than when {path} was written. "
                "Register the base kernels of that study."
            )
    clusters = (
        Cluster(c["draw"], named[c["parent"]], named[c["child"]], c["count"], tuple(c["values"]))
        for c in data["clusters"]
    )
    alpha = data["concentration"]
    shared = data.get("shared")
    names = "n_draws", "target", "priors", "settings", "versions"
    return {
        "pool": pool,
        "scaling": Scaling.from_dict(data["scaling"]),
        "features": tuple(data["features"]),
        "levels": {name: tuple(own) for name, own in data.get("levels", {}).items()},
        "clusters": tuple(clusters),
        "shared": None if shared is None else MeanProcess.from_dict(shared, pool.dimension),
        "final": fields(data["final"], path) if "final" in data else None,
        "unshared": fields(data["unshared"], path) if "unshared" in data else None,
        "concentration": tuple(alpha) if isinstance(alpha, list) else alpha,
        "population": {n: tuple(values) for n, values in data.get("population", {}).items()},
        **{name: data[name] for name in names},
    }


def content_hash(data: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain data, whatever the order of its entries."""
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
    """Write plain data and its hash; the file appears whole or not at all.

    Raises
    ------
    InputError
        If the folder doesn't exist or can't be written to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(readable({**data, "sha256": content_hash(data)}), "utf-8")
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"{path} can't be written ({error.strerror}). Give a file in an existing folder."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """Return what a file of evolutions holds, once it is known to be one and unchanged."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(
            f"The evolutions in {path} can't be read ({error.strerror}). "
            "Give the file that Evolutions.save wrote."
        ) from error
    except ValueError as error:
        raise InputError(
            f"{path} is not a JSON file. Give the file that Evolutions.save wrote."
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or version < 1 or "sha256" not in data:
        raise InputError(
            f"{path} doesn't hold evolutions. Give the file that Evolutions.save wrote."
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} was written by a newer version of kem_pymc. Update kem_pymc to read it."
        )
    if data.pop("sha256") != content_hash(data):
        raise InputError(
            f"{path} was changed after it was written. Save the evolutions again, or restore it."
        )
    return data
