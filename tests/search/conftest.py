import numpy as np
import pytest

from kem_pymc.gp.fit import Fit
from kem_pymc.kernels import base
from kem_pymc.kernels.composition import Composition
from kem_pymc.search.evaluation import Evaluation, Optimum
from kem_pymc.search.run import search


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A registry of base kernels that other tests don't see."""
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))


def series(n=40, seed=0):
    """Return a growing rhythm with noise: x (n,) in years, y (n,)."""
    rng = np.random.default_rng(seed)
    x = 1990 + np.arange(n) / 8
    return x, 100 + 10 * (x - 1990) + 5 * np.sin(2 * np.pi * x) + rng.normal(0, 0.5, n)


def quiet(*arguments, **options):
    return search(*arguments, progressbar=False, **options)


def evaluated(expression, score, values=(0.0,)):
    """An evaluation of a model by hand."""
    mode = Optimum(Fit(np.array(values), 0.0, 0.0, 1, True), 0, score)
    return Evaluation(Composition.parse(str(expression)), (mode,), 1, 0.1)


def paths(result):
    """The path of a search without its times."""
    return result.path.drop(columns=["seconds", "elapsed"])


@pytest.fixture(scope="session")
def found():
    """A greedy search on the series."""
    return search(*series(), "cks", budget=12, progressbar=False)
