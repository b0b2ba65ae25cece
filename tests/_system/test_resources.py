"""Cores and threads."""

from functools import partial

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from kem_pymc._system import executors, resources
from kem_pymc._system.executors import Processes, Serial, make_executor
from kem_pymc.data.datasets.simulate import draw_function
from kem_pymc.gp.process import draw_functions


def test_workers_are_as_many_as_may_be_used(monkeypatch):
    monkeypatch.setattr(executors, "cpu_count", lambda: 3)
    executor = make_executor()
    assert isinstance(executor, Processes)
    assert executor.cores == 3
    monkeypatch.setattr(executors, "cpu_count", lambda: 1)
    assert isinstance(make_executor(), Serial)


def threads_there():
    """Return the most threads that a library of linear algebra takes."""
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


class TestOneBlasThread:
    @pytest.fixture(autouse=True)
    def _several(self):
        scipy.linalg.eigh(np.eye(2))
        with threadpool_limits(2, user_api="blas"):
            yield

    def test_others_get_theirs_back(self):
        @resources.one_blas_thread()
        def fail():
            assert threads_there() == 1
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert threads_there() == 2

    @pytest.mark.parametrize("executor", [Serial(), Processes(2)], ids=["here", "processes"])
    def test_workers_have_one(self, executor, monkeypatch):
        for library in ("OPENBLAS", "OMP"):
            monkeypatch.delenv(f"{library}_NUM_THREADS", raising=False)
        done = [result for _, result in executor.map_unordered(lambda _: threads_there(), range(3))]
        assert done == [1, 1, 1]
        assert threads_there() == 2

    def test_a_seed_gives_the_same_functions(self):
        """Without it, they differ by rounding, and chains of them then by more."""
        x = np.linspace(0.0, 20.0, 203)
        theta = {"SE0.amplitude": 9.0, "SE0.lengthscale": 1.0}
        for draw in (partial(draw_function, "SE0", theta), partial(draws_of, theta)):
            drawn = []
            for count in (1, 2):
                with threadpool_limits(count, user_api="blas"):
                    drawn.append(draw(x, np.random.default_rng(3)))
            assert np.array_equal(*drawn)


def draws_of(theta, x, rng):
    return draw_functions("SE0", x, theta, draws=2, rng=rng)
