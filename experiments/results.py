"""What the experiments have in common: tasks and their files, figures with panels, missing data."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kem_pymc.comparison import stored
from kem_pymc.data.datasets import DataFileNotFoundError

#: Modules of this package that use results but don't produce any.
ONLOOKERS = (
    *("__main__.py", "papers.py"),
    *(f"{paper}/figures.py" for paper in ("kem", "search", "evocov", "lifelong", "bandits")),
    *("kem/fig5.py", "kem/summary.py", "evocov/published.py", "evocov/ranks.py"),
)

#: Runs the tasks whose results aren't stored, and returns all results.
type Run = Callable[[Sequence[Any]], pd.DataFrame]


@dataclass(frozen=True)
class Options:
    """What the command asks for: numbers in place of the settings', and the seed.

    Attributes
    ----------
    out : Path
        Folder of the results.
    trials : int, optional
        Largest number of trials.
    seconds : float, optional
        CPU time of each search (EvoCov).
    quick : bool
        Whether to use the smaller numbers for previews.
    seed : int
    """

    out: Path
    trials: int | None = None
    seconds: float | None = None
    quick: bool = False
    seed: int = 0


def code() -> str:
    """Return the version of the library and of the experiments on which results depend."""
    version = stored.code(Path(__file__).parent, ONLOOKERS)
    return f"{stored.code()}, experiments {version.partition(' ')[2]}"


def file_of(task: Any, out: Path, data: str, name: str) -> Path:
    """Return the file of the results of a task, a dataclass, under a version of the code.

    Parameters
    ----------
    task : dataclass
        Its fields decide with the code which file it is.
    out : Path
        Folder of the experiment.
    data, name : str
        Name of the data set, and beginning of the name of the file.
    """
    return out / "runs" / data / f"{name}-{stored.digest([asdict(task), code()])}.csv"


def slug(name: str) -> str:
    """Return a name in the form used in file names: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def present[Key](
    titles: dict[Key, str], load: Callable[[Key], Any], warn: Callable[[str], Any]
) -> list[Key]:
    """Return the keys of the data whose files are there, with a warning for each missing file.

    Raises
    ------
    DataFileNotFoundError
        If none is there.
    """
    keys = []
    missing: dict[str, list[str]] = {}
    for key, title in titles.items():
        try:
            load(key)
        except DataFileNotFoundError as error:
            missing.setdefault(str(error), []).append(title)
        else:
            keys.append(key)
    if titles and not keys:
        raise DataFileNotFoundError(" ".join(missing))
    for message, absent in missing.items():
        warn(f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} left out. {message}")
    return keys


def unique(values: Iterable[Any]) -> list[Any]:
    """Return the values without repetitions, in the order in which they occur."""
    return list(dict.fromkeys(values))
