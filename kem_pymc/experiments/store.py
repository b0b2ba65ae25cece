"""The folder of an experiment: what was learned and selected, trial by trial, in open files.

``runs/STUDY/trial-00/LEARNS/`` holds evolutions as JSON, and a table of selections for each method.
Beside each lies what it depends on, written last; where that is another now, it is made anew.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import pandas as pd

from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.experiments.piece import Outcome, Piece


class Store:
    """Results of pieces, below a folder.

    Parameters
    ----------
    folder : Path
        Made when the first piece is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, piece: Piece) -> Path:
        """Return the folder of a piece."""
        trial = "trial" if piece.folds is None else f"held-out-of-{piece.folds}"
        return self.folder / "runs" / piece.name / f"{trial}-{piece.trial:02d}" / piece.learns

    def missing(self, piece: Piece) -> list[str]:
        """Return the methods of a piece whose selections aren't there."""
        place = self.place(piece)
        if not self._learned(piece):
            return list(piece.methods)
        return [
            method
            for method in piece.methods
            if _read(place / f"{slug(method)}.json") != _plain(piece.exercise(method))
        ]

    def known(self, piece: Piece) -> dict[str, Evolutions]:
        """Return what was learned for a piece already; nothing if that isn't there."""
        if not self._learned(piece):
            return {}
        lesson = _read(self.place(piece) / "lesson.json")
        return {
            name: Evolutions.load(self._evolutions(piece, name)) for name in lesson["evolutions"]
        }

    def keep(self, piece: Piece, outcome: Outcome) -> None:
        """Write what came of a piece."""
        place = self.place(piece)
        place.mkdir(parents=True, exist_ok=True)
        if not self._learned(piece):
            for old in place.glob("*.json"):  # of another lesson: nothing here belongs to it
                old.unlink()
            for name, evolutions in outcome.evolutions.items():
                evolutions.save(self._evolutions(piece, name))
            lesson = {
                "of": piece.lesson(),
                "evolutions": list(outcome.evolutions),
                "seconds": outcome.seconds,
            }
            _write(place / "lesson.json", json.dumps(lesson, indent=1))
        for method, rows in outcome.selections.groupby("method", sort=False):
            name = slug(str(method))
            _write(place / f"{name}.csv", rows.to_csv(index=False))
            _write(place / f"{name}.json", json.dumps(piece.exercise(str(method)), indent=1))

    def selections(self, pieces: list[Piece]) -> pd.DataFrame:
        """Return the selections of all methods of these pieces."""
        tables = [
            pd.read_csv(
                self.place(piece) / f"{slug(method)}.csv", keep_default_na=False, na_values=[""]
            )
            for piece in pieces
            for method in piece.methods
        ]
        table = pd.concat(tables, ignore_index=True)
        return table.astype({"composition": str, "user": str})

    def seconds(self, piece: Piece) -> float:
        """Return how long learning took."""
        return float(_read(self.place(piece) / "lesson.json")["seconds"])

    def _learned(self, piece: Piece) -> bool:
        return bool(_read(self.place(piece) / "lesson.json").get("of") == _plain(piece.lesson()))

    def _evolutions(self, piece: Piece, name: str) -> Path:
        return self.place(piece) / f"evolutions-{name}.json"


def slug(name: str) -> str:
    """Return a name as files have it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def _write(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    draft = path.with_name(path.name + ".part")
    draft.write_text(text, "utf-8")
    os.replace(draft, path)
