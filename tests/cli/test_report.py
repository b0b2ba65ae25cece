import shutil

import pytest

from tests.cli.conftest import fine, refused, run, table


@pytest.fixture
def results(fitted, tmp_path):
    return shutil.copytree(fitted, tmp_path / "results")


def test_report_of_what_fit_and_select_wrote(results, tmp_path):
    new = tmp_path / "new.csv"
    table(users=2, weeks=2, seed=1).to_csv(new, index=False)
    fine(
        *("select", "--evolutions", results / "evolutions.json", "--data", new, "--user", "id"),
        *("--time", "week", "--out", results / "selections.csv"),
        *("--predictions", results / "predictions.csv"),
    )
    text = fine("report", results)
    page = results / "report.html"
    assert str(page) in text
    html = page.read_text("utf-8")
    assert all(f'id="{part}"' in html for part in ("pilots", "new"))
    assert html.count('aria-label="Predictions for ') >= 3 + 2
    assert "exists" in refused(run("report", results))
    fine("report", results, "--out", tmp_path / "r.html")
    assert (tmp_path / "r.html").read_bytes() == page.read_bytes()
