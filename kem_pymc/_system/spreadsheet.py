"""Escaping of names in CSV files, because spreadsheets interpret some names as formulas.

A name that begins with =, +, -, @, a tab or a carriage return is prefixed with an apostrophe, which
spreadsheets interpret as the beginning of text. A name with apostrophes before such a character is
prefixed with one more, so that escaping is reversible. Numbers aren't changed.
"""

import re
from typing import Any

import pandas as pd

#: Beginnings of names that are escaped, and of escaped names.
FORMULA, ESCAPED = re.compile(r"'*[=+\-@\t\r]"), re.compile(r"'+[=+\-@\t\r]")


def escaped(name: Any) -> Any:
    """Return a name as the text of a cell; values that aren't text aren't changed."""
    return f"'{name}" if isinstance(name, str) and FORMULA.match(name) else name


def unescaped(cell: Any) -> Any:
    """Return the name from the text of a cell; the inverse of :func:`escaped`."""
    return cell[1:] if isinstance(cell, str) and ESCAPED.match(cell) else cell


def escape(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with column names and values of column ``user`` escaped, for a CSV file."""
    return _each(table, escaped)


def unescape(table: pd.DataFrame) -> pd.DataFrame:
    """Return the original table from one that :func:`escape` made and was read from a CSV file."""
    return _each(table, unescaped)


def _each(table: pd.DataFrame, function: Any) -> pd.DataFrame:
    table = table.rename(columns=function)
    if "user" in table:
        table["user"] = table["user"].map(function)
    return table
