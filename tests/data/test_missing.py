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
    refused_frame(infinite, "7 of 16 rows", "Correct infinite values, or leave their rows out")
    words = ("'dose' has a missing or infinite value in row 0", "Correct infinite values")
    with pytest.warns(DataWarning):
        message = refused_frame(infinite, *words, missing="drop")
    assert "drop the row" not in message  # which they aren't
    assert "Rescale" not in message


def test_dropping_is_advised_only_where_something_is_left():
    """Fails where what is advised deletes the table, or takes several runs to find."""
    apart = table().dropna()
    apart["conc"] = apart["dose"].where(np.arange(len(apart)) % 2 == 0)
    apart["dose"] = apart["dose"].where(np.arange(len(apart)) % 2 == 1)
    advice = "If such rows are dropped, nothing is left: fill in the values, or choose features="
    message = refused_frame(apart, "10 of 10 rows", "dose in 5, conc in 5", advice)
    assert "missing=" not in message
    refused_frame(apart, "missing of dose in 5, conc in 5", "features=", missing="drop")
    # Problems of other kinds come with it.
    short = pd.concat([table(), table().head(1).assign(id="e"), table().tail(1).assign(id="f")])
    short.iloc[10, 1] = 0
    words = ("6 of 18 rows", "earlier than the one before", "Users 'e', 'f' have one point")
    refused_frame(short, *words, "Leave them out with short='drop'")


def test_users_with_one_row_are_left_out_and_named():
    df = table().dropna().query("id != 'd'")
    short = pd.concat([df, df.head(1).assign(id="e"), df.tail(1).assign(id="f ")])
    with pytest.warns(DataWarning, match=r"Left out 2 users with one row: e, f\."):
        got = Cohort.from_frame(short, **ROLES, gaps="skip", short="drop")
    assert got.digest() == Cohort.from_frame(df, **ROLES, gaps="skip").digest()
    for scope in ("population", "new"):
        kept = Cohort.from_frame(short, **ROLES, gaps="skip", short="drop", scope=scope)
        assert kept.users == ("a", "b", "c", "e", "f")
    refused_frame(short, "short='few'", short="few")
    refused_frame(df.drop_duplicates("id"), "Every user has one row", short="drop")
