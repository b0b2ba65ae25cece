"""Rows with missing values, left out and counted."""

from collections.abc import Hashable, Sequence

import pandas as pd

from kem_pymc.display import some

#: At most so many columns and users are named.
NAMED = 10

#: A column that misses a larger share of its values is no feature by default.
MOSTLY = 0.5


def mostly_missing(values: pd.Series) -> bool:
    """Return whether a column misses most of its values."""
    return bool(values.isna().mean() > MOSTLY)


def without_missing(
    df: pd.DataFrame, user: Hashable, columns: Sequence[Hashable], least: int
) -> tuple[pd.DataFrame, str]:
    """Return the rows that miss no value, and what was left out in a sentence or two.

    Users who lose rows and keep fewer than `least` are left out as a whole.

    Parameters
    ----------
    df : DataFrame
    user : column name
    columns : sequence of column names
        Whose values count, the user's among them. Infinite ones aren't missing.
    least : int
        So many rows a user needs.

    Returns
    -------
    DataFrame
    str
        Empty where nothing was missing.
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
    said = (
        f"Left out {gone.sum()} of {len(df)} rows with missing values: "
        f"{some(in_columns, NAMED)}. By user: {some(of_users, NAMED)}."
    )
    kept = labels[~gone].value_counts()
    few = [label for label in by_user.index if kept.get(label, 0) < least]
    if few:
        said += f" Too few rows are left of users {some(few, NAMED)}, who are left out."
    return df[~gone & ~labels.isin(few).to_numpy()], said
