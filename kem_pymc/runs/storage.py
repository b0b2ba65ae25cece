"""Files of a chain's draws, called chunks.

Chunks are written atomically, and each contains everything that is needed to continue from its
last draw. Rows of members of the same cluster are equal and excluded candidates have NaN, so a
chunk stores each cluster once, and active hyperparameters only. The format is described in
docs/reference/runs.md.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from kem_pymc._system.files import write_atomically
from kem_pymc.errors import InputError

STATISTIC = "sample_stats."

Point = dict[str, np.ndarray]


@dataclass(frozen=True)
class Chunk:
    """Consecutive draws of a chain.

    Attributes
    ----------
    first : int
        Number of the first draw.
    points : dict
        Arrays (draw, user, time step, ...) by name; those of scalars are (draw,).
    statistics : dict
        Arrays (draw,) of sample statistics by name.
    generator : dict
        State of the bit generator after the last draw.
    seconds : float
        Time that the draws took, in seconds.
    """

    first: int
    points: Point
    statistics: dict[str, np.ndarray]
    generator: Mapping[str, Any]
    seconds: float

    def __len__(self) -> int:
        return len(self.points["structure"])

    @classmethod
    def of(
        cls,
        first: int,
        points: Sequence[Point],
        statistics: Sequence[Mapping[str, Any]],
        generator: Mapping[str, Any],
        seconds: float,
    ) -> "Chunk":
        """Return a chunk made of the points and statistics of single draws."""
        stacked = {name: np.stack([point[name] for point in points]) for name in points[0]}
        values = {name: np.array([draw[name] for draw in statistics]) for name in statistics[0]}
        return cls(first, stacked, values, generator, seconds)


def pack(points: Point) -> Point:
    """Return points without repetition: one row per cluster, and only active hyperparameters."""
    structure = points["structure"]
    first = _first_members(structure)
    values = points["hyperparameters"][first]
    small = structure.size == 0 or structure.max() <= np.iinfo(np.int16).max
    return {
        **points,
        "structure": structure.astype(np.int16) if small else structure,
        "hyperparameters": values[~np.isnan(values)],
        "noise": points["noise"][first],
    }


def unpack(packed: Point, counts: np.ndarray) -> Point:
    """Return the original points from packed ones; the inverse of :func:`pack`.

    Parameters
    ----------
    packed : dict
    counts : ndarray of int, shape (C,)
        Number of hyperparameters of every candidate.

    Raises
    ------
    ValueError
        If the sizes of the arrays don't match.
    """
    structure = packed["structure"].astype(np.int32)
    first = _first_members(structure)
    active = np.repeat(structure[first][:, 1:] > 0, counts, axis=1)
    rows = np.full(active.shape, np.nan)
    rows[active] = packed["hyperparameters"]
    here = structure[..., 0] >= 0
    # For every first member, its index among the first members of all draws.
    places = (np.cumsum(first.ravel()) - 1).reshape(len(structure), -1)
    draw = np.nonzero(here)[0]
    cluster = places[draw, structure[..., 0][here]]
    hyperparameters = np.full((*here.shape, active.shape[1]), np.nan)
    hyperparameters[here] = rows[cluster]
    noise = np.full(here.shape, np.nan)
    noise[here] = packed["noise"][cluster]
    arrays = {"structure": structure, "hyperparameters": hyperparameters, "noise": noise}
    return {**packed, **arrays}


def _first_members(structure: np.ndarray) -> np.ndarray:
    """Return which datasets (draw, user, time step) are the first member of their cluster."""
    users, steps = structure.shape[1:3]
    return structure[..., 0] == np.arange(users * steps).reshape(users, steps)


def encode(chunk: Chunk) -> bytes:
    """Return a chunk as the bytes of its file."""
    about = {"generator": chunk.generator, "seconds": chunk.seconds}
    arrays: dict[str, Any] = {
        **pack(chunk.points),
        **{STATISTIC + name: values for name, values in chunk.statistics.items()},
        "about": np.array(json.dumps(about)),
    }
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@dataclass(frozen=True)
class ChainFiles:
    """Files of one chain: its chunks, and the traceback of a failure.

    Parameters
    ----------
    folder : Path
        Folder of the chain.
    counts : ndarray of int, shape (C,)
        Number of hyperparameters of every candidate.
    """

    folder: Path
    counts: np.ndarray

    def add(self, first: int, encoded: bytes) -> Chunk:
        """Write a chunk that begins at draw `first`, encoded by :func:`encode`, and return it."""
        path = self.folder / f"draws-{first:06}.npz"
        write_atomically(path, encoded)
        return self._read(first, path)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks in order.

        Raises
        ------
        InputError
            If a chunk can't be read, or is missing.
        """
        expected = 0
        for first, path in self._paths():
            if first != expected:
                raise InputError(
                    f"{path} doesn't follow the draws before it. "
                    "Restore the missing file, or delete this one and all after it."
                )
            chunk = self._read(first, path)
            expected += len(chunk)
            yield chunk

    def last(self) -> Chunk | None:
        """Return the last chunk, or None if there is no chunk."""
        paths = self._paths()
        return self._read(*paths[-1]) if paths else None

    def clean(self) -> None:
        """Create the folder; delete incomplete files of killed processes and an old traceback."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(".draws-*"):
            path.unlink()
        self.error.unlink(missing_ok=True)

    @property
    def error(self) -> Path:
        """Path of the file that the traceback of a failure is written to."""
        return self.folder / "error.txt"

    def _paths(self) -> list[tuple[int, Path]]:
        numbered = (
            (path.stem.removeprefix("draws-"), path) for path in self.folder.glob("draws-*")
        )
        return sorted(
            (int(number), path)
            for number, path in numbered
            if number.isdecimal() and path.suffix == ".npz"
        )

    def _read(self, first: int, path: Path) -> Chunk:
        try:
            # If NumPy opened the file itself, it would leave it open if it is damaged.
            with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
                arrays = dict(loaded)
            about = json.loads(str(arrays.pop("about")))
            statistics = {
                name.removeprefix(STATISTIC): arrays.pop(name)
                for name in list(arrays)
                if name.startswith(STATISTIC)
            }
            points = unpack(arrays, self.counts)
            np.random.PCG64().state = about["generator"]
            chunk = Chunk(first, points, statistics, about["generator"], float(about["seconds"]))
            if set(map(len, (*statistics.values(), points["structure"]))) != {len(chunk)}:
                raise ValueError("its arrays have different lengths")
        except Exception as error:  # for a damaged file, NumPy can raise almost any exception
            raise InputError(
                f"The draws in {path} can't be read ({shorten(str(error), 200)}). "
                "Restore the file, or delete it and all after it to draw them again."
            ) from error
        return chunk
