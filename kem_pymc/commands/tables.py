"""Tables of data from files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd

from kem_pymc.cohort import Cohort
from kem_pymc.errors import InputError


def read_cohort(
    path: Path,
    *,
    user: str | None,
    time: str | None,
    target: str | None,
    features: Sequence[str] | None,
    batch: int | None,
    skip_gaps: bool,
    scope: Literal["pilot", "new"],
) -> Cohort:
    """Read users from a file; the arguments are those of :meth:`kem_pymc.Cohort.from_frame`.

    Raises
    ------
    InputError
        If the table can't be used, or the columns aren't named.
    """
    if user is None or time is None or target is None:
        raise InputError("The columns of the table aren't named. Add --user, --time and --target.")
    table = read_table(path, user, time)
    if features is not None and scope == "new":
        missing = [name for name in features if name not in table]
        if missing:
            raise InputError(
                f"{path} lacks the pilot study's features {', '.join(missing)}. "
                "Give a table with the same features under the same names."
            )
    return Cohort.from_frame(
        table,
        user=user,
        time=time,
        target=target,
        features=features,
        batch=batch,
        gaps="skip" if skip_gaps else "error",
        scope=scope,
    )


def read_table(path: Path, user: str, time: str) -> pd.DataFrame:
    """Read a table of data, one row per point.

    Parameters
    ----------
    path : Path
        A CSV file with a header, or a parquet file.
    user : str
        Labels in this column keep leading zeros: they are numbers only if written as such.
    time : str
        This column may hold dates as text, like 2024-05-31.

    Raises
    ------
    InputError
        If the file is missing or isn't such a table.
    """
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise InputError(f"{path} is neither .csv nor .parquet. Convert it to one of them.")
    if not path.is_file():
        raise InputError(f"There is no file {path}. Give the path of a table with --data.")
    try:
        table = pd.read_csv(path, dtype={user: str}) if kind == ".csv" else pd.read_parquet(path)
    except OSError as error:
        raise InputError(f"{path} can't be read ({error}). Check the file.") from error
    except ValueError as error:  # of pandas, pyarrow, or the text decoder
        raise InputError(
            f"{path} holds no table. Give a CSV file with a header, or a parquet file."
        ) from error
    if kind == ".csv" and user in table:
        table[user] = _labels(table[user])
    if time in table and pd.api.types.is_string_dtype(table[time]):
        table[time] = _dates(table[time])
    return table


def _labels(labels: pd.Series) -> pd.Series:
    try:
        numbers = labels.astype("int64")
    except ValueError:
        return labels
    return numbers if numbers.astype(str).equals(labels.astype(str)) else labels


def _dates(times: pd.Series) -> pd.Series:
    try:
        return pd.to_datetime(times, format="ISO8601")
    except ValueError:
        return times  # Cohort.from_frame says what is wrong with them
