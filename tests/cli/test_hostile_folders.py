"""What commands read, changed in hundreds of ways: refused, or used."""

import json
import shutil
import warnings
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
from kem_pymc.evolutions.posteriors import VARIABLES, read_posterior, write_posterior
from kem_pymc.plots.report.gather import planned_chains, read_settings
from tests.evolutions.test_hostile_files import FIXED, names
from tests.mutations import mutated, written

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def whole(fitted):
    """The parts of a posterior that evolutions are made of."""
    whole = read_posterior(fitted / "posterior.zarr")
    needed = {"posterior": [*VARIABLES], "constant_data": ["study"]}
    return xr.DataTree.from_dict(
        {name: whole[name].to_dataset()[own] for name, own in needed.items()}
    )


@pytest.fixture(scope="module")
def posterior(whole, folder):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata")
        write_posterior(whole, folder / "posterior.zarr")
    return folder / "posterior.zarr"


@settings(max_examples=150, **FIXED)
@given(st.data())
def test_posteriors(posterior, whole, data):
    """What is read is what was written."""
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
        names(error, posterior)
        return
    finally:
        file.write_bytes(content)
    assert idata.identical(whole)


def sound(idata):
    """Check that everything can be made of a posterior, or it is refused as a whole."""
    with suppress(InputError):
        Draws.of(idata)
        Evolutions.from_posterior(idata)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("assignment", lambda a: a + 100),
        ("assignment", lambda a: a * 0 - 1),
        ("inclusion", lambda a: a + 2),
        ("noise", lambda a: -a),
        ("hyperparameters", lambda a: a * np.inf),
        ("candidate", lambda a: [f"{label}x" for label in a.values]),
    ],
)
def test_draws_that_make_no_sense(fitted, folder, name, change):
    idata = read_posterior(fitted / "posterior.zarr")
    sound(idata)
    own = idata["posterior"].to_dataset()
    own[name] = (own[name].dims, np.asarray(change(own[name])))
    idata["posterior"] = xr.DataTree(own)
    shutil.rmtree(folder / "odd.zarr", ignore_errors=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Consolidated metadata")
        write_posterior(idata, folder / "odd.zarr")
    with pytest.raises(InputError, match="can't be read"):
        read_posterior(folder / "odd.zarr")


OPTIONS = {"user": "id", "time": "week", "target": "steps", "features": ["sleep"], "draws": 8}
JOB = Job(data="trial.csv", out="r", directory="/", command="kem fit", **OPTIONS)


@settings(max_examples=500, **FIXED)
@given(data=mutated(json.loads(JOB.model_dump_json())))
def test_jobs(folder, data):
    """What `kem fit --resume` reads first."""
    (folder / "fit.json").write_bytes(written(data))
    try:
        job = Job.load(folder)
    except InputError as error:
        names(error, folder / "fit.json")
        return
    job.may_replace(folder)
    with pytest.raises(InputError):  # its table isn't there
        job.read()


@settings(max_examples=200, **FIXED)
@given(data=mutated({"sampler": {"chains": 2, "draws": 3}, "command": "kem fit", "priors": {}}))
def test_settings_of_results(folder, data):
    (folder / "settings.json").write_bytes(written(data))
    try:
        planned_chains(read_settings(folder))
    except InputError as error:
        names(error, folder / "settings.json")
