"""An experiment of seconds: two trials of a tiny synthetic study, most methods."""

import os

import pytest

from experiments.kem.trials import KEMSettings
from experiments.results import Options
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.methods import Sampling
from kem_pymc.comparison.stored import run_tasks
from kem_pymc.comparison.task import Scale


def study(title, users, steps, trials=2, **fields):
    """A study of 4 pilot users and some test users."""
    options = {"pilot_users": 4, "test_users": users, "time_steps": steps}
    fields = {"data": "synthetic", "new_users": True, "priors": "synthetic"} | fields
    fields["options"] = options | fields.get("options", {})
    return {"title": title, "pool": ["LIN0", "PER0", "SE0"], "trials": trials} | fields


def figure(studies, *methods, **fields):
    return {"studies": studies, "methods": list(methods)} | fields


ALONE = {"shared": False}
ML = {"options": {"fit": "ml", "criterion": "bic"}}
TINY = {
    "studies": {
        "tiny": study("Tiny", 4, 2, options={"study": "two_types"}, target="truth"),
        "batches": study("Batches", 3, 3, options={"study": "similar"}),
        "panel": study(
            "Panel", 2, 2, 1, data="panel", options={"study": "slopes"}, priors="default",
            pool=["CONST", "LIN0"], target="truth",
        ),
    },
    "methods": {
        "KEM": {"like": "KEM", **ALONE},
        "KEM, ml, bic": {"like": "KEM", **ALONE, **ML},
        "Stratified": {"like": "Stratified", **ALONE},
        "Final": {"like": "Final", **ALONE},
        "Memoryless": {"like": "Memoryless", **ALONE, "options": {"steps": 50}},
        "ARD": {"like": "ARD", **ALONE},
        "KEM, averaged": {"like": "KEM", **ALONE, "options": {"average": 3}},
        "KEM, one noise prior": {"like": "KEM", **ALONE, "prior_variant": "one-noise"},
    },
    "figures": {
        "kem-fig3": figure(["tiny"], "KEM", "Stratified", "Final", trials=1),
        "kem-fig4": figure(["tiny"], "KEM", "Stratified", "Final", "Memoryless", "ARD"),
        "kem-fig5": figure(["tiny"], "KEM", "Final"),
        "kem-fig6": figure(["batches", "tiny"], "KEM", "Final"),
        "kem-fig9": figure(["tiny"], "KEM", "Final"),
        "kem-table2": figure(["batches"], "KEM", "KEM, ml, bic"),
        "kem-calibration": figure(["tiny", "batches"], "KEM", "Final"),
        "kem-peers": figure(["batches", "tiny"], "KEM", "Final"),
        "kem-ablation": figure(
            ["tiny"], "KEM", "KEM, averaged", "KEM, one noise prior", "KEM joint", trials=1
        ),
        "kem-grid": figure(["tiny"], "KEM", "KEM joint", trials=1),
        "kem-defaults": figure(["batches"], "KEM", "KEM, ml, bic", folds=2, trials=1),
        "kem-choices": figure(["panel"], "KEM", "Final", seed=100),
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def tiny():
    little = {"cut": Sampling(1, 5, 10), "joint": Sampling(1, 5, 5)}
    less = {"cut": Sampling(1, 2, 4), "joint": Sampling(1, 2, 3)}
    return KEMSettings.of(TINY)._replace(scales={False: Scale(little), True: Scale(less, 1, 2)})


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """The folder of all results; test processes share it."""
    folder, worker = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_WORKER", "")
    return (folder.parent if worker else folder) / "experiment"


@pytest.fixture(scope="session")
def evidence(tiny, out):
    """What a figure is made of, by name; what isn't there is run."""

    def of(name):
        tasks = tiny.tasks(name, Options(out))
        run_tasks(tasks, out, Serial())
        return tiny.evidence(tasks, out)

    return of


def with_figure(settings, name, **changes):
    """The settings with other ones of a figure."""
    own = settings.figures[name] | changes
    return settings._replace(figures={**settings.figures, name: own})
