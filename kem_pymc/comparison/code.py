"""Version of the code that results depend on, and names of files."""

import re
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from kem_pymc._jit.cache import PACKAGE

#: Modules that use results but don't produce any, so that changes to them leave results unchanged.
#: Modules that produce results import none of these.
ONLOOKERS = (
    *("cli", "plots", "reports"),
    *("comparison/figures", "comparison/output.py", "comparison/report.py", "comparison/tables.py"),
    "comparison/runner.py",
    *("comparison/store.py", "comparison/summaries.py", "comparison/verdicts.py"),
)


def code() -> str:
    """Return the version of the package with a digest of the sources that results depend on."""
    return f"{version('kem-pymc')} ({source_digest(PACKAGE)[:8]})"


@cache
def source_digest(package: Path) -> str:
    """Return a SHA-256 hash of a package's sources, without those that only use results."""
    digest = sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if not any(name.is_relative_to(onlooker) for onlooker in ONLOOKERS):
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def slug(name: str) -> str:
    """Return a name in the form used in file names: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
