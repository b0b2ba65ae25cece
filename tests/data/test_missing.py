"""Rows with missing values: left out on request, with counts, and nothing else lost."""

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import DataWarning
from tests.cohorts import refused_frame

ROLES = {"user": "id", "time": "week", "target": "y"}


def table():
    """Users a, b, c and d with four weeks each; values are missing of a, b and d."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame(
        {
            "id": np.repeat(list("abcd"), 4),
            "week": np.tile(range(4), 4),
            "dose": rng.normal(size=16),
            "arm": np.repeat(["new", "old", "old", "new"], 4),
            "y": rng.normal(size=16),
        }
    )
    df.loc[1, "y"] = np.nan  # a gap of one week
    df.loc[4, ["y", "dose"]] = np.nan
    df.loc[7, "arm"] = None
    df.loc[12:14, "dose"] = np.nan  # one row is left of d
    return df


def test_rows_are_left_out_and_counted():
    with pytest.warns(DataWarning) as caught:
        cohort = Cohort.from_frame(table(), **ROLES, missing="drop")
    (message,) = (str(w.message) for w in caught)
    assert "6 of 16 rows" in message
    assert "y in 2, dose in 4, arm in 1" in message
    assert "a: 1, b: 2, d: 3" in message
    assert "also left out: d." in message
    assert cohort.users == ("a", "b", "c")
    assert [len(y) for y in cohort.targets] == [3, 2, 4]
    known = table().dropna()
    kept = known[known["id"] != "d"]
    np.testing.assert_array_equal(np.concatenate(cohort.targets), kept["y"])
    assert cohort.levels == {"arm": ("new", "old")}


def test_new_users_keep_what_they_have_and_only_what_is_used_counts():
    df = table().assign(note=np.where(np.arange(16) % 3, np.nan, 1.0))  # no feature by default
    with pytest.warns(DataWarning, match="6 of 16"):
        cohort = Cohort.from_frame(df, **ROLES, missing="drop", scope="new")
    assert cohort.features == ("week", "dose", "arm")
    assert cohort.users == ("a", "b", "c", "d")
    assert len(cohort.targets[3]) == 1


def test_without_missing_values_nothing_changes():
    df = table().dropna()
    df = df[df["id"] == "c"]
    one, other = (
        Cohort.from_frame(df, **ROLES, features=["week", "dose"], missing=missing)
        for missing in ("error", "drop")
    )
    assert one.digest() == other.digest()


def test_refusals():
    refused_frame(table(), "missing")  # by default
    refused_frame(table().assign(y=np.nan), "no rows", missing="drop")
    refused_frame(table(), "missing='zero'", missing="zero")
    infinite = table()
    infinite.loc[0, "dose"] = np.inf
    with pytest.warns(DataWarning):
        refused_frame(infinite, "'dose'", "infinite", missing="drop")
