"""Files of a search: its settings, and one line of JSON per evaluation, written as it is done."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from hashlib import sha256
from os import PathLike
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from kem_pymc._system.folder import RunFolder
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.evaluation import Evaluation, coordinates_of

#: Files in the folder of a search.
SETTINGS, EVALUATIONS = "search.json", "evaluations.jsonl"

#: Fields that an evaluation of an expression and its line have in common.
COPIED = ("log_likelihood", "log_prior", "score", "gradients", "seconds", "elapsed")


def search_folder(
    out: str | PathLike[str] | None, options: dict[str, Any], x: np.ndarray, y: np.ndarray
) -> RunFolder:
    """Return the folder of a search, which is created if it is missing.

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
    digest = sha256(np.ascontiguousarray(np.column_stack([x, y])).tobytes()).hexdigest()
    return RunFolder(out, "search", SETTINGS, {**options, "data": digest})


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
    folder : RunFolder

    Raises
    ------
    InputError
        If the file of evaluations is damaged before its last line.
    """

    line: type[L]
    file = EVALUATIONS

    def __init__(self, folder: RunFolder) -> None:
        self._version = folder.version
        self._log = folder.log(self.file, self.line.model_validate)

    def __len__(self) -> int:
        """Return the number of evaluations that were in the file."""
        return len(self._log.events)

    def evaluation(self, number: int, proposed: P) -> E | None:
        """Return an evaluation from the file by its number; None if the file ends before it.

        Raises
        ------
        InputError
            If the file has another model there, because another version of the package wrote it.
        """
        if number >= len(self):
            return None
        line = self._log.events[number]
        there, expected = self.model_of(line), str(proposed)
        if there != expected:
            raise InputError(
                f"Evaluation {number + 1} in {self._log.path} is of {there}, but this version of "
                f"kem_pymc would evaluate {expected}. Use version {self._version}, which began the "
                "search, or start anew in another folder."
            )
        evaluation = self.evaluation_of(line, proposed)
        if evaluation is None:
            raise InputError(
                f"Line {number + 1} of {self._log.path} doesn't have the hyperparameters of "
                f"{there}. Delete it and the lines after it; these evaluations are then computed "
                "again."
            )
        return evaluation

    def add(self, evaluations: Sequence[E]) -> None:
        """Append evaluations to the file, durably.

        Raises
        ------
        OSError
            If the file can't be written.
        """
        self._log.add([self.line_of(evaluation).model_dump() for evaluation in evaluations])

    @abstractmethod
    def model_of(self, line: L) -> str:
        """Return the text of the model in a line."""

    @abstractmethod
    def line_of(self, evaluation: E) -> L:
        """Return the line of an evaluation."""

    @abstractmethod
    def evaluation_of(self, line: L, proposed: P) -> E | None:
        """Return the evaluation in a line; None if its values aren't those of the model."""


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
    folder : RunFolder
    dimension : int
        Number of input columns D.
    """

    line = CompositionLine

    def __init__(self, folder: RunFolder, dimension: int) -> None:
        self._dimension = dimension
        super().__init__(folder)

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
