"""An experiment of seconds: two trials of a tiny synthetic study, most methods."""

import os

import pytest

from experiments import settings as given
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.output import Evidence
from kem_pymc.comparison.runner import run_tasks, tasks_of
from kem_pymc.comparison.store import Store

TINY = """
[sampling]
cut = { chains = 1, tune = 5, draws = 10 }
joint = { chains = 1, tune = 5, draws = 5 }

[studies.tiny]
title = "Tiny"
data = "synthetic"
options = { pilot_users = 4, test_users = 4, time_steps = 2, study = "two_types" }
pool = ["LIN0", "PER0", "SE0"]
priors = "synthetic"
judged = "truth"
trials = 2
users = "new"

[studies.batches]
title = "Batches"
data = "synthetic"
options = { pilot_users = 4, test_users = 3, time_steps = 3, study = "similar" }
pool = ["LIN0", "PER0", "SE0"]
priors = "synthetic"
judged = "next"
trials = 2
users = "new"

[studies.panel]
title = "Panel"
data = "panel"
options = { pilot_users = 3, test_users = 2, time_steps = 2, study = "slopes" }
pool = ["CONST", "LIN0"]
judged = "truth"
trials = 1

[methods."KEM"]
learns = "cut"

[methods."KEM, ml, bic"]
learns = "cut"
options = { fit = "ml", criterion = "bic" }

[methods."Stratified"]
learns = "stratified"

[methods."Final"]
learns = "final"

[methods."Memoryless"]
learns = "nothing"
options = { fit = "map", criterion = "laplace", steps = 50 }

[methods."ARD"]
learns = "ard"
options = { fit = "pilot" }

[methods."KEM, map, process"]
learns = "cut"
options = { fit = "map", criterion = "posterior" }

[methods."Final, map"]
learns = "final"
options = { fit = "map" }

[methods."KEM, averaged"]
learns = "cut"
options = { average = 3 }

[methods."KEM, one noise prior"]
learns = "cut"
supposes = "one-noise"

[methods."KEM joint"]
learns = "joint"

[figures.kem-fig3]
studies = ["tiny"]
methods = ["KEM", "Stratified", "Final"]
trials = 1

[figures.kem-fig4]
studies = ["tiny"]
methods = ["KEM", "Stratified", "Final", "Memoryless", "ARD"]

[figures.kem-fig5]
studies = ["tiny"]
methods = ["KEM", "Final"]

[figures.kem-fig6]
studies = ["batches", "tiny"]
methods = ["KEM", "Final"]

[figures.kem-fig9]
studies = ["tiny"]
methods = ["KEM", "Final"]

[figures.kem-table2]
studies = ["batches"]
methods = ["KEM", "KEM, ml, bic"]

[figures.kem-calibration]
studies = ["tiny", "batches"]
methods = ["KEM", "Final"]

[figures.kem-peers]
studies = ["batches", "tiny"]
methods = ["KEM", "Final"]

[figures.kem-ablation]
studies = ["tiny"]
trials = 1
methods = [
  "KEM", "KEM, ml, bic", "KEM, map, process", "KEM, averaged", "KEM, one noise prior", "KEM joint",
  "Final, map",
]

[figures.kem-targets]
studies = ["tiny"]
methods = ["KEM", "KEM joint"]
trials = 1

[figures.kem-grid]
studies = ["tiny"]
methods = ["KEM", "KEM joint"]
trials = 1

[figures.kem-types]
studies = ["tiny", "batches"]
methods = ["KEM", "Final"]

[figures.kem-defaults]
studies = ["batches"]
methods = ["KEM", "KEM, ml, bic"]
folds = 2
trials = 1

[figures.kem-choices]
studies = ["panel"]
methods = ["KEM", "Final"]
seed = 100

[quick]
trials = 1
test_users = 2
steps = 20

[quick.sampling]
cut = { chains = 1, tune = 2, draws = 4 }
joint = { chains = 1, tune = 2, draws = 3 }
"""


@pytest.fixture(scope="session")
def tiny():
    return given.read(TINY)


@pytest.fixture(scope="session")
def done(tiny, tmp_path_factory):
    """All of it, run once: settings, store and all tasks.

    Test processes share the store, where what is there isn't run again. One begins at the front
    and another at the back, so that neither waits.
    """
    folder, worker = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_WORKER", "")
    store = Store((folder.parent if worker else folder) / "experiment")
    tasks = tasks_of(tiny, tiny.figures.values())
    for task in reversed(tasks) if worker.endswith(("1", "3")) else tasks:
        run_tasks([task], store, Serial())
    return store


@pytest.fixture
def evidence(tiny, done):
    """What a figure is made of, by name."""
    return lambda name: Evidence(tiny, tasks_of(tiny, [tiny.figures[name]]), done)


@pytest.fixture
def figure(tiny):
    return tiny.figures["kem-fig5"]


def replaced(figure, **changes):
    """A figure with other settings."""
    return figure.model_copy(update=changes)


def numbers(table):
    """All but times, which are never the same."""
    return table.drop(columns="seconds")
