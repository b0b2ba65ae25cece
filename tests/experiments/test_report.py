"""Files of figures and tables."""

import pandas as pd
import pytest

from experiments.kem.figures import MODULES, make
from experiments.settings import default
from kem_pymc.comparison.output import Output
from kem_pymc.comparison.report import markdown, write

TIDY = ["study", "trial", "method", "user", "time_step"]


def test_every_figure_of_the_settings_can_be_made():
    assert set(default().figures) == set(MODULES)


@pytest.mark.integration
@pytest.mark.parametrize(
    "name",
    [
        *("kem-fig3", "kem-fig4", "kem-fig5", "kem-fig6", "kem-fig9"),
        *(
            "kem-table2",
            "kem-types",
            "kem-peers",
            "kem-calibration",
            "kem-ablation",
            "kem-targets",
            "kem-grid",
            "kem-defaults",
            "kem-choices",
        ),
    ],
)
def test_files(evidence, name, tmp_path):
    output = make(name, evidence(name))
    files = write(name, output, tmp_path, ["What was run."])
    assert all(file.stat().st_size > 0 for file in files)
    tidy = pd.read_csv(files[0])
    assert len(tidy) > 0
    assert name == "kem-fig3" or list(tidy.columns[:5]) == TIDY
    page = files[-1].read_text("utf-8")
    assert page.startswith(f"# {name}\n\nWhat was run.")
    assert (output.figure is None) == (f"{name}.png" not in page)
    for title in output.tables:
        assert f"## {title}" in page


def test_markdown():
    table = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="method"))
    assert markdown(table) == "| method | a |\n| --- | --- |\n| x | 1 |"


def test_a_table_without_a_figure(tmp_path):
    files = write("t", Output(pd.DataFrame({"a": [1]})), tmp_path, [])
    assert [file.name for file in files] == ["t.csv", "t.md"]
