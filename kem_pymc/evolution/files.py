"""Files of evolutions: JSON that people can read, with a schema version and a content hash."""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from kem_pymc.errors import InputError

SCHEMA_VERSION = 1


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
