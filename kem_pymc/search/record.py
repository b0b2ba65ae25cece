"""Files of a search: its settings, and one line of JSON per evaluation, written as it is done."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from kem_pymc._system.files import LOCK, locked, write_atomically
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.evaluation import Evaluation, coordinates_of

#: Files in the folder of a search.
SETTINGS, EVALUATIONS = "search.json", "evaluations.jsonl"

#: Fields that an evaluation of an expression and its line have in common.
COPIED = ("log_likelihood", "log_prior", "score", "gradients", "seconds", "elapsed")


class Line(BaseModel):
    """Base of what a line of the file of evaluations contains."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float
    elapsed: float


class Record[L: Line, P, E](ABC):
    """Evaluations E in the folder of a search; without a folder nothing is read or written.

    Subclasses convert evaluations of what is proposed, P, to lines of the file, L, and back.

    Parameters
    ----------
    folder : Path or None

    Raises
    ------
    InputError
        If the file of evaluations is damaged before its last line.
    """

    line: type[L]
    file = EVALUATIONS

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / self.file
        self._known: list[L] = []
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def __len__(self) -> int:
        """Return the number of evaluations that were in the file."""
        return len(self._known)

    def known(self, number: int, proposed: P) -> E | None:
        """Return an evaluation from the file by its number; None if the file ends before it.

        Raises
        ------
        InputError
            If the file has another model there, because another version of the package wrote it.
        """
        if number >= len(self._known):
            return None
        line = self._known[number]
        there, expected = self.model_of(line), self.text_of(proposed)
        if there != expected:
            raise InputError(
                f"Evaluation {number + 1} in {self._path} is of {there}, but this version of "
                f"kem_pymc would evaluate {expected}. Use the version in {SETTINGS}, or start "
                "anew in another folder."
            )
        evaluation = self.evaluation_of(line, proposed)
        if evaluation is None:
            raise InputError(
                f"Line {number + 1} of {self._path} doesn't have the hyperparameters of {there}. "
                "Delete it and the lines after it; these evaluations are then computed again."
            )
        return evaluation

    def add(self, evaluations: Sequence[E]) -> None:
        """Append evaluations to the file, durably.

        Raises
        ------
        OSError
            If the file can't be written.
        """
        if self._path is None or not evaluations:
            return
        lines = [json.dumps(self.line_of(own).model_dump()) + "\n" for own in evaluations]
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
            file.flush()
            os.fsync(file.fileno())

    @abstractmethod
    def text_of(self, proposed: P) -> str:
        """Return the text of a proposed model."""

    @abstractmethod
    def model_of(self, line: L) -> str:
        """Return the text of the model in a line."""

    @abstractmethod
    def line_of(self, evaluation: E) -> L:
        """Return the line of an evaluation."""

    @abstractmethod
    def evaluation_of(self, line: L, proposed: P) -> E | None:
        """Return the evaluation in a line; None if its values aren't those of the model."""

    def _read(self, path: Path) -> None:
        *lines, torn = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                self._known.append(self.line.model_validate(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"Line {number} of {path} is damaged. Delete it and the lines after it; these "
                    "evaluations are then computed again."
                ) from error
        if torn:  # the last line was cut off when the process was killed
            write_atomically(path, b"".join(line + b"\n" for line in lines))


class CompositionLine(Line):
    """One evaluation in a file, with the fitted coordinates by name, in scaled units."""

    model: str
    coordinates: dict[str, float]
    log_likelihood: float
    log_prior: float
    score: float
    gradients: int


class CompositionRecord(Record[CompositionLine, Composition, Evaluation]):
    """Evaluations of expressions of the grammar.

    Parameters
    ----------
    folder : Path or None
    dimension : int
        Number of input columns D.
    """

    line = CompositionLine

    def __init__(self, folder: Path | None, dimension: int) -> None:
        self._dimension = dimension
        super().__init__(folder)

    def text_of(self, proposed: Composition) -> str:
        """Return the text of an expression; see :class:`Record`."""
        return str(proposed)

    def model_of(self, line: CompositionLine) -> str:
        """Return the text of the expression in a line; see :class:`Record`."""
        return line.model

    def line_of(self, evaluation: Evaluation) -> CompositionLine:
        """Return the line of an evaluation; see :class:`Record`."""
        names = coordinates_of(evaluation.expression, self._dimension).names
        return CompositionLine(
            model=str(evaluation.expression),
            coordinates=dict(zip(names, evaluation.values.tolist(), strict=True)),
            **{name: getattr(evaluation, name) for name in COPIED},
        )

    def evaluation_of(self, line: CompositionLine, proposed: Composition) -> Evaluation | None:
        """Return the evaluation in a line; see :class:`Record`."""
        names = coordinates_of(proposed, self._dimension).names
        if set(names) != set(line.coordinates):
            return None
        values = np.array([line.coordinates[name] for name in names])
        copied = {name: getattr(line, name) for name in COPIED}
        return Evaluation(expression=proposed, values=values, **copied)


@contextmanager
def opened(
    out: str | PathLike[str] | None, options: dict[str, Any], x: np.ndarray, y: np.ndarray
) -> Iterator[Path | None]:
    """Yield the folder of a search, which is created if it is missing, and locked meanwhile.

    Parameters
    ----------
    out : path or None
        Folder; None for a search without files.
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
        yield None
        return
    folder = Path(out)
    digest = sha256(np.ascontiguousarray(np.column_stack([x, y])).tobytes()).hexdigest()
    busy = f"Another process writes to {out}. Wait until it ends, or choose another folder."
    with locked(folder, busy):
        _check(folder, {**options, "data": digest})
        yield folder


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
        method = known["method"]
        different = [name for name in options if known.get(name) != options[name]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{file} is damaged. Start anew in another folder.") from error
    if method != options["method"]:
        raise InputError(
            f"The folder {folder} has a search by {method}. Choose another folder for one by "
            f"{options['method']}."
        )
    if different:
        what = "data" if "data" in different else ", ".join(different)
        raise InputError(
            f"The search in {folder} is one with different {what}. Choose another folder, or the "
            f"same {what}."
        )
