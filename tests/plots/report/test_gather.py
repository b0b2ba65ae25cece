"""What a report is made of, read from files."""

import shutil

import pandas as pd
import pytest
import xarray as xr

import kem_pymc as kem
from kem_pymc.plots.report.gather import Material, planned_chains
from kem_pymc.plots.report.report import report
from tests.evolutions.by_hand import evolutions
from tests.refusals import refused
from tests.shown import Page


def test_a_posterior_will_do(study, tmp_path):
    idata = xr.open_datatree(study / "posterior.zarr", engine="zarr").load()
    file = kem.report(idata, tmp_path / "trial.html")
    page = Page(file.read_text("utf-8"))
    assert "trial: how kernels evolve" in page.text
    assert "pilots" in [a["id"] for a in page.all("section")]
    refused(lambda: kem.report(idata), "path")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("evolutions.json", "{}", "doesn't contain evolutions"),
        ("settings.json", "no json", "settings.json can't be read"),
        ("settings.json", "[]", "contains no settings"),
        ("selections.csv", "a,b\n1,2\n", "lacks the columns user, time_step"),
        ("selections.csv", "user,time_step,n_points,composition\n", "is empty"),
        ("selections.csv", "user,time_step,n_points,composition\n1,0,3,PER0\n", "isn't a kernel"),
        ("predictions.csv", "user,time_step\n1,2\n", "lacks the columns point, seen"),
    ],
)
def test_files_that_cant_be_used(folder, name, content, words):
    (folder / name).write_text(content)
    refused(lambda: report(folder), words)
    assert not (folder / "report.html").exists()


def test_folders_that_cant_be_used(tmp_path, folder, wide_study):
    refused(lambda: report(tmp_path / "none"), "no folder")
    refused(lambda: report(tmp_path), "contains no evolutions.json")
    shutil.copy(wide_study / "evolutions.json", folder)
    refused(lambda: report(folder), "have different candidates")
    shutil.rmtree(folder / "posterior.zarr")
    (folder / "posterior.zarr").mkdir()
    refused(lambda: report(folder), "can't be read")


def test_planned_chains_are_known_or_none():
    assert planned_chains({"sampler": {"chains": 4}}) == 4
    for odd in (
        {},
        {"sampler": None},
        {"sampler": {"chains": "many"}},
        {"sampler": {"chains": 1e999}},
    ):
        assert planned_chains(odd) is None


def test_selections_of_all_considered_are_the_best_ones(tmp_path):
    """Fails where the quickstart's table, with all that was considered, gives the last of them."""
    evolutions().save(tmp_path / "evolutions.json")
    rows = [("007", 0, 3, "SE0"), ("007", 0, 3, "LIN0"), ("007", 1, 6, "LIN0")]
    table = pd.DataFrame(rows, columns=["user", "time_step", "n_points", "composition"])
    table.to_csv(tmp_path / "selections.csv", index=False)
    material = Material.of_folder(tmp_path)
    assert material.selections["composition"].map(str).tolist() == ["SE0", "LIN0"]
    assert set(material.selections["user"]) == {"007"}
    assert (material.idata, material.predictions, material.settings) == (None, None, {})
    assert material.title == tmp_path.name
