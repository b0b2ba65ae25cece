"""What commands read, changed in hundreds of ways: refused, or used."""

import json
import shutil
import warnings
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from kem_pymc.cli.job import Job
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.posteriors import VARIABLES, read_posterior
from kem_pymc.plots.report.gather import planned_chains, read_settings
from tests.evolutions.test_hostile_files import FIXED, names
from tests.mutations import mutated, written

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def counts(request):
    """How often something was refused, and how often read; printed at the end."""
    found = Counter()
    yield found
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{request.module.__name__}: {dict(found)}")  # noqa: T201


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def posterior(fitted, folder):
    """The parts of a posterior that evolutions are made of."""
    whole = read_posterior(fitted / "posterior.zarr")
    needed = {"posterior": [*VARIABLES], "constant_data": ["study"]}
    groups = {name: whole[name].to_dataset()[own] for name, own in needed.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata")
        xr.DataTree.from_dict(groups).to_zarr(folder / "posterior.zarr")
    return folder / "posterior.zarr"


@settings(max_examples=150, **FIXED)
@given(st.data())
def test_posteriors(posterior, counts, data):
    files = [path for path in sorted(posterior.rglob("*")) if path.is_file()]
    tops = [path for path in files if path.name == "zarr.json"]
    file = data.draw(st.sampled_from(data.draw(st.sampled_from([files, tops, tops[:1]]))))
    content = file.read_bytes()
    what = data.draw(st.sampled_from(["delete", "bytes", "cut", "json", "json", "json"]))
    if what == "delete":
        file.unlink()
    elif what == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif what == "json" and file in tops:
        file.write_bytes(written(data.draw(mutated(json.loads(content)))))
    else:
        changed = bytearray(content)
        for _ in range(3):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        file.write_bytes(changed)
    try:
        idata = read_posterior(posterior)
    except InputError as error:
        counts["posteriors refused"] += 1
        names(error, posterior)
        return
    finally:
        file.write_bytes(content)
    counts["posteriors read"] += 1
    sound(idata)


def sound(idata):
    """Check that everything can be made of a posterior, or it is refused as a whole."""
    with suppress(InputError):
        Draws.of(idata)
        Evolutions.from_posterior(idata)


@pytest.mark.parametrize(
    ("group", "name", "change"),
    [
        ("posterior", "assignment", lambda a: a + 100),
        ("posterior", "assignment", lambda a: a * 0 - 1),
        ("posterior", "inclusion", lambda a: a + 2),
        ("posterior", "noise", lambda a: -a),
        ("posterior", "hyperparameters", lambda a: a * np.inf),
        ("posterior", "candidate", lambda a: [f"{label}x" for label in a.values]),
    ],
)
def test_draws_that_make_no_sense(fitted, folder, group, name, change):
    idata = read_posterior(fitted / "posterior.zarr")
    sound(idata)
    own = idata[group].to_dataset()
    own[name] = (own[name].dims, np.asarray(change(own[name])))
    idata[group] = xr.DataTree(own)
    shutil.rmtree(folder / "odd.zarr", ignore_errors=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata")
        idata.to_zarr(folder / "odd.zarr")
    with pytest.raises(InputError, match="can't be read"):
        read_posterior(folder / "odd.zarr")


OPTIONS = {"user": "id", "time": "week", "target": "steps", "features": ["sleep"], "draws": 8}
JOB = Job(data="trial.csv", out="r", directory="/", command="kem fit", **OPTIONS)


@settings(max_examples=500, **FIXED)
@given(data=mutated(json.loads(JOB.model_dump_json())))
def test_jobs(folder, counts, data):
    """What `kem fit --resume` reads first."""
    (folder / "fit.json").write_bytes(written(data))
    try:
        job = Job.load(folder)
    except InputError as error:
        counts["jobs refused"] += 1
        names(error, folder / "fit.json")
        return
    counts["jobs read"] += 1
    job.may_replace(folder)
    with pytest.raises(InputError):  # its table isn't there
        job.read()


@settings(max_examples=200, **FIXED)
@given(data=mutated({"sampler": {"chains": 2, "draws": 3}, "command": "kem fit", "priors": {}}))
def test_settings_of_results(folder, counts, data):
    (folder / "settings.json").write_bytes(written(data))
    try:
        planned_chains(read_settings(folder))
    except InputError as error:
        counts["settings refused"] += 1
        names(error, folder / "settings.json")
        return
    counts["settings read"] += 1
