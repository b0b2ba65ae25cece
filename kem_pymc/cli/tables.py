"""Read tables of data from CSV and parquet files."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, PositiveInt

from kem_pymc._system.display import some
from kem_pymc.cli import screen
from kem_pymc.cli.options import listed
from kem_pymc.data.cells import FILE_ROWS, Cells, Role, Scope, place, written
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.columns import Columns, feature_columns
from kem_pymc.data.families import Family
from kem_pymc.data.families import Name as FamilyName
from kem_pymc.data.feature_distribution import FeatureDistribution, check_missing
from kem_pymc.data.table import incomplete_rows
from kem_pymc.errors import DataWarning, InputError

#: Maximum number of unused columns that are named.
UNUSED_SHOWN = 10

#: Names of other separators than commas, for an error message.
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


#: Several names; the command line separates them by commas.
Names = Annotated[list[str] | None, BeforeValidator(listed)]


class Table(BaseModel, extra="forbid", frozen=True):
    """A table in a file, and the options with which commands read it, by name."""

    data: Path | None = None
    user: str | None = None
    time: str | None = None
    target: str | None = None
    features: Names = None
    categorical: Names = None
    batch: PositiveInt | None = None
    skip_gaps: bool = False
    missing: Literal["error", "drop"] | None = None
    drop_short: bool = False
    date_format: str | None = None
    noise: str | None = None
    size: str | None = None
    family: FamilyName | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return the table that the options of a command describe; other options are ignored."""
        return cls(**{name: value for name, value in options.items() if name in cls.model_fields})

    def cohort(
        self,
        levels: Mapping[str, Sequence[str]] | None = None,
        scope: Scope = "pilot",
        family: Family | None = None,
    ) -> Cohort:
        """Read the users, in the units of the table; see :meth:`kem_pymc.Cohort.from_frame`.

        For pilot users, the features are printed and, if they weren't named, the unused columns
        with the reasons. If dates become a feature, a message explains how.

        Parameters
        ----------
        levels : mapping of str to sequence of str, optional
            For new users, the levels of the pilot study's categories.
        scope : {"pilot", "population"}
            Without levels, what the users are for.
        family : Family, optional
            For new users, the family of the pilot study's targets.

        Raises
        ------
        InputError
            If the table can't be used, or the user, time or target column isn't named.
        """
        roles = {"user": self.user, "time": self.time, "target": self.target}
        if None in roles.values():
            raise InputError(
                "The columns of the table aren't named. Add --user, --time and --target."
            )
        table, pilot = read_table(self.data or Path(), self.user), levels is None
        columns = feature_columns(
            table,
            **roles,
            features=self.features,
            categorical=self.categorical if pilot else levels,
            scope=scope if pilot else "new",
            date_format=self.date_format,
            noise=self.noise,
            size=self.size,
        )
        if pilot:
            _show(columns)
        cohort = Cohort.from_columns(
            table,
            columns,
            family=self.family if pilot else family,
            batch=self.batch,
            gaps="skip" if self.skip_gaps else "error",
            missing=self.missing or "error",
            short="drop" if self.drop_short else "error",
        )
        if cohort.time_kind in ("dates", "durations"):
            since = " since the user's first row" if cohort.time_kind == "dates" else ""
            screen.info(f"As a feature, {self.time} is the number of days{since}.")
        return cohort

    def future(
        self,
        path: Path,
        levels: Mapping[str, Sequence[str]],
        distribution: FeatureDistribution | None = None,
    ) -> dict[Hashable, np.ndarray]:
        """Read the inputs of users' future points, whose targets aren't known yet.

        Parameters
        ----------
        path : Path
            Table of the future points, with the columns of this one; a target in it is ignored.
            Days in it count from each user's first row in this table. Cells of features other than
            the time may be empty.
        levels : mapping of str to sequence of str
            Levels of the features that are categories.
        distribution : FeatureDistribution, optional
            Distribution of pilot users' features, without which no cell may be empty.

        Returns
        -------
        dict
            Inputs, shape (m, D), of the users who have future points, with NaN for empty cells.

        Raises
        ------
        InputError
            If a table can't be used, or `path` has a user who isn't in this one.
        """
        user, target = self.user, self.target
        past, coming = (read_table(file, user) for file in (self.data or Path(), path))
        columns = list(dict.fromkeys((user, self.time, *(self.features or ()))))
        missing = [name for name in columns if name not in coming]
        if missing:
            raise InputError(
                f"{path} lacks the columns {', '.join(map(str, missing))}. "
                "Give a table with the columns of --data; it needs no targets."
            )
        if coming.empty:
            raise InputError(f"{path} has no rows. Give at least one future point.")
        # Errors from here on concern rows of `path`, since those of this table were checked before.
        if self.missing == "drop":
            roles: dict[Hashable, Role] = dict.fromkeys((*columns, target), "number")
            roles[user] = "user"
            roles |= dict.fromkeys(levels, "category")
            past = past[~incomplete_rows(past, roles)[0]]
        past.index.name = coming.index.name
        coming.index = pd.Index([f"{k} of {path.name}" for k in coming.index], name=past.index.name)
        past_users = {written(label): label for label in Cells(past[user]).labels()[1]}
        codes, labels = Cells(coming[user]).labels()
        for k, label in enumerate(labels):
            if written(label) not in past_users:
                raise InputError(
                    f"User {label} in {place(coming.index, np.argmax(codes == k))} has no points "
                    f"in {self.data}. Give future points only of users in that table."
                )
        coming[user] = [past_users[written(labels[k])] for k in codes]
        absent = np.zeros((len(coming), len(self.features or ())), dtype=bool)
        for d, name in enumerate(self.features or ()):
            if name != self.time:
                absent[:, d] = Cells(coming[name]).absent(
                    "category" if name in levels else "number"
                )
            if absent[:, d].any():  # filled for now, so that all else in the table is checked
                filled = coming[name].astype(object).mask(absent[:, d], past[name].iloc[0])
                coming[name] = filled.infer_objects()
        places = [place(coming.index, k) for k in range(len(coming))]
        check_missing(np.where(absent, np.nan, 0.0), distribution, places)
        # Future points are appended to the users' own, so both are converted in the same way.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            cohort = Cohort.from_frame(
                pd.concat([past[[*columns, target]], coming[columns].assign(**{str(target): 0.0})]),
                user=user,
                time=self.time,
                target=target,
                features=self.features,
                categorical=levels,
                gaps="skip",
                scope="new",
                date_format=self.date_format,
            )
        future = {}
        for label, x in zip(cohort.users, cohort.inputs, strict=True):
            own = (coming[user] == label).to_numpy()
            if own.any():
                future[label] = np.where(absent[own], np.nan, x[-own.sum() :])
        return future


def _show(columns: Columns) -> None:
    """Print which columns are features, which aren't and why, and which may be categories."""
    screen.info(f"Features: {columns}.")
    if columns.left_out:
        unused = [f"{name} ({reason})" for name, reason in columns.left_out]
        screen.info(f"Not used: {some(unused, UNUSED_SHOWN)}.")
    for name, count in columns.codes:
        screen.info(
            f"{name} has {count} different whole numbers. If these are codes of groups, add "
            f"--categorical {name}."
        )


def read_table(path: Path, user: str | None = None) -> pd.DataFrame:
    """Read a table of data, one row per point.

    Parameters
    ----------
    path : Path
        CSV file with a header, or parquet file.
    user : str
        Name of the column of user labels, if there is one. In a CSV file, labels become integers
        only if they are all written as such, without leading zeros.

    Returns
    -------
    DataFrame
        The table. Rows of a CSV file are numbered for error messages.

    Raises
    ------
    InputError
        If the file is missing or isn't such a table.
    """
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise InputError(f"{path} is neither .csv nor .parquet. Convert it to one of them.")
    if not path.is_file():
        raise InputError(f"There is no file {path}. Give the path of a table.")
    try:
        table = _read_csv(path, user) if kind == ".csv" else pd.read_parquet(path)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path} can't be read ({error}). Check the file.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} isn't text in UTF-8. Save it again as CSV in that encoding."
        ) from error
    except Exception as error:  # pandas and pyarrow raise many types if it is no table
        raise InputError(
            f"{path} doesn't contain a table. Give a CSV file with a header, or a parquet file."
        ) from error
    if kind == ".csv" and user in table:
        table[user] = _labels(table[user])
    return table


def _read_csv(path: Path, user: str | None) -> pd.DataFrame:
    names = pd.read_csv(path, nrows=0).columns
    for separator, text in SEPARATORS.items():
        if len(names) == 1 and separator in names[0]:
            raise InputError(
                f"The columns of {path} seem to be separated by {text}. "
                "Separate them by commas, and use points in decimal numbers."
            )
    # Only empty cells are missing; what else is depends on what a column has (data/cells.py).
    table = pd.read_csv(
        path, dtype={user: str} if user else None, keep_default_na=False, na_values=[""]
    )
    if not isinstance(table.index, pd.RangeIndex):  # pandas used columns as an index
        raise InputError(
            f"Rows of {path} have more cells than its header. Give every column a name."
        )
    with path.open(encoding="utf-8") as file:
        lines = sum(1 for _ in file)
    # Empty lines and cells that span several lines make line numbers differ from row numbers.
    exact = lines == len(table) + 1
    first, name = (2, FILE_ROWS[0]) if exact else (1, FILE_ROWS[1])
    table.index = pd.RangeIndex(first, first + len(table), name=name)
    return table


def _labels(labels: pd.Series) -> pd.Series:
    try:
        numbers = labels.astype("int64")
    except (ValueError, OverflowError):
        return labels
    return numbers if numbers.astype(str).equals(labels.astype(str)) else labels
