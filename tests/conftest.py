"""Compiled functions of tests, on disk like the package's and as quick to notice a change.

Numba alone would keep them until their own file changes, with what they call as it was then.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from numba.core.caching import CacheImpl

from kem_pymc.compiled import _PackageCacheLocator, cache_folder, source_stamp

TESTS = Path(__file__).parent


@cache
def tests_stamp() -> str:
    """Return a hash of all tests that hold compiled functions."""
    digest = sha256()
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source:
            digest.update(source)
    return digest.hexdigest()


class TestsCacheLocator(_PackageCacheLocator):
    """Stamps compiled functions of tests, and of mutants, with all sources that they depend on."""

    def get_source_stamp(self) -> str:
        own = Path(self._py_file).read_bytes()
        return sha256(own + (source_stamp() + tests_stamp()).encode()).hexdigest()

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> "TestsCacheLocator | None":
        file = Path(py_file)
        if not (file.is_relative_to(TESTS) or file.parent == cache_folder() / "mutants"):
            return None
        locator = cls(py_func, py_file)
        locator.ensure_cache_path()
        return locator


CacheImpl._locator_classes.insert(0, TestsCacheLocator)
