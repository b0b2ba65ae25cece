"""Checks of files: the cache of compiled code, and data files of the studies."""

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kem_pymc._jit.cache import cache_folder, source_stamp
from kem_pymc._system import resources
from kem_pymc.cli.checkup.finding import Finding, size
from kem_pymc.cli.checkup.hardware import existing


def code_cache(finding: Finding) -> None:
    """Report the folder of compiled code, its contents, and whether it can be written to."""
    folder = cache_folder()
    chosen = "KEM_CACHE" if os.environ.get("KEM_CACHE") else "the default; KEM_CACHE is not set"
    finding.facts["folder"] = f"{folder} ({chosen})"
    _tell_of_code(folder, finding)
    kind = resources.file_system(existing(folder))
    finding.facts["file system"] = kind or "unknown"
    if resources.is_remote(kind):
        finding.doubt(
            f"Compiled code is on a network file system ({kind}), which is slow.",
            "Set KEM_CACHE to a folder on a disk of this machine.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        finding.doubt(
            f"Compiled code can't be saved in {folder} ({error.strerror or error}), so it is "
            "compiled again in every run.",
            "Set KEM_CACHE to a folder that you can write to.",
            fails=True,
        )


def _tell_of_code(folder: Path, finding: Finding) -> None:
    files = [path for path in folder.glob("*.nb[ic]") if path.is_file()]
    finding.facts["size"] = f"{size(sum(p.stat().st_size for p in files))}, {len(files)} files"
    stamps = [_stamp(path) for path in files if path.suffix == ".nbi"]
    old = sum(stamp != source_stamp() for stamp in stamps)
    finding.facts["functions"] = (
        f"{len(stamps) - old} compiled, {old} of other versions"
        if len(stamps) > old
        else f"none compiled yet ({old} of other versions): the first run takes minutes"
    )


def _stamp(index: Path) -> str | None:
    """Return the stamp of the sources of a compiled function; None if the index can't be read."""
    try:
        with index.open("rb") as file:
            pickle.load(file)  # Numba's version
            stamp: str = pickle.load(file)[0]
            return stamp
    except Exception:  # of another version of Numba, or incomplete
        return None


def data(finding: Finding) -> None:
    """Report for which studies the data files can be loaded, with the errors of their loaders."""
    from kem_pymc.datasets import data_home
    from kem_pymc.errors import InputError

    home = data_home()
    given = bool(os.environ.get("KEM_DATA"))
    finding.facts["folder"] = f"{home} ({'KEM_DATA' if given else 'the default'})"
    if not home.is_dir():
        finding.facts["studies"] = "none; only the real data of the papers are read from files"
        if given:
            finding.doubt(
                f"KEM_DATA names {home}, which isn't a folder.",
                "Set KEM_DATA to the folder of the data files, or unset it.",
            )
        return
    for name, load in loaders().items():
        try:
            load(home)
            finding.facts[name] = "available"
        except FileNotFoundError as error:
            finding.facts[name] = str(error)
        except InputError as error:
            finding.facts[name] = "can't be read"
            what, _, remedy = str(error).partition(". ")
            finding.doubt(f"{name}: {what}.", remedy)


def loaders() -> dict[str, Callable[[Path], Any]]:
    """Return the loader of each study.

    For MIMIC-III, whose files take minutes to read, it is the function that finds the files.
    """
    from kem_pymc import datasets
    from kem_pymc.datasets._mimic_files import find_mimic

    uci = ("energy", "housing", "fires", "concrete")
    longitudinal = ("sleepstudy", "chick_weight", "orthodont", "theoph")
    names = (*uci, *longitudinal, "mimic_demo", "heartsteps_daily", "heartsteps")
    return {name: getattr(datasets, name) for name in names} | {"mimic": find_mimic}
