"""Checks of the machine: cores, threads, memory, disk and terminal."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from kem_pymc._jit.cache import cache_folder
from kem_pymc.cli.checkup.finding import Finding, size

#: Bytes of memory or disk below which a problem is reported; bytes of disk below which it fails.
SCARCE, NOTHING_LEFT = 1e9, 5e7

#: Characters outside ASCII that commands print.
BEYOND_ASCII = "→±─"


def cores(finding: Finding) -> None:
    """Report the numbers of cores that exist and that this process may use, and the memory."""
    import loky
    import psutil

    finding.facts["cores"] = f"{loky.cpu_count()} of {os.cpu_count()} may be used"
    memory = psutil.virtual_memory()
    available, total = memory.available, memory.total
    finding.facts["memory"] = f"{size(available)} of {size(total)} available"
    if available < SCARCE:
        finding.doubt(
            f"Only {size(available)} of memory are available.",
            "Close other programs, or run fewer chains at a time with --cores.",
        )


def threads(finding: Finding) -> None:
    """Report the default number of threads of linear algebra.

    Where results depend on it, kem_pymc uses one thread.
    """
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    for pool in threadpool_info():
        name = f"{pool['internal_api']} {Path(pool['filepath']).parent.name}"
        finding.facts[name] = (
            f"{pool['num_threads']} threads, but one where the number affects results"
        )
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if name in os.environ:
            finding.facts[name] = os.environ[name]


def disk(finding: Finding) -> None:
    """Report the free disk space in the folders to which commands write."""
    places = {
        "here": Path.cwd(),
        "compiled code": cache_folder(),
        "temporary files": Path(tempfile.gettempdir()),
    }
    for name, path in places.items():
        free = shutil.disk_usage(existing(path)).free
        finding.facts[name] = f"{size(free)} free ({path})"
        if free < SCARCE:
            finding.doubt(
                f"Only {size(free)} are free for {name} ({path}).",
                "Free some space, or use another disk.",
                fails=free < NOTHING_LEFT,
            )


def terminal(finding: Finding) -> None:
    """Report whether the terminal can show the characters that commands print."""
    encoding = getattr(sys.__stdout__, "encoding", None) or "unknown"
    finding.facts["encoding"] = encoding
    finding.facts["TERM"] = os.environ.get("TERM", "") or "not set"
    finding.facts["width"] = str(shutil.get_terminal_size().columns)
    try:
        BEYOND_ASCII.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        finding.doubt(
            f"The terminal's encoding is {encoding}, so arrows and other symbols are printed as ?.",
            "Set PYTHONUTF8=1, and LANG to a UTF-8 locale such as C.UTF-8.",
        )


def existing(path: Path) -> Path:
    """Return the path, or its nearest parent folder that exists."""
    return next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
