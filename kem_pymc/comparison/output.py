"""Results from which pages are made, and pages: values, a picture, and tables as text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from kem_pymc._system.spreadsheet import write_table
from kem_pymc.comparison.methods import METHODS, Method
from kem_pymc.comparison.stored import read_results
from kem_pymc.comparison.study import Study
from kem_pymc.comparison.task import ComparisonTask


@dataclass(frozen=True)
class Evidence:
    """Stored results of tasks, from which a page is made.

    Attributes
    ----------
    tasks : list of ComparisonTask
    folder : Path
    studies, methods : dict
        Studies and methods by name, in the order of tables and figures.
    """

    tasks: Sequence[ComparisonTask]
    folder: Path
    studies: dict[str, Study]
    methods: dict[str, Method] = field(default_factory=lambda: METHODS)

    @cached_property
    def selections(self) -> pd.DataFrame:
        """Selections, with one row for every study, trial, method, user and time step.

        The column ``person`` identifies distinct users.
        """
        table = read_results(self.tasks, self.folder).astype({"composition": str, "user": str})
        table["person"] = self.persons(table)
        for name, order in (("method", self.methods), ("study", self.studies)):
            place = {key: number for number, key in enumerate(order)}
            table = table.loc[table[name].map(place).sort_values(kind="stable").index]
        return table

    def persons(self, table: pd.DataFrame) -> pd.Series:
        """Return labels of distinct users: all trials split the same users."""
        return table["user"]

    def title(self, study: str) -> str:
        """Return the title of a study."""
        return self.studies[study].title


@dataclass
class Output:
    """A figure, its tables, and the values from which they were made.

    Attributes
    ----------
    tidy : DataFrame
        Values that are drawn or counted, one in each row.
    figure : Figure or None
        The figure, if there is one.
    tables : dict of str to DataFrame
        Formatted tables for readers, by title.
    notes : list of str
        Explanations for readers.
    """

    tidy: pd.DataFrame
    figure: Figure | None = None
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def write(self, name: str, folder: Path, heading: Sequence[str]) -> list[Path]:
        """Write a CSV file of the values, the picture, and a Markdown page, and return the files.

        Parameters
        ----------
        name : str
            Stem of the names of the files.
        folder : Path
            Folder of the files; created if necessary.
        heading : sequence of str
            First paragraphs of the page, which describe what was run.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{name}.csv"]
        write_table(self.tidy, files[0])
        parts = [f"# {name}", *heading]
        if self.figure is not None:
            files.append(folder / f"{name}.png")
            self.figure.savefig(files[-1], dpi=150)
            parts.append(f"![{name}]({name}.png)")
        for title, table in self.tables.items():
            parts += [f"## {title}", markdown(table)]
        files.append(folder / f"{name}.md")
        files[-1].write_text("\n\n".join([*parts, *self.notes]) + "\n", "utf-8")
        return files


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown, with the index as first columns unless it has no name."""
    flat = table.reset_index() if table.index.names != [None] else table
    names = [" ".join(map(str, c)).strip() if isinstance(c, tuple) else str(c) for c in flat]
    lines = [names, ["---"] * len(names)]
    lines += [[str(v) for v in row] for row in flat.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
