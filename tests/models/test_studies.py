"""The gallery of studies: those of the papers are theirs, and those that extend the package run."""

import ast
import runpy
import subprocess
import sys
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import kem_pymc as kem
from kem_pymc import CandidatePool, datasets
from kem_pymc._system.executors import DaskPool
from kem_pymc.cli.study import load_study
from kem_pymc.errors import InputError
from kem_pymc.kernels import base
from kem_pymc.selection.online import select_online
from models.loaders import candidates
from tests.cli.conftest import fine

MODELS = Path(__file__).parents[2] / "models"

#: Pilot users, test users, time steps, dimension (table 1; fires have 9 usable features). The
#: studies of MIMIC and HeartSteps are of open data, not the paper's.
SIZES = {
    "synthetic": (10, 50, 6, 1),
    "energy": (7, 8, 10, 8),
    "housing": (5, 5, 10, 13),
    "fires": (4, 4, 10, 9),
    "concrete": (10, 10, 10, 8),
    "mimic": (4, 5, 7, 14),
    "heartsteps": (9, 9, 10, 17),
}
#: The folder of the data home, and the candidate pool, where they aren't "uci" and the name.
FOLDERS = {"mimic": "mimic_demo", "heartsteps": "heartsteps"}
POOLS = {"mimic": "mimic_demo", "heartsteps": "heartsteps_daily"}


#: Studies that go on from the synthetic one, and the template that ``kem init`` writes.
EXTENDING = ("extending_kernels", "extending_priors")
TEMPLATE = "template"


def text_of(name):
    return (MODELS / f"{name}.py").read_text("utf-8")


def test_every_study_is_tested():
    assert {path.stem for path in MODELS.glob("*.py")} == {*SIZES, *EXTENDING, TEMPLATE}


@pytest.mark.parametrize("name", SIZES)
def test_study_is_the_papers(name):
    folder = FOLDERS.get(name, "uci")
    if name != "synthetic" and not datasets.data_home().joinpath(folder).is_dir():
        with pytest.raises(InputError, match="KEM_DATA"):
            load_study(MODELS / f"{name}.py")
        pytest.skip(f"KEM_DATA doesn't hold the files of {folder}")
    study = load_study(MODELS / f"{name}.py")
    pilot, test = study.model.cohort, study.test
    sizes = (pilot.n_users, test.n_users, pilot.max_steps, pilot.dimension)
    assert sizes == SIZES[name]
    assert study.model.pool == CandidatePool(candidates(POOLS.get(name, name)), pilot.dimension)
    assert study.model.concentration == 1
    assert study.model.feedback == "cut"
    assert study.model.priors.scaling == ("none" if name == "synthetic" else "unit")
    assert set(study.sampler) == {"draws", "tune", "chains", "random_seed"}


@pytest.mark.parametrize("name", [*SIZES, *EXTENDING, TEMPLATE])
def test_study_reads_like_a_methods_section(name):
    """What it is about, then data, candidates, priors in this order, and nothing but the model."""
    text = text_of(name)
    assert ast.get_docstring(ast.parse(text))
    parts = ("Data", "Candidates", "Priors", "The model" if name == TEMPLATE else "Model")
    places = [text.index(f"\n# {part}") for part in parts]
    assert places == sorted(places)
    statements = ast.parse(text).body
    imported = {ast.unparse(s) for s in statements if isinstance(s, ast.Import | ast.ImportFrom)}
    assert {line for line in imported if not line.startswith("from loaders import ")} <= {
        *("import kem_pymc as kem", "import pymc as pm", "import pytensor.tensor as pt"),
        *("import math", "import pandas as pd"),
    }
    assert "import kem_pymc as kem" in imported
    for command in () if name == TEMPLATE else ("fit", "select"):
        assert f"\n    kem {command} models/{name}.py" in text


def test_there_is_one_template():
    written = files("kem_pymc.cli").joinpath("study_template.txt")
    assert MODELS.joinpath("template.py").samefile(str(written))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(n, marks=pytest.mark.newcomer if n == "synthetic" else pytest.mark.slow)
        for n in ("synthetic", *EXTENDING)
    ],
)
def worked(request, tmp_path_factory):
    """Folder of a study that was shrunk, learned from, selected with and diagnosed."""
    folder = tmp_path_factory.mktemp(request.param)
    text = text_of(request.param)
    for size, less in (("users=10", "users=3"), ("users=50", "users=2"), ("steps=6", "steps=3")):
        assert size in text
        text = text.replace(size, less)
    study = folder / "study.py"
    study.write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
        counts = ("--draws", 6, "--tune", 4, "--chains", 2, "--cores", 2)
        fine("fit", study, *counts, "--out", folder / "fit")
        learned = folder / "fit" / "evolutions.json"
        for cores in (1, 2):
            out = folder / f"selections-{cores}.csv"
            fine("select", study, "--evolutions", learned, "--cores", cores, "--out", out)
        fine("diagnose", folder / "fit", "--study", study)
        yield folder


@pytest.fixture
def study(worked):
    return load_study(worked / "study.py")


def test_study_runs(worked, study):
    one, two = (pd.read_csv(worked / f"selections-{cores}.csv") for cores in (1, 2))
    pd.testing.assert_frame_equal(one.drop(columns="run_time"), two.drop(columns="run_time"))
    assert len(one) == study.test.n_datasets
    assert np.isfinite(one["log_likelihood"]).all()
    drawn = {path.name for path in worked.rglob("*.png")}
    assert {"evolutions.png", "chains.png", "edges.png", "co_clustering.png"} <= drawn


def test_users_of_a_table(worked, study, tmp_path):
    """The study file registers kernels, and users come from the table."""
    table, out = tmp_path / "new.csv", tmp_path / "selections.csv"
    study.test.to_frame().to_csv(table, index=False)
    learned = worked / "fit" / "evolutions.json"
    columns = ("--user", "user", "--time", "time_step", "--cores", 1)
    files = ("--evolutions", learned, "--data", table, "--out", out)
    fine("select", worked / "study.py", *files, *columns)
    own, theirs = (pd.read_csv(path) for path in (out, worked / "selections-1.csv"))
    assert own["composition"].tolist() == theirs["composition"].tolist()


def test_evolutions_are_read_in_a_fresh_process(worked):
    learned = worked / "fit" / "evolutions.json"
    program = (
        "import runpy, sys, kem_pymc as kem; runpy.run_path(sys.argv[1]); "
        "print(kem.Evolutions.load(sys.argv[2]).content_hash)"
    )
    command = [sys.executable, "-c", program, worked / "study.py", learned]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert found.stdout.strip() == kem.Evolutions.load(learned).content_hash


def test_evolutions_say_what_they_need(worked, monkeypatch):
    learned = worked / "fit" / "evolutions.json"
    built_in = {name: base._REGISTRY[name] for name in sorted(base.BUILT_IN)}
    monkeypatch.setattr(base, "_REGISTRY", built_in)
    if "register_kernel" in (worked / "study.py").read_text("utf-8"):
        with pytest.raises(InputError, match=r"'COS0' is not .* Run the study file first"):
            kem.Evolutions.load(learned)
    else:
        kem.Evolutions.load(learned)


def test_priors_and_kernels_make_plain_models(worked, study):
    idata = az.from_zarr(worked / "fit" / "posterior.zarr")
    clusters = kem.representative(idata)
    model = clusters.model(0, study.model.cohort, study.model.priors)
    assert np.isfinite(sum(model.point_logps().values()))


def test_workers_of_a_cluster_learn_of_a_new_kernel(worked, study, address):
    """They share no memory with this process, unlike those of `kem select --cores`."""
    selector = kem.KEMSelector(kem.Evolutions.load(worked / "fit" / "evolutions.json"))
    with closing(DaskPool(address)) as executor:
        trajectories = select_online(selector, study.test, executor)
    here = select_online(selector, study.test)
    assert {u: [str(s) for s in own] for u, own in trajectories.items()} == {
        u: [str(s) for s in own] for u, own in here.items()
    }


def test_new_priors_are_what_the_study_says():
    priors = load_study(MODELS / "extending_priors.py").model.priors
    values = np.array([0.01, 0.7, 2.0, 30.0])
    squared = stats.f(1, 3, scale=2.0**2).logpdf(values)  # of a Student t with 3 degrees, times 2
    density = [float(pm.logp(priors.hyperparameters["amplitude"], v).eval()) for v in values]
    np.testing.assert_allclose(density, squared, atol=1e-5)  # PyTensor keeps 2.0 in single
    rows = dict(priors.to_frame().to_numpy())
    assert rows["lengthscale"] == "LogNormal(typical_log_lengthscale, spread_of_lengthscales)"
    assert rows["typical_log_lengthscale"] == "Normal(0, 1)"


class TestNewKernel:
    @pytest.fixture
    def names(self, monkeypatch):
        monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
        return runpy.run_path(str(MODELS / "extending_kernels.py"))

    @pytest.mark.usefixtures("names")
    def test_it_is_a_kernel(self):
        found = kem.kernels.check_kernel("COS")
        assert found.least_eigenvalue > -1e-12
        assert found.gradient_error < 1e-6

    def test_it_is_used_and_running_the_study_again_changes_nothing(self, names):
        assert any("COS" in candidate for candidate in names["pool"].names)
        before = base.base_kernels()
        again = runpy.run_path(str(MODELS / "extending_kernels.py"))
        assert base.base_kernels() == before
        assert again["pool"] == names["pool"]
