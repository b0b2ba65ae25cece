"""Tables as CSV files, with text escaped that spreadsheets would interpret as formulas.

A name or cell that begins with =, +, -, @ (also of full width), a tab or a line break is prefixed
with an apostrophe, which spreadsheets interpret as the beginning of text. One with apostrophes
before such a character is prefixed with one more, so that escaping is reversible. Numbers aren't
changed.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

#: Beginnings of text that is escaped, and of escaped text.
_FIRST = r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
FORMULA, ESCAPED = re.compile(f"'*{_FIRST}"), re.compile(f"'+{_FIRST}")


def write_table(table: "pd.DataFrame", file: Path) -> None:
    """Write a table without its index as CSV, atomically, with text escaped in all columns.

    Raises
    ------
    OSError
        As in :func:`kem_pymc._system.files.write_atomically`.
    """
    write_atomically(file, escape(table).to_csv(index=False).encode())


def escaped(name: Any) -> Any:
    """Return text as that of a cell; values that aren't text aren't changed."""
    return f"'{name}" if isinstance(name, str) and FORMULA.match(name) else name


def unescaped(cell: Any) -> Any:
    """Return the original text from that of a cell; the inverse of :func:`escaped`."""
    return cell[1:] if isinstance(cell, str) and ESCAPED.match(cell) else cell


def escape(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table with column names and all text in columns escaped, for a CSV file."""
    return _each(table, escaped)


def unescape(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return the original table from one that :func:`escape` made and was read from a CSV file."""
    return _each(table, unescaped)


def _each(table: "pd.DataFrame", function: Any) -> "pd.DataFrame":
    from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype

    table = table.rename(columns=function)
    for place, dtype in enumerate(table.dtypes):
        if not (is_numeric_dtype(dtype) or is_datetime64_any_dtype(dtype)):
            table.isetitem(place, table.iloc[:, place].map(function))
    return table
