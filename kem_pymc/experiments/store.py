"""The folder of an experiment: what was learned and selected, trial by trial, in open files.

``runs/STUDY/trial-00/LEARNS-0a1b2c3d/`` holds evolutions as JSON, and a table of selections for
each method. Names end in digests of what the content depends on, which lies beside it, and of the
code that made it. So other settings and other code have other files, and nothing is overwritten by
something else.
"""

import json
import re
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from kem_pymc.code_cache import PACKAGE
from kem_pymc.evolution.chunks import write_whole
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.experiments.piece import Outcome, Piece

#: In the folder of a piece: what was learned, there once all of it is.
LESSON = "lesson.json"

#: What looks at results and makes none: changes there leave results as they are. What makes
#: results imports none of these.
ONLOOKERS = (
    *("cli.py", "commands", "plots", "reports"),
    *("experiments/figures", "experiments/report.py", "experiments/runner.py"),
    *("experiments/store.py", "experiments/summaries.py", "experiments/verdicts.py"),
)


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
        name = f"{piece.learns}-{_digest([piece.lesson(), code()])}"
        return self.folder / "runs" / piece.name / f"{trial}-{piece.trial:02d}" / name

    def table(self, piece: Piece, method: str) -> Path:
        """Return the file of a method's selections."""
        return self.place(piece) / f"{slug(method)}-{_digest([piece.exercise(method), code()])}.csv"

    def missing(self, piece: Piece) -> list[str]:
        """Return the methods of a piece whose selections aren't there."""
        if not self._learned(piece):
            return list(piece.methods)
        return [method for method in piece.methods if not self.table(piece, method).is_file()]

    def known(self, piece: Piece) -> dict[str, Evolutions]:
        """Return what was learned for a piece already; nothing if that isn't there."""
        if not self._learned(piece):
            return {}
        lesson = _read(self.place(piece) / LESSON)
        return {
            name: Evolutions.load(self._evolutions(piece, name)) for name in lesson["evolutions"]
        }

    def keep(self, piece: Piece, outcome: Outcome) -> None:
        """Write what came of a piece."""
        place = self.place(piece)
        place.mkdir(parents=True, exist_ok=True)
        if not self._learned(piece):
            for name, evolutions in outcome.evolutions.items():
                evolutions.save(self._evolutions(piece, name))
            lesson = {
                "of": piece.lesson(),
                "evolutions": list(outcome.evolutions),
                "seconds": outcome.seconds,
                "r_hat": outcome.r_hat,
                "code": code(),
            }
            _write(place / LESSON, json.dumps(lesson, indent=1))
        for method, rows in outcome.selections.groupby("method", sort=False):
            path = self.table(piece, str(method))
            exercise = {"of": piece.exercise(str(method)), "code": code()}
            _write(path.with_suffix(".json"), json.dumps(exercise, indent=1))
            _write(path, rows.to_csv(index=False))

    def selections(self, pieces: list[Piece]) -> pd.DataFrame:
        """Return the selections of all methods of these pieces."""
        tables = [
            pd.read_csv(self.table(piece, method), keep_default_na=False, na_values=[""])
            for piece in pieces
            for method in piece.methods
        ]
        table = pd.concat(tables, ignore_index=True)
        return table.astype({"composition": str, "user": str})

    def seconds(self, piece: Piece) -> float:
        """Return how long learning took."""
        return float(_read(self.place(piece) / LESSON)["seconds"])

    def r_hats(self, pieces: list[Piece]) -> list[float]:
        """Return the largest R-hat of the scalars in each lesson; those without one are left out.

        The pieces of several methods may share a lesson, which counts once.
        """
        places = dict.fromkeys(self.place(piece) for piece in pieces)
        lessons = [_read(place / LESSON).get("r_hat", {}).values() for place in places]
        values = [
            [v for own in lesson for v in own.values() if v is not None] for lesson in lessons
        ]
        return [max(own) for own in values if own]

    def codes(self, pieces: list[Piece]) -> list[str]:
        """Return by which versions of the code pieces were made, each once."""
        files = [self.place(piece) / LESSON for piece in pieces]
        files += [
            self.table(piece, method).with_suffix(".json")
            for piece in pieces
            for method in piece.methods
        ]
        return sorted({str(_read(file).get("code")) for file in files})

    def _learned(self, piece: Piece) -> bool:
        return (self.place(piece) / LESSON).is_file()

    def _evolutions(self, piece: Piece, name: str) -> Path:
        return self.place(piece) / f"evolutions-{name}.json"


def code() -> str:
    """Return the version of this package, and a digest of the sources that results depend on."""
    return f"{version('kem-pymc')} ({source_digest(PACKAGE)[:8]})"


@cache
def source_digest(package: Path) -> str:
    """Return a hash of a package's sources, without those that only look at results."""
    digest = sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if not any(name.is_relative_to(onlooker) for onlooker in ONLOOKERS):
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def slug(name: str) -> str:
    """Return a name as files have it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _digest(data: Any) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:8]


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))
