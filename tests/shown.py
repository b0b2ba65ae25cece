"""What an object shows in notebooks and in the terminal, for tests to look at."""

from html.parser import HTMLParser
from io import StringIO

import pandas as pd
from rich.console import Console

#: Elements without an end.
VOID = ("meta", "link", "img", "br", "input", "hr")


class Page(HTMLParser):
    """A page's elements, which must close in order, its texts, and its tables as rows of texts.

    `beside` are the texts outside of tables.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.beside, self.tables = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), (tag, names)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, text):
        if not {"script", "style"} & set(self.open):
            self.texts.append(text)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += text
        else:
            self.beside.append(text)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def read(shown):
    """Return a shown object's HTML as the text beside its tables, and its tables."""
    page = Page(shown._repr_html_())
    for tag, attributes in page.elements:
        assert tag != "script"
        assert attributes.keys() <= {"style"}, attributes
        assert not any("color" in value or "url" in value for value in attributes.values())
    assert all(len(set(map(len, rows))) == 1 for rows in page.tables)
    return "\n".join(page.beside), [
        pd.DataFrame(rows, columns=names) for names, *rows in page.tables
    ]


def printed(shown, width=120):
    console = Console(file=StringIO(), width=width)
    console.print(shown)
    return console.file.getvalue()
