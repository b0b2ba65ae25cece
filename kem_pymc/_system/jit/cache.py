"""Cache of compiled code on disk: its folder, its invalidation, and writes by several processes."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile, _CacheLocator

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(__file__).parents[2]

#: Seconds to wait for another process that compiles the same function.
WAIT = 60.0

#: Strings by which source files with compiled code are found.
MARKS = b"@compiled", b"@inlined", b"@intrinsic", b"(NamedTuple)"


@cache
def source_stamp() -> str:
    """Return a hash of all sources of compiled functions, their arguments' types, and this folder.

    Numba detects changes in the file of a compiled function, but not in the files of functions
    that it calls, or of how they are compiled. With the stamp, every cached function depends on all
    of these files.
    """
    digest = sha256(numba.__version__.encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if path.parent == Path(__file__).parent or any(mark in source for mark in MARKS):
            digest.update(source)
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return the folder of compiled code: ``KEM_CACHE``, or one in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KEM_CACHE") or Path(base) / "kem_pymc")


class PackageCacheLocator(_CacheLocator):
    """Locator of this package's compiled functions: :func:`cache_folder`, with a common stamp."""

    def __init__(self, py_func: Callable, py_file: str) -> None:
        self._py_func = py_func
        self._py_file = py_file

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_stamp()

    def get_disambiguator(self) -> str:
        # Relative, so that a copy of the package with the same sources finds the same code.
        file = Path(self._py_file).relative_to(PACKAGE).as_posix()
        place = f"{file}:{self._py_func.__code__.co_firstlineno}"
        return sha256(place.encode()).hexdigest()[:16]

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> "PackageCacheLocator | None":
        if not Path(py_file).is_relative_to(PACKAGE):
            return None
        locator = cls(py_func, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:  # a read-only home: Numba's own locators may still find a folder
            return None
        return locator


#: Locators of compiled functions, in the order in which Numba tries them.
LOCATORS = [
    f"{__name__}.{PackageCacheLocator.__qualname__}",
    "UserProvidedCacheLocator",
    "InTreeCacheLocator",
    "UserWideCacheLocator",
    "IPythonCacheLocator",
]


@contextmanager
def package_locators() -> Iterator[None]:
    """Let Numba look for cached code of functions that are decorated here by :data:`LOCATORS`."""
    before = numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_LOCATOR_CLASSES = ",".join(LOCATORS)
    try:
        yield
    finally:
        numba.config.CACHE_LOCATOR_CLASSES = before


class _CacheFiles(IndexDataCacheFile):
    """Files of a function's cached code, which several processes may write at the same time.

    Numba numbers the files of a function's signatures in the order in which they are saved. Two
    processes that save two signatures at the same time would use the same number, and then load
    the wrong code. Here, the file name is a hash of the signature and the sources, and a file is
    written before it is added to the index.
    """

    def save(self, key: Any, data: Any) -> None:
        index = self._load_index()
        if not index:  # existing files belong to other sources
            pattern = self._data_name_pattern.replace("{number:d}", "*")
            for old in Path(self._cache_path).glob(pattern):
                old.unlink(missing_ok=True)
        digest = sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._data_name(int(digest[:16], 16))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):  # its types are those of another version's modules
            return {}


def for_processes(function: Any) -> Any:
    """Return a Numba function that several processes may compile and save at the same time.

    Processes that need the same code wait for the first of them, and load it.
    """
    cache, locator = function._cache, function._cache._impl.locator
    cache._cache_file = _CacheFiles(
        cache.cache_path, cache._impl.filename_base, locator.get_source_stamp()
    )
    compile_here = function.compile

    def compile_once(signature: Any) -> Any:
        with only_here(Path(cache.cache_path), f"{cache._impl.filename_base} {signature}"):
            return compile_here(signature)

    function.compile = compile_once
    return function


@contextmanager
def only_here(folder: Path, what: str) -> Iterator[None]:
    """Let other processes wait that do the same, if the system and the folder allow locks.

    After `WAIT` seconds a process goes on, because the other one may be stopped.
    """
    place = int(sha256(what.encode()).hexdigest()[:14], 16)  # of a byte that stands for it
    end = time.monotonic() + WAIT
    try:
        file = _lock_file(folder)
        while time.monotonic() < end:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                break
            except BlockingIOError:
                time.sleep(0.05)
    except (AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


@cache
def _lock_file(folder: Path) -> int:
    # It stays open: closing it anywhere in a process would end all locks of the process.
    return os.open(folder / "lock", os.O_RDWR | os.O_CREAT)


def is_cached(function: Any, signature: tuple) -> bool:
    """Return whether the cache has a compiled function, as Python calls it, for argument types."""
    cache = function.entry._cache
    codegen = function.entry.targetctx.codegen()
    return cache._index_key(signature, codegen) in cache._cache_file._load_index()
