"""Removal of rows with missing values, with a summary of what was removed."""

from collections.abc import Hashable, Sequence

import pandas as pd

from kem_pymc._system.display import some

#: Largest number of columns and of users named in a message.
NAMED = 10

#: A column with a larger fraction of missing values isn't a feature by default.
MOSTLY = 0.5


def mostly_missing(values: pd.Series) -> bool:
    """Return whether more than half of a column's values are missing."""
    return bool(values.isna().mean() > MOSTLY)


def without_missing(
    df: pd.DataFrame, user: Hashable, columns: Sequence[Hashable], least: int
) -> tuple[pd.DataFrame, str]:
    """Drop rows with missing values, and describe what was dropped.

    Users who lose rows and keep fewer than `least` are dropped entirely.

    Parameters
    ----------
    df : DataFrame
    user : column name
    columns : sequence of column names
        Columns that are checked for missing values, including the user. Infinite values don't count
        as missing.
    least : int
        Smallest number of rows that a user must keep.

    Returns
    -------
    DataFrame
        Remaining rows.
    str
        Description of the dropped rows and users in one or two sentences; empty if no value was
        missing.
    """
    missing = df[list(dict.fromkeys(columns))].isna()
    gone = missing.any(axis=1).to_numpy()
    if not gone.any():
        return df, ""
    by_column = missing.sum()
    in_columns = [f"{name} in {count}" for name, count in by_column[by_column > 0].items()]
    labels = df[user]
    by_user = labels[gone].value_counts(sort=False)
    of_users = [f"{label}: {count}" for label, count in by_user.items()]
    message = (
        f"Left out {gone.sum()} of {len(df)} rows with missing values: "
        f"{some(in_columns, NAMED)}. By user: {some(of_users, NAMED)}."
    )
    kept = labels[~gone].value_counts()
    few = [label for label in by_user.index if kept.get(label, 0) < least]
    if few:
        message += f" Users with too few remaining rows are also left out: {some(few, NAMED)}."
    return df[~gone & ~labels.isin(few).to_numpy()], message
