"""Compiled code on disk: where it is, when it is out of date, and how several processes make it."""

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CacheImpl, IndexDataCacheFile, _CacheLocator

PACKAGE = Path(__file__).parent

#: Whether processes can start as copies of this one, with everything compiled and loaded.
FORKS = sys.platform == "linux"


#: What sources of compiled code have in them.
MARKS = b"@compiled", b"@inlined", b"@intrinsic", b"(NamedTuple)"


@cache
def source_stamp() -> str:
    """Return a hash of all sources that hold compiled functions, or types of their arguments.

    Numba notices that a compiled function's own file has changed, but not the file of a function
    it calls; the stamp makes every cached function depend on all of them.
    """
    digest = sha256(numba.__version__.encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if any(mark in source for mark in MARKS):
            digest.update(source)
    return digest.hexdigest()


def cache_folder() -> Path:
    """Return where compiled code is kept: ``KEM_CACHE``, or the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KEM_CACHE") or Path(base) / "kem_pymc")


class _PackageCacheLocator(_CacheLocator):
    """Keeps this package's compiled functions in :func:`cache_folder`, stamped as a whole."""

    def __init__(self, py_func: Callable, py_file: str) -> None:
        self._py_func = py_func
        self._py_file = py_file

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return source_stamp()

    def get_disambiguator(self) -> str:
        place = f"{self._py_file}:{self._py_func.__code__.co_firstlineno}"
        return sha256(place.encode()).hexdigest()[:16]

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> "_PackageCacheLocator | None":
        if not Path(py_file).is_relative_to(PACKAGE):
            return None
        locator = cls(py_func, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:  # a read-only home: numba's own locators may still find a place
            return None
        return locator


CacheImpl._locator_classes.insert(0, _PackageCacheLocator)


class _CacheFiles(IndexDataCacheFile):
    """The files of a function's cached code, which several processes may write at the same time.

    Numba numbers the files of a function's signatures as they come. Two processes that save two
    signatures together would give both one number, and load the wrong code. Here the name follows
    from the signature and the sources, and the index never tells of a file that isn't there yet.
    """

    def save(self, key: Any, data: Any) -> None:
        known = self._load_index()
        if not known:  # what there is belongs to other sources
            pattern = self._data_name_pattern.replace("{number:d}", "*")
            for old in Path(self._cache_path).glob(pattern):
                old.unlink(missing_ok=True)
        digest = sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._data_name(int(digest[:16], 16))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


def several_may_write(function: Any) -> Any:
    """Return a function that Numba compiles, its cache safe from processes that write together."""
    cache, locator = function._cache, function._cache._impl.locator
    cache._cache_file = _CacheFiles(
        cache.cache_path, cache._impl.filename_base, locator.get_source_stamp()
    )
    return function


def compile_side_by_side(functions: Sequence[Any], arguments: tuple, cores: int) -> None:
    """Compile functions for the same arguments, each in a process of its own as far as cores reach.

    What is in the cache already isn't compiled. Where processes can't start as copies of this one,
    nothing is: the first call of each function does it, here.

    Parameters
    ----------
    functions : sequence of functions decorated with :data:`compiled`
    arguments : tuple
        Only their types count.
    cores : int
    """
    signature = tuple(numba.typeof(argument) for argument in arguments)
    new = [f for f in functions if not _is_cached(f, signature)]
    shares = [new[k::cores] for k in range(min(cores, len(new)))]
    if not FORKS or len(shares) < 2:
        return
    context: Any = multiprocessing.get_context("fork")
    others = [
        context.Process(target=_compile_share, args=(share, signature), daemon=True)
        for share in shares[1:]
    ]
    with warnings.catch_warnings():
        # None of the other threads holds what compiling needs.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        for process in others:
            process.start()
    for function in shares[0]:
        function.compile(signature)
    for process in others:
        process.join()


def _is_cached(function: Any, signature: tuple) -> bool:
    cache = function._cache
    codegen = function.targetctx.codegen()
    return cache._index_key(signature, codegen) in cache._cache_file._load_index()


def _compile_share(functions: Sequence[Any], signature: tuple) -> None:
    # Whoever started this decides what Ctrl-C means; and meets what goes wrong, as it compiles
    # what it doesn't find.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(Exception):
        for function in functions:
            function.compile(signature)
