"""A small study with names that no page may take for markup, sampled once."""

import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kem_pymc as kem
from kem_pymc import priors
from kem_pymc.data.cohort import Cohort
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.posteriors import write_posterior
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.plots.report.report import report
from kem_pymc.runs.sampling import sample
from kem_pymc.selection import online
from kem_pymc.selection.kem import KEMSelector
from tests.shown import Page

#: Names of users, features and the target, as a hostile table might have them.
USER = "<script>alert(1)</script>"
FEATURE = '"><img src=x onerror=alert(2)>'
TARGET = "y' & </style><b>"


def cohort(users=3, features=(FEATURE,), seed=0) -> Cohort:
    """Return users with three time steps of three points, one of them with two time steps only."""
    rng = np.random.default_rng(seed)
    inputs = [rng.uniform(0, 10, (9 if u else 6, len(features))) for u in range(users)]
    return Cohort(
        users=(USER, *(f"u{u}" for u in range(1, users))),
        inputs=inputs,
        targets=[0.8 * x[:, 0] + rng.normal(0, 0.3, len(x)) for x in inputs],
        ends=[np.arange(3, len(x) + 1, 3) for x in inputs],
        features=features,
        target=TARGET,
    )


def fitted(folder: Path, features=(FEATURE,), candidates=("LIN0", "SE0")) -> Path:
    """Sample a study, and write what `kem fit` and `kem select` leave in a folder."""
    pilots = cohort(features=features)
    pool = CandidatePool(candidates, len(features))
    model = EvolutionModel(pilots, pool, priors.paper(), shared=None)
    idata = sample(model, draws=12, tune=4, chains=2, cores=1, random_seed=1, progress=False)
    learned = Evolutions.from_posterior(idata)
    learned.save(folder / "evolutions.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the command does: zarr speaks of its own format
        write_posterior(idata, folder / "posterior.zarr")
    settings = {
        "command": "kem fit <b>",
        "data": repr(pilots),
        "priors": {"noise": "LogNormal(2, 0.5)"},
        "sampler": {"chains": 3, "random_seed": 1},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    new = cohort(users=2, features=features, seed=1)
    trajectories = online.select_online(KEMSelector(learned), new)
    rows = [
        {"user": label, "time_step": step, **selection.to_row()}
        for label, own in trajectories.items()
        for step, selection in enumerate(own)
    ]
    pd.DataFrame(rows).to_csv(folder / "selections.csv", index=False)
    online.predictions(trajectories, new).to_csv(folder / "predictions.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Path:
    """Results of a study of one feature."""
    return fitted(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def wide_study(tmp_path_factory) -> Path:
    """Results of a study of three features."""
    names = (FEATURE, "age", "a_feature_with_quite_a_long_name_indeed")
    return fitted(tmp_path_factory.mktemp("wide"), names, ("LIN0", "SE1", "LIN0 x SE2", "ARD"))


@pytest.fixture(scope="session")
def html(study, tmp_path_factory):
    return report(study, tmp_path_factory.mktemp("r") / "r.html").read_text("utf-8")


@pytest.fixture(scope="session")
def page(html):
    return Page(html)


@pytest.fixture
def folder(study, tmp_path):
    return shutil.copytree(study, tmp_path / "study")


@pytest.fixture(scope="session")
def sharing(wide_study, tmp_path_factory):
    """A folder of evolutions with where users ended up."""
    learned = kem.Evolutions.load(wide_study / "evolutions.json")
    folder = tmp_path_factory.mktemp("sharing")
    whole = replace(learned, final=learned)
    whole.save(folder / "evolutions.json")
    return folder
