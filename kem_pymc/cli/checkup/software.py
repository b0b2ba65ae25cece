"""Checks of the software: versions, installation, and the back ends Numba and PyTensor."""

import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from kem_pymc.cli.checkup.finding import Finding

NAME = "kem-pymc"

#: Folder of this package.
PACKAGE = Path(__file__).parents[2]


def versions(finding: Finding) -> None:
    """Report the versions of this package and its dependencies, and which are out of range.

    The ranges are those of the installed distribution, including extras that are installed.
    """
    finding.facts["kem_pymc"] = metadata.version(NAME)
    finding.facts["Python"] = f"{platform.python_version()} ({platform.python_implementation()})"
    finding.facts["platform"] = platform.platform()
    own = metadata.metadata(NAME).get("Requires-Python")
    if own and not SpecifierSet(own).contains(platform.python_version(), prereleases=True):
        finding.doubt(
            f"Python {platform.python_version()} is out of range ({own}).",
            "Install kem-pymc with another Python.",
            fails=True,
        )
    for line in metadata.requires(NAME) or []:
        needed = Requirement(line)
        optional = needed.marker is not None and not needed.marker.evaluate({"extra": ""})
        try:
            found = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            if not optional:
                remedy = f'Install it: pip install "{needed.name}{needed.specifier}"'
                finding.doubt(f"{needed.name} isn't installed.", remedy, fails=True)
            continue
        finding.facts[needed.name] = found
        if not needed.specifier.contains(found, prereleases=True):
            finding.doubt(
                f"{needed.name} {found} is out of range ({needed.specifier}).",
                f'Install another: pip install "{needed.name}{needed.specifier}"',
                fails=not optional,
            )


def installation(finding: Finding) -> None:
    """Report where this package is imported from, and other copies on Python's path."""
    finding.facts["imported from"] = str(PACKAGE)
    finding.facts["Python"] = sys.executable
    installed = metadata.distribution(NAME)
    place = _source(installed)
    if place is not None:
        finding.facts["installed"] = f"editable, from {place}"
    else:
        place = Path(str(installed.locate_file(""))).resolve()
        finding.facts["installed"] = f"in {place}"
    if PACKAGE.parent.resolve() != place:
        finding.doubt(
            f"kem_pymc comes from {PACKAGE.parent}, but the installed one is at {place}.",
            "Leave the folder of the source tree, clear PYTHONPATH, or install the tree: "
            "pip install -e FOLDER",
        )
    others = {
        found
        for entry in sys.path
        if (found := Path(entry or ".").resolve()) != PACKAGE.parent.resolve()
        and (found / "kem_pymc/__init__.py").is_file()
    }
    if others:
        finding.doubt(
            f"Other copies of kem_pymc are on Python's path, in {', '.join(map(str, others))}.",
            "Uninstall the one that you don't use, or clear PYTHONPATH.",
        )


def _source(installed: metadata.Distribution) -> Path | None:
    """Return the source tree of an editable installation, or None if it isn't editable."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(origin["url"]).path)).resolve()


def numba(finding: Finding) -> None:
    """Report the settings of Numba, which compiles the engine."""
    from numba import config

    finding.facts["threads"] = str(config.NUMBA_NUM_THREADS)
    finding.facts["own cache"] = config.CACHE_DIR or "next to the sources, not used by kem_pymc"
    if config.DISABLE_JIT:
        finding.doubt(
            "Numba doesn't compile (NUMBA_DISABLE_JIT), which the engine needs.",
            "Unset NUMBA_DISABLE_JIT, also in .numba_config.yaml.",
            fails=True,
        )


def pytensor(finding: Finding) -> None:
    """Report the settings of PyTensor, in which kernels and priors are written."""
    from pytensor import config
    from pytensor.compile.mode import get_default_mode

    linker = type(get_default_mode().linker).__name__
    folder = Path(str(config.compiledir))
    finding.facts["linker"] = f"{config.linker}: {linker}"
    finding.facts["C++ compiler"] = config.cxx or "none"
    finding.facts["compiled code"] = str(folder)
    finding.facts["PYTENSOR_FLAGS"] = os.environ.get("PYTENSOR_FLAGS", "") or "not set"
    if linker in ("PerformLinker", "VMLinker") and not config.cxx:
        finding.doubt(
            "PyTensor has no C++ compiler and its linker isn't Numba's, so PyMC is slow.",
            "Unset linker and mode in PYTENSOR_FLAGS and .pytensorrc, or install g++.",
        )
    elif linker == "PerformLinker":
        finding.doubt(
            "PyTensor runs its graphs in Python, so PyMC is slow.",
            "Unset linker and mode in PYTENSOR_FLAGS and .pytensorrc.",
        )
    if folder.exists() and not os.access(folder, os.W_OK):
        finding.doubt(
            f"PyTensor can't write to {folder}.",
            "Choose another folder: PYTENSOR_FLAGS=base_compiledir=FOLDER",
            fails=True,
        )
