"""Files of evolutions: human-readable JSON with a schema version and a content hash."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from kem_pymc._system.files import write_atomically
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.schema import LARGEST_LOG, check, is_deep
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.mean_process import MeanProcess
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool

#: Version 2 added the part that users share.
SCHEMA_VERSION = 2


def fields(data: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """Return the fields of the ``Evolutions`` that plain data describe; `path` is for messages.

    Raises
    ------
    InputError
        If a base kernel isn't registered or has other hyperparameters, a cluster has a wrong number
        of values or values out of range, or the part that users share is inconsistent.
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
    coordinates = {label: Coordinates(pool, own) for label, own in named.items()}
    for label, names in data["coordinates"].items():
        if list(coordinates[label].names) != names:
            raise InputError(
                f"The hyperparameters of {label} aren't those with which {path} was written. "
                "Register the base kernels of that study."
            )
    _check_logs(data["clusters"], coordinates)
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
        "shared": None if shared is None else _shared(shared, pool.dimension),
        "final": fields(data["final"], path) if "final" in data else None,
        "unshared": fields(data["unshared"], path) if "unshared" in data else None,
        "concentration": tuple(alpha) if isinstance(alpha, list) else alpha,
        "population": {n: tuple(values) for n, values in data.get("population", {}).items()},
        **{name: data[name] for name in names},
    }


def _check_logs(clusters: list[dict[str, Any]], coordinates: dict[str, Coordinates]) -> None:
    for i, cluster in enumerate(clusters):
        own = coordinates[cluster["child"]]
        if len(cluster["values"]) != len(own):
            raise InputError(
                f"clusters[{i}] has {len(cluster['values'])} values and {len(own)} coordinates. "
                "Give one value per coordinate."
            )
        logs = np.abs(cluster["values"])[own.positive]
        if logs.max() > LARGEST_LOG:
            raise InputError(
                f"clusters[{i}] has a log whose absolute value {logs.max():.3g} is too large. "
                f"Give logs between plus and minus {LARGEST_LOG:.0f}."
            )


def _shared(data: Mapping[str, Any], dimension: int) -> MeanProcess:
    kernel = data["kernel"]
    hyperparameters = Composition.parse(kernel["composition"], dimension).hyperparameters
    for h in hyperparameters:
        value = kernel["hyperparameters"].get(h.name)
        if value is None or (h.positive and not value > 0):
            raise InputError(
                f"The shared part has the value {value} for {h.name}. "
                "Give a number, positive unless it is a shift."
            )
    widths = {len(row) for row in kernel["inducing"]}
    if widths - {dimension}:
        raise InputError(
            f"The shared part has inducing points with {max(widths)} coordinates. "
            f"Give {dimension}, one for each feature."
        )
    process = MeanProcess.from_dict(data, dimension)
    if process.kernel.size != len(process.weights):
        raise InputError(
            f"The shared part has {len(process.weights)} weights and {process.kernel.size} basis "
            "functions. Give one weight for each function."
        )
    return process


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


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file of evolutions, after checking that it is valid and unchanged.

    Raises
    ------
    InputError
        If the file is missing or doesn't contain evolutions, was written by a newer version, was
        changed, or has an invalid entry; the message states which.
    """
    try:
        data = json.loads(path.read_text("utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise InputError(
            f"The evolutions in {path} can't be read ({error.strerror}). "
            "Give the file that Evolutions.save wrote."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not a JSON file. Give the file that Evolutions.save wrote."
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int or version < 1 or "sha256" not in data:
        raise InputError(
            f"{path} doesn't contain evolutions. Give the file that Evolutions.save wrote."
        )
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} was written by a newer version of kem_pymc{_written_by(data)}. "
            "Update kem_pymc to read it."
        )
    if is_deep(data):
        raise InputError(
            f"{path} isn't a valid file of evolutions (its entries are nested too deeply). "
            "Restore the file, or give another that Evolutions.save wrote."
        )
    try:
        unchanged = data.pop("sha256") == content_hash(data)
    except ValueError:  # a number that JSON can't represent, such as 1e999
        unchanged = False
    if not unchanged:
        raise InputError(
            f"{path} was changed after it was written. Save the evolutions again, or restore it."
        )
    check(data, path)
    return data


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def _written_by(data: Mapping[str, Any]) -> str:
    """Return the version of kem_pymc that wrote a file, as text for messages; "" if unknown."""
    versions = data.get("versions")
    version = versions.get("kem-pymc") if isinstance(versions, dict) else None
    known = isinstance(version, str) and re.fullmatch(r"[\w.+]{1,40}", version)
    return f" ({version})" if known else ""
