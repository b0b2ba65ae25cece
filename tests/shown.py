"""What an object shows in notebooks and in the terminal, for tests to look at."""

from html.parser import HTMLParser
from io import StringIO

import pandas as pd
from rich.console import Console

#: Elements without an end.
EMPTY = {"br"}


class Reader(HTMLParser):
    """Checks that elements close in order; keeps tables as rows of texts, and all other text."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.tables, self.text = [], set(), [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style"}, attrs
        assert all("color" not in value and "url" not in value for _, value in attrs)
        if tag in EMPTY:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        else:
            self.text += data + "\n"


def read(shown):
    """Return a shown object's HTML as the text beside its tables, and its tables."""
    reader = Reader()
    reader.feed(shown._repr_html_())
    reader.close()
    assert reader.open == []
    assert "script" not in reader.seen
    frames = [pd.DataFrame(rows[1:], columns=rows[0]) for rows in reader.tables]
    assert all(len(set(map(len, rows))) == 1 for rows in reader.tables)
    return reader.text, frames


def printed(shown, width=120):
    console = Console(file=StringIO(), width=width)
    console.print(shown)
    return console.file.getvalue()
