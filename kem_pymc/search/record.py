"""Files of a search: its settings, and one line of JSON per evaluation, written as it is done."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from os import PathLike
from typing import Any

import numpy as np

from kem_pymc._system.folder import RunFolder
from kem_pymc.errors import InputError
from kem_pymc.search.evaluation import Evaluated

#: Files in the folder of a search.
SETTINGS, EVALUATIONS = "search.json", "evaluations.jsonl"


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


class Record[E: Evaluated]:
    """Evaluations in the folder of a search; without a folder nothing is read or written.

    Parameters
    ----------
    folder : RunFolder
    parse : callable
        Returns the evaluation of which `to_line` gave what a line contains.
    file : str

    Raises
    ------
    InputError
        If the file of evaluations is damaged before its last line.
    """

    def __init__(
        self, folder: RunFolder, parse: Callable[[dict[str, Any]], E], file: str = EVALUATIONS
    ) -> None:
        self._version = folder.version
        self._log = folder.log(file, parse)

    def __len__(self) -> int:
        """Return the number of evaluations that were in the file."""
        return len(self._log.events)

    def evaluation(self, number: int, proposed: object) -> E | None:
        """Return an evaluation from the file by its number; None if the file ends before it.

        Raises
        ------
        InputError
            If the file has another model there, because another version of the package wrote it.
        """
        if number >= len(self):
            return None
        evaluation = self._log.events[number]
        if str(evaluation) != str(proposed):
            raise InputError(
                f"Evaluation {number + 1} in {self._log.path} is of {evaluation}, but this version "
                f"of kem_pymc would evaluate {proposed}. Use version {self._version}, which began "
                "the search, or start anew in another folder."
            )
        return evaluation

    def add(self, evaluations: Sequence[E]) -> None:
        """Append evaluations to the file, durably.

        Raises
        ------
        InputError
            If the file can't be written; see :meth:`kem_pymc._system.folder.Log.add`.
        """
        self._log.add([evaluation.to_line() for evaluation in evaluations])
