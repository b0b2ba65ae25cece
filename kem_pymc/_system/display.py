"""Display of objects: as HTML in notebooks, and with Rich in the terminal.

A class that inherits from :class:`Displayed` describes its content as a :class:`Display`, from
which both forms are made. The HTML sets no colours, so it suits light and dark themes. It loads
nothing, and all text in it is escaped. In the terminal, text isn't interpreted as markup, and
control characters in names, which terminals would obey, are symbols.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isnan
from typing import TYPE_CHECKING

from kem_pymc.errors import shortened

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

type Cell = str | float

#: Control characters but line breaks, and marks of the direction of text, with their symbols.
SYMBOLS = {code: 0x2400 + code for code in range(32) if code != ord("\n")} | {0x7F: 0x2421}
_MARKS = [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
SYMBOLS |= dict.fromkeys([*range(0x80, 0xA0), *_MARKS], ord("\N{REPLACEMENT CHARACTER}"))

#: Style of secondary text, which is fainter than the surrounding text, whatever its colour.
_FAINT = "opacity:.65"
_MARGIN = "margin:.3em 0"

#: Minimum width in letters of text columns in the terminal, unless all words are shorter.
WORD = 12


@dataclass(frozen=True)
class Listing:
    """A table of an object.

    Attributes
    ----------
    columns : sequence of str
    rows : sequence of sequences of str, int or float
        Columns of numbers are aligned to the right. NaN is shown as a dash.
    forms : mapping of str to str or int
        Format of the numbers of a column by its name, like ``".2f"``, or number of significant
        digits; by default :func:`number`.
    title : str
    more : str
        Text below the table, such as the number of rows that were left out.
    folded : bool
        Whether the table is collapsed in notebooks, and not shown in the terminal.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    forms: Mapping[str, str | int] = field(default_factory=dict)
    title: str = ""
    more: str = ""
    folded: bool = False

    def texts(self) -> list[list[str]]:
        """Return all cells as formatted text."""
        return [
            [
                _text(cell, self.forms.get(name))
                for name, cell in zip(self.columns, row, strict=True)
            ]
            for row in self.rows
        ]

    def numeric(self) -> list[bool]:
        """Return for each column whether it contains only numbers."""
        cells = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return [all(not isinstance(cell, str) for cell in column) for column in cells]

    def html(self) -> str:
        """Return the table as HTML."""
        sides = [f"text-align:{'right' if right else 'left'}" for right in self.numeric()]

        def html_row(tag: str, texts: Sequence[str]) -> str:
            cells = zip(texts, sides, strict=True)
            inner = (f'<{tag} style="{side}">{escape(text)}</{tag}>' for text, side in cells)
            return f"<tr>{''.join(inner)}</tr>"

        body = "".join(html_row("td", row) for row in self.texts())
        head = html_row("th", self.columns)
        table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        table += f'<p style="{_MARGIN};{_FAINT}">{escape(self.more)}</p>' if self.more else ""
        if self.folded:
            return f"<details><summary>{escape(self.title)}</summary>{table}</details>"
        return (f'<p style="{_MARGIN}">{escape(self.title)}</p>' if self.title else "") + table

    def rich(self) -> "Group":
        """Return the table for the terminal."""
        from rich import box
        from rich.console import Group
        from rich.table import Table

        made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        rows = self.texts()
        for i, (name, right) in enumerate(zip(self.columns, self.numeric(), strict=True)):
            # In narrow terminals, names and texts are wrapped between words; numbers never are.
            words = name.split() + [w for row in rows for w in row[i].split()]
            longest = max(map(len, words), default=1)
            made.add_column(
                printable(name),
                justify="right" if right else "left",
                min_width=longest if right else min(longest, WORD),
            )
        for row in rows:
            made.add_row(*map(printable, row))
        above = [printable(self.title)] if self.title else []
        below = [printable(self.more, "dim")] if self.more else []
        return Group(*above, made, *below)


@dataclass(frozen=True)
class Display:
    """Description of the content of an object that is displayed.

    Attributes
    ----------
    title : str
    facts : mapping of str to str
        Single values by name.
    listings : sequence of Listing
        Tables that follow the facts.
    notes : sequence of str
        Sentences that follow the tables, such as warnings.
    first : sequence of Listing
        Tables before the facts.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    listings: Sequence[Listing] = ()
    notes: Sequence[str] = ()
    first: Sequence[Listing] = ()

    def html(self) -> str:
        """Return the display as HTML, for notebooks."""
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
        """Return the display as a Rich renderable, for the terminal."""
        from rich.console import Group
        from rich.text import Text

        facts = [
            Text.assemble(printable(f"{name}: ", "dim"), printable(value), overflow="fold")
            for name, value in self.facts.items()
        ]
        above, shown = (
            [listing.rich() for listing in listings if not listing.folded]
            for listings in (self.first, self.listings)
        )
        notes = [printable(note) for note in self.notes]
        return Group(printable(self.title, "bold"), *above, *facts, *shown, *notes)


class Displayed:
    """Mixin for objects that are displayed in notebooks and in the terminal.

    Subclasses implement ``_display``, which describes their content.
    """

    def _display(self) -> Display:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._display().html()

    def __rich__(self) -> "Group":
        return self._display().rich()


def printable(text: str, style: str = "") -> "Text":
    """Return text for the terminal: control characters are symbols, long names are shortened."""
    from rich.text import Text

    return Text(shortened(text.translate(SYMBOLS)), style)


def number(value: float, digits: int = 4) -> str:
    """Return a number as text, with significant digits, but with all digits before the point."""
    if isnan(value):
        return "-"
    if 10 ** (digits - 1) <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def some(names: Iterable[object], most: int) -> str:
    """Return at most `most` names, separated by commas, and the number of the others, as text."""
    texts = list(map(str, names))
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def plural(count: int, noun: str) -> str:
    """Return a number of things in words, like "1 row" and "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def from_to(low: float, high: float) -> str:
    """Return a range as text, or a single number if both ends are equal."""
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def beyond(shown: int, total: int, what: str) -> str:
    """Return how many rows of a listing are shown, as text; "" if all are."""
    return f"{shown} of {total} {what}" if shown < total else ""


def _text(cell: Cell, form: str | int | None) -> str:
    if isinstance(cell, str):
        return shortened(cell)
    if isinstance(form, int):
        return number(cell, form)
    if form is not None and not isnan(cell):
        return format(cell, form)
    return str(cell) if isinstance(cell, int) else number(cell)
