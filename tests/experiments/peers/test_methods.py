"""Peers as methods of comparisons: they run on a study, and their packages agree with ours."""

import importlib.util
import sys

import numpy as np
import pytest

from experiments.kem.figures import FIGURES
from experiments.kem.methods import METHODS
from experiments.kem.trials import KEMEvidence, KEMTask
from experiments.peers import boosted, packages, r
from experiments.peers.methods import PEERS
from kem_pymc._system.executors import Serial
from kem_pymc.comparison.methods import Sampling, Training
from kem_pymc.comparison.stored import run_tasks
from kem_pymc.comparison.study import Study
from kem_pymc.comparison.task import Scale, tasks_of
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors import paper
from tests.experiments.peers.conftest import users_at


def needs(*names):
    """Skip without packages of the extra `peers`."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} isn't installed")


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """The page of methods that need neither R nor another package."""
    out = tmp_path_factory.mktemp("peers")
    cohort = users_at(range(4), 12, np.random.default_rng(1))
    study = Study(name="lines", title="Lines", cohort=cohort, pool=("CONST", "LIN0"))
    methods = {name: METHODS[name] for name in ("KEM", "Unstructured", "Empirical GP", "IE-GP")}
    scale = Scale({"cut": Sampling(1, 5, 5)}, test_users=3)
    tasks = [KEMTask(**vars(task), out=out) for task in tasks_of(study, methods, 1, scale)]
    run_tasks(tasks, out, Serial())
    return FIGURES["kem-strongest"](KEMEvidence(tasks, out, {"lines": study}, METHODS))


def test_every_peer_is_a_method_with_results_of_its_own():
    assert [name for name in METHODS if name in PEERS] == list(PEERS)
    assert len({repr(METHODS[name].training_key()) for name in PEERS}) == len(PEERS)


def test_results_of_another_version_are_others(cohort, tmp_path, monkeypatch):
    """Catches a peer that is changed and whose stored results are taken for new ones."""
    study = Study(name="lines", title="Lines", cohort=cohort, pool=("LIN0",))
    (task,) = tasks_of(study, {"mgcv": METHODS["mgcv"]}, 1)
    before, other = task.file(tmp_path), tmp_path / "mixed.R"
    other.write_text("# another one")
    monkeypatch.setattr(r, "SCRIPT", other)
    assert task.file(tmp_path) != before


def test_a_missing_library_is_named(cohort, monkeypatch):
    monkeypatch.setitem(sys.modules, "gpboost", None)
    training = Training(cohort, CandidatePool(["LIN0"]), paper(), Scaling.unit(cohort), None, {})
    with pytest.raises(InputError, match=r"GPBoost needs gpboost, .* --extra peers"):
        METHODS["GPBoost"].selector(training)


def test_the_page_has_scores_and_costs(output):
    """Every method has the same users; kernels change in none but KEM; states are a user's own."""
    table = output.tables["Scores and costs"].loc["Lines"]
    assert list(table.index) == ["KEM", "Unstructured", "Empirical GP", "IE-GP"]
    assert (table["users"] == 3).all()
    first = {name: table[name].str.partition(" ")[0] for name in table.columns[1:]}
    for name in ("log score", "CRPS", "ms for an update", "KB of state"):
        assert np.isfinite(first[name].astype(float)).all()
    changes = first["changes of kernel, per cent"]
    assert changes["KEM"] != ""
    assert (changes.drop("KEM") == "").all()
    kilobytes = first["KB of state"].astype(float)
    assert kilobytes["Unstructured"] < 2 < kilobytes["IE-GP"]
    assert "Mean gain of KEM" not in output.tables or len(output.tables["Verdicts"]) == 3


@needs("sklearn", "gpytorch")
@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")  # of GPyTorch's imports
@pytest.mark.parametrize("fit", [packages.pooled_gp, packages.two_level_gp])
def test_gps_of_packages_are_joint_distributions(fit, pilots):
    """Noise is included, and rows of a user depend on each other."""
    mean, covariance = fit(pilots, 0)(pilots.x[:6])
    assert mean.shape == (6,)
    assert np.linalg.eigvalsh(covariance)[0] > 1e-5
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-8)


@needs("gpboost")
@pytest.mark.integration
def test_boosted_trees_have_levels_and_slopes(pilots, monkeypatch):
    """Rows of a user depend on each other by their times; noise comes on top of it."""
    one = {"learning_rate": [0.1], "min_data_in_leaf": [5], "max_depth": [3]}
    monkeypatch.setattr(boosted, "GRID", one)
    monkeypatch.setattr(boosted, "TRIED", None)
    mean, covariance = boosted.boosted_trees(pilots, 0)(pilots.x[:6])
    times = pilots.x[:6, 0]
    assert np.corrcoef(mean, times)[0, 1] > 0.5
    level = covariance[0, 1]
    slope = (covariance[4, 5] - level) / (times[4] * times[5])
    noise = np.diag(covariance) - level - slope * times**2
    assert min(level, slope, noise[0]) > 0
    expected = level + slope * np.outer(times, times) + noise[0] * np.eye(6)
    np.testing.assert_allclose(covariance, expected, atol=1e-10)
