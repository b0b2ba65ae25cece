"""``kem compare``: the experiment on one's own table."""

import pandas as pd
import pytest

from kem_pymc.cli.folders import LOCK
from tests.cli.conftest import COLUMNS, fine, refused, run, table

QUICK = ("--quick", "--cores", "1", "--candidates", "LIN0,SE0,LIN1")
YJ = ("--transform", "yeo-johnson")


@pytest.mark.newcomer
def test_a_table_of_ones_own(tmp_path):
    path, out = tmp_path / "mine.csv", tmp_path / "out"
    table(users=6, weeks=3).to_csv(path, index=False)
    text = fine("compare", "--data", path, *COLUMNS, "--out", out, *QUICK, *YJ)
    assert "The modelled quantity is yeo-johnson(steps)" in " ".join(text.split())
    assert "Coverage of 80 % predictive intervals" in text
    values = pd.read_csv(out / "log-likelihood.csv")
    two_level = {"Two-level GP", "Mixed model", "Pooled GP"}
    assert set(values["method"]) == {"KEM", "Stratified", "Final", "ARD"} | two_level
    assert set(values["time_step"]) == {0, 1}  # nothing comes after the last
    names = {p.stem for p in out.iterdir() if p.name not in ("runs", LOCK)}
    assert names == {"log-likelihood", "verdicts", "features-dropped", "calibration"}
    assert "2 trials are too few" in text
    words = " ".join(text.split())
    assert "Quick: too few splits" in words
    assert "2 random splits into 3 pilot users and 3 test users" in words
    assert "nats per point" in words
    assert "The first one takes longest: it compiles." in words
    assert "means over points, in nats" in words
    for page in ("log-likelihood", "verdicts"):
        assert "in nats" in (out / f"{page}.md").read_text("utf-8")
    assert (values.groupby("trial")["user"].nunique() == 3).all()


def test_bad_tables_are_refused(tmp_path):
    path = tmp_path / "mine.csv"
    table(users=6).to_csv(path, index=False)
    out = ("--out", tmp_path / "out")
    assert "aren't named" in refused(run("compare", "--data", path, *out))
    both = ("--base", "LIN", "--candidates", "LIN0")
    assert "given twice" in refused(run("compare", "--data", path, *COLUMNS, *both, *out))
    table(users=6, weeks=1).to_csv(path, index=False)
    assert "at most 1 time step." in refused(run("compare", "--data", path, *COLUMNS, *out))
    table(users=1, weeks=3).to_csv(path, index=False)
    assert "has 1 user and" in refused(run("compare", "--data", path, *COLUMNS, *out))
    assert not (tmp_path / "out").exists()
