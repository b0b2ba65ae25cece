import shutil

import pandas as pd
import pytest

from tests.cli.conftest import fine, refused, run


@pytest.fixture
def results(fitted, tmp_path):
    return shutil.copytree(fitted, tmp_path / "results")


def test_tables_and_pictures(results):
    text = " ".join(fine("diagnose", results).split())
    assert "R-hat" in text
    assert "2 x 8 draws are too few to tell whether chains agree." in text
    assert "Factorisations: " in text
    folder = results / "diagnosis"
    assert {path.name for path in folder.iterdir()} == {
        *("parts.csv", "convergence.csv", "edges.csv", "clusters.csv"),
        *("chains.png", "edges.png", "co_clustering.png"),
    }
    table = pd.read_csv(folder / "convergence.csv")
    assert {"quantity", "user", "time_step", "candidate", "r_hat", "ess_tail"} <= set(table)
    assert pd.read_csv(folder / "clusters.csv")["datasets"].sum() == 9
    assert "isn't empty" in refused(run("diagnose", results))


def test_missing_chains_are_reported(results, tmp_path):
    settings = results / "settings.json"
    settings.write_text(settings.read_text().replace('"chains": 2', '"chains": 3'))
    text = " ".join(fine("diagnose", results, "--out", tmp_path / "d").split())
    assert "1 of 3 chains have no draws" in text


def test_a_folder_without_posterior_is_refused(tmp_path):
    assert "can't be read" in refused(run("diagnose", tmp_path))
    (tmp_path / "posterior.zarr").mkdir()
    assert "can't be read" in refused(run("diagnose", tmp_path))
