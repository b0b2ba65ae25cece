"""How objects show themselves: as HTML in notebooks, and in the terminal.

An object that inherits from :class:`Displayed` says what there is to see, as a :class:`Display`;
both looks are made from it here. The HTML has no colours of its own, so it suits light and dark
themes, loads nothing, and every text in it is escaped. In the terminal nothing is read as markup.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

type Cell = str | float

#: Secondary text is fainter than what surrounds it, whatever colour that has.
_FAINT = "opacity:.65"
_MARGIN = "margin:.3em 0"

#: In the terminal, columns of text have room for so many letters, unless their words are shorter.
WORD = 12


@dataclass(frozen=True)
class Listing:
    """A table of an object.

    Attributes
    ----------
    columns : sequence of str
    rows : sequence of sequences of str, int or float
        Columns of numbers are aligned to the right. NaN is shown as a dash.
    forms : mapping of str to str
        Format of a column's numbers, like ``".2f"``; by default :func:`number`.
    title : str
    more : str
        What to say below it, such as how many rows were left out.
    folded : bool
        Whether notebooks show it when asked only, and the terminal not at all.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    forms: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    more: str = ""
    folded: bool = False

    def texts(self) -> list[list[str]]:
        """Return all cells as they are shown."""
        return [
            [
                _text(cell, self.forms.get(name))
                for name, cell in zip(self.columns, row, strict=True)
            ]
            for row in self.rows
        ]

    def numeric(self) -> list[bool]:
        """Return which columns hold numbers alone."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return [all(not isinstance(cell, str) for cell in column) for column in cells]

    def html(self) -> str:
        """Return the table as HTML."""
        sides = [f"text-align:{'right' if right else 'left'}" for right in self.numeric()]
        head = "".join(
            f'<th style="{side}">{escape(name)}</th>'
            for name, side in zip(self.columns, sides, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="{side}">{escape(cell)}</td>'
                for cell, side in zip(row, sides, strict=True)
            )
            + "</tr>"
            for row in self.texts()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        table += f'<p style="{_MARGIN};{_FAINT}">{escape(self.more)}</p>' if self.more else ""
        if self.folded:
            return f"<details><summary>{escape(self.title)}</summary>{table}</details>"
        return (f'<p style="{_MARGIN}">{escape(self.title)}</p>' if self.title else "") + table

    def rich(self) -> "Group":
        """Return the table for the terminal."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        rows = self.texts()
        for i, (name, right) in enumerate(zip(self.columns, self.numeric(), strict=True)):
            # Where there is little room, names and texts are wrapped between words, numbers never.
            words = name.split() + [w for row in rows for w in row[i].split()]
            longest = max(map(len, words), default=1)
            made.add_column(
                Text(name),
                justify="right" if right else "left",
                min_width=longest if right else min(longest, WORD),
            )
        for row in rows:
            made.add_row(*map(Text, row))
        above = [Text(self.title)] if self.title else []
        below = [Text(self.more, style="dim")] if self.more else []
        return Group(*above, made, *below)


@dataclass(frozen=True)
class Display:
    """What there is to see of an object.

    Attributes
    ----------
    title : str
    facts : mapping of str to str
        Single values by name.
    listings : sequence of Listing
    notes : sequence of str
        Sentences to heed.
    first : sequence of Listing
        What comes before the facts.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    listings: Sequence[Listing] = ()
    notes: Sequence[str] = ()
    first: Sequence[Listing] = ()

    def html(self) -> str:
        """Return it for a notebook."""
        lines = [
            f'<span style="{_FAINT}">{escape(name)}:</span> {escape(value)}'
            for name, value in self.facts.items()
        ]
        parts = [f'<p style="{_MARGIN}"><strong>{escape(self.title)}</strong></p>']
        parts += [listing.html() for listing in self.first]
        parts += [f'<p style="{_MARGIN}">{"<br>".join(lines)}</p>'] if lines else []
        parts += [listing.html() for listing in self.listings]
        parts += [f'<p style="{_MARGIN}">{escape(note)}</p>' for note in self.notes]
        return f"<div>{''.join(parts)}</div>"

    def rich(self) -> "Group":
        """Return it for the terminal."""
        from rich.console import Group
        from rich.text import Text

        facts = [
            Text.assemble((f"{name}: ", "dim"), value, overflow="fold")
            for name, value in self.facts.items()
        ]
        above, shown = (
            [listing.rich() for listing in listings if not listing.folded]
            for listings in (self.first, self.listings)
        )
        notes = [Text(note) for note in self.notes]
        return Group(Text(self.title, style="bold"), *above, *facts, *shown, *notes)


class Displayed:
    """Shows itself in notebooks and in the terminal, by one description of what there is to see."""

    def _display(self) -> Display:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._display().html()

    def __rich__(self) -> "Group":
        return self._display().rich()


def number(value: float) -> str:
    """Return a number with four figures that count, or all before the point."""
    if isnan(value):
        return "-"
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.4g}"


def some(names: Iterable[object], most: int) -> str:
    """Return the first names in a row, and how many more there are."""
    texts = list(map(str, names))
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def from_to(low: float, high: float) -> str:
    """Return a range, or the one number that it is."""
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def beyond(shown: int, total: int, what: str) -> str:
    """Return how many of a listing's rows are there; nothing where all are."""
    return f"{shown} of {total} {what}" if shown < total else ""


def _text(cell: Cell, form: str | None) -> str:
    if isinstance(cell, str):
        return cell
    if form is not None and not isnan(cell):
        return format(cell, form)
    return str(cell) if isinstance(cell, int) else number(cell)
