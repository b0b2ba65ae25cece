"""Compiled functions of tests, on disk like the package's; figures of statistical tests, printed.

Numba alone would keep compiled functions until their own file changes, with what they call as it
was then.
"""

import os
import sys

# Before NumPy is imported, and for the processes that tests start: threads of linear algebra wait
# for each other busily where several tests run side by side, which took a third of all time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytensor
import pytest

from kem_pymc._system.executors import DaskPool, Processes, Serial
from kem_pymc._system.jit.cache import LOCATORS, PackageCacheLocator, cache_folder, source_stamp
from tests.chromium import ARGUMENTS, CHROMIUM
from tests.hierarchical import hierarchical  # noqa: F401
from tests.tiny_study import at_a_terminal, cohort, engine, pool, table  # noqa: F401

TESTS = Path(__file__).parent

# Tests call most functions of PyTensor a few times, so compiling them by Numba would take most of
# the time. Commands that tests start in processes of their own use PyTensor's default.
pytensor.config.mode = "FAST_COMPILE"

# Where Python may not write bytecode, every new process compiles some 3,700 modules, which takes 8
# to 16 seconds. Processes that tests start inherit this.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# Pictures are looked at in memory.
os.environ["MPLBACKEND"] = "agg"


@pytest.fixture(autouse=True)
def _no_figures():
    """Close the figures of a test, which pyplot would keep and warn of."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@cache
def tests_stamp() -> str:
    """Return a hash of all tests that hold compiled functions."""
    digest = sha256()
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source:
            digest.update(source)
    return digest.hexdigest()


class TestsCacheLocator(PackageCacheLocator):
    """Stamps compiled functions of tests, and of mutants, with all sources that they depend on."""

    def get_source_stamp(self) -> str:
        own = Path(self._py_file).read_bytes()
        return sha256(own + (source_stamp() + tests_stamp()).encode()).hexdigest()

    def get_disambiguator(self) -> str:  # these files aren't in the package
        place = f"{self._py_file}:{self._py_func.__code__.co_firstlineno}"
        return sha256(place.encode()).hexdigest()[:16]

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> "TestsCacheLocator | None":
        file = Path(py_file)
        if not (file.is_relative_to(TESTS) or file.parent == cache_folder() / "mutants"):
            return None
        locator = cls(py_func, py_file)
        locator.ensure_cache_path()
        return locator


LOCATORS.insert(0, f"{__name__}.{TestsCacheLocator.__qualname__}")


@pytest.fixture(scope="module")
def address():
    """Address of a Dask cluster of two workers."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=["here", "processes", pytest.param("cluster", marks=pytest.mark.cluster)])
def executor(request):
    """Workers of each kind."""
    if request.param == "cluster":
        with closing(DaskPool(request.getfixturevalue("address"))) as executor:
            yield executor
        return
    yield Serial() if request.param == "here" else Processes(2)


@pytest.fixture
def figures(record_property):
    """Return what records figures of a test by name, for the table at the end of the run."""

    def record(values: Mapping[str, float]) -> None:
        record_property("figures", ", ".join(f"{k} {v:.2g}" for k, v in values.items()))

    return record


def pytest_addoption(parser):
    """Add the option that draws pictures anew instead of comparing them."""
    text = "draw the pictures of tests/plots/baseline anew"
    parser.addoption("--draw-baselines", action="store_true", help=text)


def pytest_terminal_summary(terminalreporter, config):
    """Print the figures of statistical tests where these were asked for."""
    if config.option.markexpr != "slow" and config.option.verbose < 0:
        return
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "figures":
                    case = report.nodeid.rpartition("::")[2]
                    terminalreporter.write_line(f"{case} ({report.duration:.0f} s): {value}")


@pytest.fixture(scope="session")
def browser():
    """Chromium, for pages."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield opened
        opened.close()
