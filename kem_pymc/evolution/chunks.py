"""Draws of a chain in files: chunks that appear whole or not at all, each with all it takes to
go on from its last draw.

Members of a cluster hold equal rows and candidates that are out hold NaN, so a chunk keeps each
cluster once and active hyperparameters only. The format is described in docs/runs.md.
"""

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from time import monotonic
from typing import IO, Any

import numpy as np

from kem_pymc.errors import InputError

#: A chunk is written at the latest after so many seconds.
LONGEST = 30.0

STATISTIC = "sample_stats."

Point = dict[str, np.ndarray]


@dataclass(frozen=True)
class Draw:
    """One draw of a chain, and the generator behind it.

    Attributes
    ----------
    number : int
        From 0, tuning draws included.
    point : dict
        The arrays of :mod:`kem_pymc.evolution.engine` by name.
    statistics : dict
    generator : dict
        State of the bit generator after this draw.
    """

    number: int
    point: Point
    statistics: dict[str, Any]
    generator: Mapping[str, Any]


@dataclass(frozen=True)
class Chunk:
    """Draws of a chain that follow each other.

    Attributes
    ----------
    first : int
        Number of the first one.
    points : dict
        Arrays (draw, user, time step, ...) by name.
    statistics : dict
        Arrays (draw,) by name.
    generator : dict
        State of the bit generator after the last draw.
    seconds : float
        How long the draws took.
    """

    first: int
    points: Point
    statistics: dict[str, np.ndarray]
    generator: Mapping[str, Any]
    seconds: float

    def __len__(self) -> int:
        return len(self.points["structure"])

    @classmethod
    def of(cls, draws: list[Draw], seconds: float) -> "Chunk":
        """Return a chunk of draws."""
        return cls(
            draws[0].number,
            {name: np.stack([draw.point[name] for draw in draws]) for name in draws[0].point},
            {
                name: np.array([draw.statistics[name] for draw in draws])
                for name in draws[0].statistics
            },
            draws[-1].generator,
            seconds,
        )


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
    """Return the points that were packed.

    Parameters
    ----------
    packed : dict
    counts : (C,) int
        Number of hyperparameters of every candidate.

    Raises
    ------
    ValueError
        If the arrays don't fit each other.
    """
    structure = packed["structure"].astype(np.int32)
    first = _first_members(structure)
    active = np.repeat(structure[first][:, 1:] > 0, counts, axis=1)
    rows = np.full(active.shape, np.nan)
    rows[active] = packed["hyperparameters"]
    here = structure[..., 0] >= 0
    # From a dataset to its first member's place among all first members of all draws.
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
    """Return which datasets (draw, user, time step) are the first of their cluster."""
    users, steps = structure.shape[1:3]
    return structure[..., 0] == np.arange(users * steps).reshape(users, steps)


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file that appears whole or not at all, whatever happens to process or machine."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system lets us open folders."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def encode(chunk: Chunk) -> bytes:
    """Return the content of a chunk's file."""
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
    """The chunks of one chain.

    Parameters
    ----------
    folder : Path
    counts : (C,) int
        Number of hyperparameters of every candidate.
    """

    folder: Path
    counts: np.ndarray

    def write(self, chunk: Chunk) -> None:
        """Add a chunk."""
        self._write(chunk.first, encode(chunk))

    def add(self, first: int, encoded: bytes) -> Chunk:
        """Add a chunk that begins at draw `first`, as :func:`encode` made it, and return it."""
        self._write(first, encoded)
        return self._read(first, self._path(first))

    def _write(self, first: int, encoded: bytes) -> None:
        write_whole(self._path(first), lambda file: file.write(encoded))

    def _path(self, first: int) -> Path:
        return self.folder / f"draws-{first:06}.npz"

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks in order.

        Raises
        ------
        InputError
            If one can't be read, or is missing.
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
        """Return the last chunk, if there is one."""
        paths = self._paths()
        return self._read(*paths[-1]) if paths else None

    def clean(self) -> None:
        """Make the folder, and delete what a process left that was killed while it wrote."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(".draws-*"):
            path.unlink()
        self.error.unlink(missing_ok=True)

    @property
    def error(self) -> Path:
        """Where the traceback of a failure is written."""
        return self.folder / "error.txt"

    def _paths(self) -> list[tuple[int, Path]]:
        found = ((path.stem.removeprefix("draws-"), path) for path in self.folder.glob("draws-*"))
        return sorted(
            (int(number), path)
            for number, path in found
            if number.isdecimal() and path.suffix == ".npz"
        )

    def _read(self, first: int, path: Path) -> Chunk:
        try:
            # numpy would leave a damaged file open.
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
        except Exception as error:  # a damaged file can fail anywhere on the way through numpy
            raise InputError(
                f"The draws in {path} can't be read ({shorten(str(error), 200)}). "
                "Restore the file, or delete it and all after it to draw them again."
            ) from error
        return chunk


@dataclass
class Writer:
    """Collects the draws of a chain and writes them, a chunk at a time.

    Parameters
    ----------
    files : ChainFiles
    size : int
        Draws per chunk.
    """

    files: ChainFiles
    size: int
    _pending: list[Draw] = field(default_factory=list)
    _since: float = field(default_factory=monotonic)

    def add(self, draw: Draw) -> None:
        """Take a draw in; write, if it is time to."""
        self._pending.append(draw)
        if len(self._pending) >= self.size or monotonic() - self._since > LONGEST:
            self.flush()

    def flush(self) -> None:
        """Write what isn't written yet. If that fails, it stays to be written."""
        if self._pending:
            now = monotonic()
            self.files.write(Chunk.of(self._pending, now - self._since))
            self._pending, self._since = [], now
