"""Files of a figure or table, made from tasks: a CSV file, a picture, and a Markdown page."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kem_pymc._system.spreadsheet import escape
from kem_pymc.comparison.output import Output


def write(name: str, output: Output, folder: Path, heading: Sequence[str]) -> list[Path]:
    """Write the values, the picture and the page of a figure to a folder.

    Parameters
    ----------
    name : str
        Name of the figure, and stem of the names of its files.
    output : Output
    folder : Path
        Folder of the files; created if necessary.
    heading : sequence of str
        First paragraphs of the page, which describe what was run.

    Returns
    -------
    list of Path
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.csv"]
    escape(output.tidy).to_csv(files[0], index=False)
    parts = [f"# {name}", *heading]
    if output.figure is not None:
        files.append(folder / f"{name}.png")
        output.figure.savefig(files[-1], dpi=150)
        parts.append(f"![{name}]({name}.png)")
    for title, table in output.tables.items():
        parts += [f"## {title}", markdown(table)]
    parts += output.notes
    files.append(folder / f"{name}.md")
    files[-1].write_text("\n\n".join(parts) + "\n", "utf-8")
    return files


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown, with the index as first columns unless it has no name."""
    flat = table.reset_index() if table.index.names != [None] else table
    names = [
        " ".join(map(str, c)).strip() if isinstance(c, tuple) else str(c) for c in flat.columns
    ]
    lines = [names, ["---"] * len(names)]
    lines += [[str(v) for v in row] for row in flat.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
