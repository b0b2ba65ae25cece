import re
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from kem_pymc import Evolutions
from tests.cli.conftest import SMALL, fine, refused, run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("quickstart") / "results"


@pytest.fixture(scope="module")
def text(folder):
    users = ("--users", 3, "--test-users", 2, "--seed", 3)
    return fine("quickstart", *users, *SMALL, "--out", folder)


def test_prints_evolutions_selections_and_scores(text):
    assert "3 users, 6 time steps, 90 points: x -> y" in text
    assert "noise only" in text
    assert "whether chains agree" in text
    selected, means, medians = re.split("Mean over|Median over", text.split("Kernels selected")[1])
    # The users' true compositions, which may be broken into lines.
    assert re.search(r"0: LIN\(x\) \+", selected)
    assert re.search(r"1: SE\(x\)", selected)
    assert "(5)" in selected
    for scores in (means, medians):
        for method in ("KEM", "ARD, maximum likelihood", "ARD, MAP"):
            (line,) = [line for line in scores.splitlines() if line.strip().startswith(method)]
            numbers = [float(number) for number in line.replace(method, "").split()]
            assert len(numbers) == 6
            assert np.isfinite(numbers).all()


def test_writes_everything(text, folder):
    assert str(folder) in text
    names = {path.name for path in folder.iterdir()}
    assert names >= {"evolutions.json", "posterior.zarr", "predictions.csv", "summary.csv"}
    assert Evolutions.load(folder / "evolutions.json").features == ("x",)
    with xr.open_datatree(folder / "posterior.zarr", engine="zarr") as idata:
        assert idata["posterior"].sizes["user"] == 3
    table = pd.read_csv(folder / "selections.csv")
    # A composition may be both a child and one with which pilot users ended up.
    assert not table.duplicated(["user", "time_step", "composition", "status"]).any()
    assert {"child", "current", "final"} >= set(table["status"]) >= {"current", "final"}
    steps = table.groupby(["user", "time_step"])
    assert len(steps) == 12
    np.testing.assert_allclose(steps["weight"].sum(), 1)
    assert table["bic"].notna().all()


@pytest.mark.usefixtures("text")
def test_a_second_run_replaces_its_own_results_alone(folder, tmp_path):
    """Catches a second run that deletes what isn't its own, or leaves what is."""
    own = shutil.copytree(folder, tmp_path / "own")
    arguments = ("--users", 2, "--test-users", 1, *SMALL, "--out", own)
    for name in ("notes.txt", "report.html"):
        (own / name).write_text("of the first run")
    assert "add --overwrite" in refused(run("quickstart", *arguments))
    fine("quickstart", *arguments, "--overwrite")
    assert (own / "notes.txt").exists()
    assert not (own / "report.html").exists()
    with xr.open_datatree(own / "posterior.zarr", engine="zarr") as idata:
        assert idata["posterior"].sizes["user"] == 2
