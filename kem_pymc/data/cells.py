"""What one column of a table holds: its kind, and its cells as numbers, times, levels or labels.

Each of these is decided here and nowhere else, so all doors of the package read a column alike,
from a file or from memory.
"""

import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types as dtypes

from kem_pymc._system.display import plural, some
from kem_pymc.errors import DataWarning, InputError

type Kind = Literal["numbers", "categories", "dates", "durations", "other"]
type Role = Literal["user", "category", "number"]
type Scope = Literal["pilot", "population", "new"]

#: Names of indices whose labels are positions in a file; labels of other indices are row labels.
FILE_ROWS = ("line", "data row")

#: What stands for a missing number, in lower case: all that pandas takes for it, and what other
#: programs write. In columns of text these are words like others.
MARKS = frozenset(
    [
        *("na", "n/a", "#n/a", "#na", "#n/a n/a", "<na>", "null", "none", "nan", "-nan"),
        *("-1.#ind", "1.#ind", "-1.#qnan", "1.#qnan", ".", "-"),
    ]
)

#: Truth values as text, in lower case.
TRUTHS = {"true": True, "false": False}

#: A text column with a smaller fraction of cells that aren't numbers holds numbers with errors.
FEW_CELLS = 0.5

#: Formats of dates that are written as whole numbers, by their number of digits, in these years.
FORMATS, YEARS = {6: "%Y%m", 8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}, range(1900, 2101)

#: Kinds of Python's own dates, which databases and parquet files give, as pandas calls them.
DATES = ("date", "datetime")

#: In the place of a format of dates: whole numbers aren't dates, whatever they look like.
NUMBERS = "numbers"

#: Whole numbers as text with a decimal point.
POINT_ZERO = re.compile(r"(-?\d+)\.0+")

#: Largest number of characters of a cell in an error message.
SHOWN = 30

#: Largest number of labels that are named in a warning.
SHOWN_LABELS = 5

#: Regular expression of a time stamp that ends in a UTC offset.
OFFSET = r"\d[T ]\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$"


class Cells:
    """The cells of one column.

    Parameters
    ----------
    values : Series

    Attributes
    ----------
    values : Series
        The cells, but text without blanks around it, Decimals as floats, and True and False as
        such in text that has nothing else.
    empty : ndarray of bool, shape (n,)
        Cells without a value, which are missing in every column.
    """

    def __init__(self, values: pd.Series) -> None:
        self._given, self._type = values, values.dtype
        if isinstance(self._type, pd.SparseDtype):
            values = values.sparse.to_dense()
        if self._type.kind == "f":  # pandas can't group or rank half precision
            numbers = values.to_numpy(np.float64, na_value=np.nan)
            values = pd.Series(numbers, values.index, name=values.name)
        if self._type.kind in "OUS":  # objects, text, categoricals
            values = _objects(values, _trimmed)
            text = {cell.lower() for cell in values if isinstance(cell, str)} - MARKS
            if text and text <= TRUTHS.keys():
                values = _objects(values, lambda cell: TRUTHS.get(str(cell).lower(), cell))
        self.values, self.empty = values, values.isna().to_numpy()
        self._inferred = dtypes.infer_dtype(values)

    @cached_property
    def kind(self) -> Kind:
        """What the column holds.

        Booleans, pandas' categoricals and words are categories; text that has ISO 8601 dates in all
        cells holds dates; text that has numbers except in a few cells is meant as numbers. Marks
        of missing numbers decide nothing, where there is anything else.
        """
        if dtypes.is_datetime64_any_dtype(self.values) or self._inferred in DATES:
            return "dates"
        if dtypes.is_timedelta64_dtype(self.values):
            return "durations"
        if isinstance(self._type, pd.CategoricalDtype) or self.truths:
            return "categories"
        if self._numeric:
            return "numbers"
        if not self._text:
            return "other"
        given, wrong = self.values[~self.empty & ~self.marks], self._wrong.sum()
        if wrong < FEW_CELLS * len(given):
            return "numbers"
        if wrong and wrong == len(given) and _iso_dates(given).notna().all():
            return "dates"
        words = all(isinstance(cell, str | int | float) for cell in self.values[~self.empty])
        return "categories" if words else "other"

    @cached_property
    def marks(self) -> np.ndarray:
        """Mask of the cells of text that stand for missing numbers."""
        if not self._text:
            return np.zeros(len(self.values), dtype=bool)
        text = (isinstance(cell, str) and cell.lower() in MARKS for cell in self.values)
        return np.fromiter(text, dtype=bool, count=len(self.values))

    @property
    def missing(self) -> np.ndarray:
        """Mask of the cells that are missing: empty ones and, unless it has words, marks."""
        words = self.kind == "categories" and not self.truths
        return self.empty if words else self.empty | self.marks

    def absent(self, role: Role) -> np.ndarray:
        """Return the mask of the cells that are missing in a column with a role."""
        if role == "user":
            return self.empty
        return self.missing if role == "category" else self.empty | self.marks

    def counted(self, mask: np.ndarray) -> str:
        """Return how many cells a mask has, and how many of them are which marks, as text."""
        marks = Counter(self.values[mask & self.marks]).most_common()
        named = ", ".join(f"{mark!r}: {count}" for mark, count in marks)
        return f"{self.values.name} in {mask.sum()}{f' ({named})' if named else ''}"

    @cached_property
    def comparable(self) -> pd.Series:
        """Values that are equal wherever the cells are, and can be counted and sorted.

        Text that has numbers is replaced by these, and other objects by their names.
        """
        parsed = self._text and self.kind == "numbers"
        return self._parsed if parsed else self.names

    @cached_property
    def names(self) -> pd.Series:
        """The cells, with names (see :func:`written`) in place of text and other objects."""
        if not dtypes.is_object_dtype(self.values):
            return self.values
        return _objects(self.values, written).mask(self.empty)

    def constant_within(self, users: pd.Series) -> bool:
        """Return whether the value is the same in all rows of every user.

        False if no user has several rows, or a row has no user.
        """
        if users.isna().any() or not users.duplicated().any():
            return False
        return bool((self.comparable.groupby(users.to_numpy()).nunique(dropna=False) <= 1).all())

    def numbers(self) -> np.ndarray:
        """Return the column as float64; missing values become NaN.

        Raises
        ------
        InputError
            If it doesn't hold real numbers; the message names the first cell that isn't one.
        """
        if self._numeric:
            return self.values.to_numpy(dtype=np.float64, na_value=np.nan)
        name, bad = self.values.name, self._wrong
        parsed = self._text and not isinstance(self._type, pd.CategoricalDtype)
        if (parsed and not bad.any()) or self.truths:
            return self._parsed.to_numpy(dtype=np.float64)
        if self.kind in ("dates", "durations"):
            raise InputError(
                f"Column {name!r} has dates where numbers belong. Convert them to numbers, or use "
                "the column as the time, which is the only feature that may have dates."
            )
        if bad.any():
            others = f" (other such cells: {bad.sum() - 1})" if bad.sum() > 1 else ""
            raise InputError(
                f"Column {name!r} has {self._shown(bad)}{others}, where numbers belong. "
                "Correct such cells, drop their rows or leave the column out.",
                see="Where numbers belong",
            )
        raise InputError(
            f"Column {name!r} has type {self._type} where numbers belong. "
            "Convert it, for example with pandas.to_numeric."
        )

    @cached_property
    def truths(self) -> bool:
        """Whether it has nothing but True and False, and marks."""
        given = self.values[~self.empty & ~self.marks]
        return len(given) > 0 and dtypes.infer_dtype(given) == "boolean"

    def dated(self, date_format: str | None = None) -> bool:
        """Return whether it has dates: as in ISO 8601, in this format, or as whole numbers."""
        if self.kind == "dates" or date_format == NUMBERS or self.kind == "durations":
            return self.kind == "dates"
        if self.calendar is not None or date_format is None or self.kind == "numbers":
            return self.calendar is not None
        try:
            return bool(self._formatted(date_format).notna().any())
        except InputError:
            return False

    @cached_property
    def calendar(self) -> str | None:
        """The format of whole numbers that all look like dates; None if they don't."""
        if self.kind != "numbers" or self._wrong.any():
            return None
        numbers = np.unique(self.numbers()[~self.missing])
        whole = np.isfinite(numbers) & (numbers > 0) & (numbers == np.floor(numbers))
        if not len(numbers) or not whole.all():
            return None
        first, last = (f"{number:.0f}" for number in numbers[[0, -1]])
        form = FORMATS.get(len(first))
        if (
            form is None
            or len(first) < len(last)
            or not {int(first[:4]), int(last[:4])} <= {*YEARS}
        ):
            return None
        text = [f"{number:.0f}" for number in numbers]
        dates = pd.to_datetime(text, format=form, errors="coerce")
        return None if dates.isna().any() else form

    def times(self, date_format: str | None = None) -> pd.Series:
        """Return the column as numbers, datetime64 or timedelta64.

        Dates in text are in UTC if their offsets differ, as before and after a clock change.

        Parameters
        ----------
        date_format : str, optional
            Format of dates that aren't written as in ISO 8601, or "numbers".

        Raises
        ------
        InputError
            If it holds none of these, a cell isn't a date, only some cells have a UTC offset, or
            whole numbers may be dates and no format was given.
        """
        times, given = self.values, ~self.missing
        if dtypes.is_datetime64_any_dtype(times) or self.kind == "durations":
            return times
        if self._inferred in DATES:
            return pd.to_datetime(times, errors="coerce")
        if date_format not in (None, NUMBERS):
            return self._formatted(str(date_format))
        bad = self._wrong
        if self.kind == "numbers" and not bad.any():
            if date_format is None and self.calendar is not None:
                raise InputError(
                    f"Column {times.name!r} has numbers such as {written(times[given].iloc[0])}, "
                    "which may be dates. Read them with {date_format}, or with "
                    f"{NUMBERS!r} in its place if they aren't dates.",
                    see="Dates or numbers",
                    date_format=self.calendar,
                )
            return times if self._numeric else self._parsed
        given = ~self.empty & ~self.marks
        text = all(isinstance(cell, str) for cell in times[given])
        if not text and 0 < bad.sum() < given.sum():
            raise InputError(
                f"Column {times.name!r} is neither all numbers nor all dates: {self._shown(bad)}. "
                "Write all in the same way."
            )
        if not text or not bad.any():
            raise InputError(
                f"Column {times.name!r} has type {self._type} where numbers or dates belong. "
                "Convert it with pandas.to_datetime or pandas.to_numeric."
            )
        times = times.mask(self.marks)
        try:
            return pd.to_datetime(times, format="ISO8601")
        except ValueError:
            dates = _iso_dates(times)
        if bad.sum() >= FEW_CELLS * given.sum():
            bad = dates.isna().to_numpy() & given
        if bad.any():
            raise InputError(
                f"Column {times.name!r} is neither all numbers nor all dates: {self._shown(bad)}. "
                "Write dates as 2024-03-01 or 2024-03-01 16:30 (ISO 8601), or give their format "
                "with {date_format}.",
                see="Dates or numbers",
                date_format=...,
            )
        plain = ~times.astype("str").str.contains(OFFSET).to_numpy() & given
        if plain.any():
            raise InputError(
                f"Some times in column {times.name!r} have a UTC offset, others, as in "
                f"{place(times.index, plain.argmax())}, don't. "
                "Write all of them with an offset, or none."
            )
        return dates

    def _formatted(self, form: str) -> pd.Series:
        """Return dates that are written in a format, as for strptime."""
        text, given = _objects(self.values, written), ~self.empty & ~self.marks
        try:
            dates = pd.to_datetime(text.where(given), format=form, errors="coerce")
        except (ValueError, TypeError, re.error) as error:
            raise InputError(
                f"{{date_format}} isn't a format of dates ({error}). "
                "Give one as for strptime, such as %d.%m.%Y.",
                date_format=form,
            ) from error
        bad = dates.isna().to_numpy() & given
        if bad.any():
            raise InputError(
                f"Column {text.name!r} has {self._shown(bad)}, which isn't a date as "
                "{date_format} says. Correct the cell or the format.",
                date_format=form,
            )
        return dates

    def labels(self) -> tuple[np.ndarray, tuple[Hashable, ...]]:
        """Return the number of each row's user, counted from 0, and the labels of the users.

        Labels that are written alike, see :func:`written`, are the same user's.

        Raises
        ------
        InputError
            If a cell is missing or can't be a label.
        """
        name = self.values.name
        try:
            codes, distinct = pd.factorize(self.values)
            numbers, names = pd.factorize(np.array([*map(written, distinct)], dtype=object))
        except (TypeError, ValueError, UnicodeEncodeError) as error:  # such as cells with lists
            raise InputError(
                f"Column {name!r} has cells that can't be a user's label ({error}). "
                "Give numbers or text."
            ) from error
        if (codes < 0).any():
            raise InputError(
                f"Column {name!r} has no user in {place(self.values.index, codes.argmin())}. "
                "Fill in the user or drop the row."
            )
        first = distinct[np.unique(numbers, return_index=True)[1]].tolist()
        return numbers[codes], tuple(
            name if isinstance(label, str) else label
            for label, name in zip(first, names, strict=True)
        )

    def levels(self) -> tuple[str, ...]:
        """Return the names of the categories.

        Categories of a pandas categorical keep their order, and unused ones are left out; others
        are sorted.

        Raises
        ------
        InputError
            If a cell is neither text nor a number.
        """
        cells = self.values[~self.missing]
        if isinstance(self._type, pd.CategoricalDtype):
            used = set(map(written, cells.unique()))
            return tuple(dict.fromkeys(n for n in map(written, self._type.categories) if n in used))
        if not all(isinstance(cell, str | int | float | np.generic) for cell in cells):
            raise InputError(
                f"Column {self.values.name!r} has cells that are neither text nor numbers, which "
                "can't be categories. Convert them to text, or leave the column out."
            )
        distinct = cells.unique().tolist()
        if all(isinstance(level, int | float) for level in distinct):
            return tuple(map(written, sorted(distinct)))
        return tuple(sorted(set(map(written, distinct))))

    def codes(self, levels: Sequence[str], users: pd.Series, scope: Scope) -> np.ndarray:
        """Encode categories as numbers.

        The k-th level becomes k, counted from 0, and missing cells become NaN. The k-th level of
        new users that isn't among `levels` becomes -k, counted from 1.

        Parameters
        ----------
        levels : sequence of str
            Names of the levels.
        users : Series
            The user of each row.
        scope : {"pilot", "population", "new"}

        Returns
        -------
        ndarray of float

        Raises
        ------
        InputError
            If a user has a level that isn't among `levels`.

        Warns
        -----
        DataWarning
            If a new user has such a level.
        """
        name, known = self.values.name, len(levels)
        cells = zip(_objects(self.values, written), self.missing, strict=True)
        names = [None if missing else name for name, missing in cells]
        code = {level: float(k) for k, level in enumerate(levels)}
        for row, level in enumerate(names):
            if level is None or level in code:
                continue
            if scope != "new":
                raise InputError(
                    f"Column {name!r} has {level!r} in {place(self.values.index, row)}, which "
                    f"isn't one of its levels {', '.join(levels)}. "
                    "Correct the cell, or add the level."
                )
            warnings.warn(
                f"User {users.iloc[row]} has {name} {level!r}, which no pilot user had "
                f"({', '.join(levels)}). Its effect is predicted as the mean over these levels, "
                "with more uncertainty.",
                DataWarning,
                stacklevel=5,
            )
            code[level] = float(known - len(code) - 1)
        return np.array([np.nan if level is None else code[level] for level in names])

    def said(self, role: Role) -> Iterator[str]:
        """Yield what a user should know of labels or levels: marks, and which were written alike.

        Parameters
        ----------
        role : {"user", "category", "number"}
            What the column's cells are.
        """
        if role == "number":
            return
        name, words = self.values.name, self.marks & ~self.absent(role)
        counts = Counter(self.values[words]).most_common()
        if counts:
            marks = [f"{mark!r} in {plural(count, 'row')}" for mark, count in counts]
            yield (
                f"Column {name!r} has {some(marks, SHOWN_LABELS)}. Each is read as a {role}, since "
                "only empty cells are missing there: empty them if no value is known."
            )
        groups: dict[str, list[str]] = {}
        for shown, cell in {repr(cell): cell for cell in self._given[~self.empty]}.items():
            groups.setdefault(written(cell), []).append(shown)
        alike = [" and ".join(cells) for cells in groups.values() if len(cells) > 1]
        if alike:
            yield (
                f"Column {name!r} has {some(alike, SHOWN_LABELS)}. They are read as one {role}, "
                "since only blanks or a decimal point differ: write others if that is wrong."
            )

    @cached_property
    def _numeric(self) -> bool:
        return dtypes.is_numeric_dtype(self.values) and not dtypes.is_complex_dtype(self.values)

    @cached_property
    def _text(self) -> bool:
        """Whether it has objects that may be text or numbers."""
        mixed = ("string", "mixed", "mixed-integer", "integer", "floating", "mixed-integer-float")
        return dtypes.is_object_dtype(self.values) and self._inferred in mixed

    @cached_property
    def _parsed(self) -> pd.Series:
        """The cells of text, also mixed with other values, as float64; NaN if they aren't any."""
        if self.truths:
            return _objects(
                self.values, lambda cell: cell if dtypes.is_bool(cell) else np.nan
            ).astype(np.float64)
        return pd.to_numeric(self.names, errors="coerce").astype(np.float64)

    @cached_property
    def _wrong(self) -> np.ndarray:
        """Mask of the cells of text, also mixed with other values, that aren't numbers."""
        if not self._text:
            return np.zeros(len(self.values), dtype=bool)
        return self._parsed.isna().to_numpy() & ~self.empty & ~self.marks

    def _shown(self, mask: np.ndarray) -> str:
        """Return the first of these cells, with its place, for an error message."""
        row = mask.argmax()
        cell = textwrap.shorten(str(self.values.iloc[row]), SHOWN, placeholder="...")
        return f"{cell!r} in {place(self.values.index, row)}"


def days(times: pd.Series, users: np.ndarray) -> np.ndarray:
    """Return times as numbers: dates as days since the user's first row, durations as days.

    Parameters
    ----------
    times : Series
        Times from :meth:`Cells.times`.
    users : ndarray of int
        Number of each row's user.

    Raises
    ------
    InputError
        If dates of a user are too far apart for pandas.
    """
    if dtypes.is_numeric_dtype(times):
        return Cells(times).numbers()
    times = times.reset_index(drop=True)
    if dtypes.is_datetime64_any_dtype(times):
        try:
            times = times - times.groupby(users).transform("first")
        except OverflowError as error:
            raise InputError(
                f"Column {times.name!r} has dates of one user that are centuries apart. "
                "Correct them."
            ) from error
    return (times / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)


def place(index: pd.Index, position: int | np.integer) -> str:
    """Return a row's label, or its line in the file that it was read from, as text."""
    kind = index.name if index.name in FILE_ROWS else "row"
    return f"{kind} {index[position]}"


def _iso_dates(text: pd.Series) -> pd.Series:
    """Return text as dates in UTC; NaT where it isn't a date."""
    return pd.to_datetime(text, format="ISO8601", utc=True, errors="coerce")


def written(label: object) -> str:
    """Return a label or level as text.

    It has no blanks around it, whole numbers have no decimal point, and lone surrogates, which
    can't be written to files, are escaped.
    """
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    text = escaped(_trimmed(label))
    number = POINT_ZERO.fullmatch(text)
    return text if number is None else number[1]


def escaped(name: object) -> str:
    """Return a name as text in which lone surrogates are escaped."""
    return str(name).encode("utf-8", "backslashreplace").decode()


def _objects(values: pd.Series, function: Callable[[Any], object]) -> pd.Series:
    """Return a function of all cells, as objects: pandas' own text can't hold all text."""
    known: dict[str, object] = {}  # the same text occurs in many cells

    def of(cell: Any) -> object:
        if type(cell) is not str:
            return function(cell)
        if cell not in known:
            known[cell] = function(cell)
        return known[cell]

    own = np.fromiter(map(of, values), dtype=object, count=len(values))
    return pd.Series(own, values.index, object, values.name)


def _trimmed(cell: object) -> object:
    """Return text without blanks around it, None if nothing is left; a Decimal as a float."""
    if isinstance(cell, Decimal):
        return str(cell) if cell.is_snan() else float(cell)  # no operation may have an sNaN
    return cell.strip() or None if isinstance(cell, str) else cell
