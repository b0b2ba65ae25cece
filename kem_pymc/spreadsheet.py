"""Names as cells of CSV files that people open in a spreadsheet, which takes some for formulas.

A name that begins with =, +, -, @, a tab or a carriage return gets an apostrophe before it, which
spreadsheets take for the beginning of text. So that nothing is lost, one that has apostrophes
before such a character gets one more. Numbers stay numbers.
"""

import re
from typing import Any

import pandas as pd

#: Names that are escaped, and how these begin once they are.
FORMULA, ESCAPED = re.compile(r"'*[=+\-@\t\r]"), re.compile(r"'+[=+\-@\t\r]")


def escaped(name: Any) -> Any:
    """Return a name as it stands in a cell; what is no text stays."""
    return f"'{name}" if isinstance(name, str) and FORMULA.match(name) else name


def unescaped(cell: Any) -> Any:
    """Return the name that a cell stands for."""
    return cell[1:] if isinstance(cell, str) and ESCAPED.match(cell) else cell


def escape(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table for a CSV file: the names of its columns, and in column ``user``, escaped."""
    return _each(table, escaped)


def unescape(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table that :func:`escape` was given, read from its file."""
    return _each(table, unescaped)


def _each(table: pd.DataFrame, function: Any) -> pd.DataFrame:
    table = table.rename(columns=function)
    if "user" in table:
        table["user"] = table["user"].map(function)
    return table
