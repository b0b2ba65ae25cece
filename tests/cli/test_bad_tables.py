"""Each fault of a table that a user may bring, at the command line."""

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import COLUMNS, SMALL, refused, run, table


def fit(frame, tmp_path, *options):
    frame.to_csv(tmp_path / "trial.csv", index=False)
    arguments = ("--data", tmp_path / "trial.csv", *COLUMNS, *SMALL, *options)
    return run("fit", *arguments, "--base", "LIN", "--out", tmp_path / "results")


def changed(column, row, value):
    frame = table().astype({"week": object, "steps": object, "sleep": object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (table().drop(columns="steps"), "no column 'steps'"),
        (table().head(0), "no rows"),
        (changed("steps", 3, np.nan), "'steps' has a missing or infinite value in line 5 (user 0)"),
        (changed("steps", 3, "many"), "'steps' has 'many' in line 5, where numbers belong"),
        (changed("week", 3, "monday"), "'monday' in line 5. Write dates as 2024-03-01"),
        (table().iloc[::-1], "is earlier than the one before"),
        (table().query("week != 1 or id != 0"), "--skip-gaps"),
        (pd.concat([table(), table().tail(1).assign(id=9)]), "Leave them out with --drop-short"),
        (
            table().assign(week=table()["week"] + 20240131 - 2),
            "Read them with --date-format %Y%m%d",
        ),
    ],
)
def test_refused(frame, complaint, tmp_path):
    """Lines of the file and options are named; tests/data has all that is refused."""
    assert complaint in refused(fit(frame, tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"trial.csv"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--candidates", "LIN0, COS0"), "'COS0' is not a base kernel"),
        (("--candidates", "LIN0, SE7"), "Use dimensions 0 to 2"),
        (("--candidates", "LIN0, LIN0"), "given twice"),
        (("--candidates", ""), "not a base kernel"),
        (("--base", "COS"), "COS"),
        (("--candidates", "LIN0", "--interactions"), "given twice"),
        (("--features", "sleep,rest"), "no column 'rest'"),
    ],
)
def test_candidates_and_features(options, complaint, trial, tmp_path):
    out = ("--out", tmp_path / "results")
    assert complaint in refused(run("fit", "--data", trial, *COLUMNS, *options, *out))
