"""Files of a search: its settings, and one line of JSON per evaluation, written as it is done."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from kem_pymc._system.files import LOCK, locked, write_atomically
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.evaluation import Evaluation, coordinates_of

#: Files in the folder of a search.
SETTINGS, EVALUATIONS = "search.json", "evaluations.jsonl"


class _Line(BaseModel):
    """One evaluation in a file, with the fitted coordinates by name, in scaled units."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    coordinates: dict[str, float]
    log_likelihood: float
    log_prior: float
    score: float
    gradients: int
    seconds: float
    elapsed: float


class Record:
    """Evaluations in the folder of a search; without a folder nothing is read or written.

    Parameters
    ----------
    folder : Path or None
    dimension : int
        Number of input columns D.

    Raises
    ------
    InputError
        If the file of evaluations is damaged before its last line.
    """

    def __init__(self, folder: Path | None, dimension: int) -> None:
        self._path = None if folder is None else folder / EVALUATIONS
        self._dimension = dimension
        self._known: list[_Line] = []
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def known(self, number: int, expression: Composition) -> Evaluation | None:
        """Return an evaluation from the file by its number; None if the file ends before it.

        Raises
        ------
        InputError
            If the file has another model there, because another version of the package wrote it.
        """
        if number >= len(self._known):
            return None
        line = self._known[number]
        if line.model != str(expression):
            raise InputError(
                f"Evaluation {number + 1} in {self._path} is of {line.model}, but this version of "
                f"kem_pymc would evaluate {expression}. Use the version in {SETTINGS}, or start "
                "anew in another folder."
            )
        names = coordinates_of(expression, self._dimension).names
        if set(names) != set(line.coordinates):
            raise InputError(
                f"Line {number + 1} of {self._path} doesn't have the coordinates of {expression}. "
                "Delete it and the lines after it; these evaluations are then computed again."
            )
        return Evaluation(
            expression=expression,
            values=np.array([line.coordinates[name] for name in names]),
            log_likelihood=line.log_likelihood,
            log_prior=line.log_prior,
            score=line.score,
            gradients=line.gradients,
            seconds=line.seconds,
            elapsed=line.elapsed,
        )

    def add(self, evaluation: Evaluation) -> None:
        """Append an evaluation to the file, durably.

        Raises
        ------
        OSError
            If the file can't be written.
        """
        if self._path is None:
            return
        names = coordinates_of(evaluation.expression, self._dimension).names
        line = _Line(
            model=str(evaluation.expression),
            coordinates=dict(zip(names, evaluation.values.tolist(), strict=True)),
            log_likelihood=evaluation.log_likelihood,
            log_prior=evaluation.log_prior,
            score=evaluation.score,
            gradients=evaluation.gradients,
            seconds=evaluation.seconds,
            elapsed=evaluation.elapsed,
        )
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line.model_dump()) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path) -> None:
        *lines, torn = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                self._known.append(_Line.model_validate(json.loads(line)))
            except (ValueError, ValidationError) as error:
                raise InputError(
                    f"Line {number} of {path} is damaged. Delete it and the lines after it; these "
                    "evaluations are then computed again."
                ) from error
        if torn:  # the last line was cut off when the process was killed
            write_atomically(path, b"".join(line + b"\n" for line in lines))


@contextmanager
def opened(
    out: str | PathLike[str] | None, options: dict[str, Any], x: np.ndarray, y: np.ndarray
) -> Iterator[Record]:
    """Yield the record in a folder, which is created if it is missing and locked meanwhile.

    Parameters
    ----------
    out : path or None
        Folder; None for a record without files.
    options : dict
        Options that have to be the same when a search is continued.
    x, y : ndarray, shapes (n, D) and (n,)
        Scaled data.

    Raises
    ------
    InputError
        If the folder contains something else, or a search with other data or options, or another
        process writes to it.
    """
    if out is None:
        yield Record(None, x.shape[1])
        return
    folder = Path(out)
    digest = sha256(np.ascontiguousarray(np.column_stack([x, y])).tobytes()).hexdigest()
    busy = f"Another process writes to {out}. Wait until it ends, or choose another folder."
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder / LOCK, busy))
        except OSError as error:
            raise InputError(
                f"The folder {out} can't be written to ({error.strerror}). Choose another."
            ) from error
        _check(folder, {**options, "data": digest})
        yield Record(folder, x.shape[1])


def _check(folder: Path, options: dict[str, Any]) -> None:
    """Write the options to an empty folder, or compare them with those in the folder."""
    file = folder / SETTINGS
    if not file.exists():
        if any(path.name != LOCK for path in folder.iterdir()):
            raise InputError(
                f"The folder {folder} isn't empty and doesn't contain a search. Choose another."
            )
        settings = {"kem_pymc": version("kem-pymc"), **options}
        write_atomically(file, (json.dumps(settings, indent=1) + "\n").encode())
        return
    try:
        known = json.loads(file.read_text("utf-8"))
        different = [name for name in options if known[name] != options[name]]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is damaged. Start anew in another folder.") from error
    if different:
        what = "data" if "data" in different else ", ".join(different)
        raise InputError(
            f"The search in {folder} has other {what}. Choose another folder, or the same {what}."
        )
