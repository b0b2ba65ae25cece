"""Execute the notebooks, all or some, in full or small.

    uv run python notebooks/run.py --out executed               # in full, each as .ipynb and .html
    uv run python notebooks/run.py 3 --small --out executed     # the third, with small settings
    uv run python notebooks/run.py 3 --code                     # its code alone, as a plain script

Small values stand in the notebook's own metadata (``kem.small``) and take the place of those in
its cell tagged ``parameters``, in a cell of their own after it. Whatever a notebook prints last is
printed here too. One whose data files aren't in KEM_DATA is skipped with the loader's message.
"""

import argparse
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

HERE = Path(__file__).parent
NOTEBOOKS = tuple(sorted(HERE.glob("[0-9]_*.py")))

#: What a kernel starts with: one BLAS thread, since matrices are small.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}


@dataclass(frozen=True)
class Outcome:
    """What came of a notebook.

    Attributes
    ----------
    notebook : NotebookNode
        With outputs, up to the cell that failed.
    error : str
        Notebook, cell and message of a failure; empty if there was none.
    skipped : str
        What data were missing; empty if none were.
    seconds : float
    """

    notebook: Any
    error: str
    skipped: str
    seconds: float

    @property
    def result(self) -> str:
        """What the notebook's last cell of code printed."""
        return printed([c for c in self.notebook.cells if c.cell_type == "code"][-1])


def read(path: Path, small: bool = False) -> Any:
    """Return a notebook as nbformat has it, small values put in after its parameters.

    Raises
    ------
    ValueError
        If it has no cell tagged ``parameters``, or a small value has no full one.
    """
    notebook = jupytext.read(path)
    tagged = [i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        raise ValueError(f"{path.name} has {len(tagged)} cells tagged parameters. Tag one.")
    values = notebook.metadata["kem"]["small"]
    known = re.findall(r"^(\w+) =", notebook.cells[tagged[0]].source, flags=re.MULTILINE)
    unknown = set(values) - set(known)
    if unknown:
        raise ValueError(f"{path.name} has small values of {unknown} alone. Set them in full too.")
    if small:
        source = "\n".join(f"{name} = {value!r}" for name, value in values.items())
        notebook.cells.insert(tagged[0] + 1, nbformat.v4.new_code_cell(source))
    return notebook


def execute(path: Path, small: bool = False, timeout: int = 3600) -> Outcome:
    """Execute a notebook in a fresh kernel of this Python, in the folder of the notebooks."""
    notebook = read(path, small)
    began = time.perf_counter()
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(HERE)}},
    )
    error = skipped = ""
    try:
        client.execute(env={**os.environ, **ENVIRONMENT})
    except CellExecutionError as failure:
        message = re.sub(r"\x1b\[[\d;]*m", "", failure.evalue)
        if failure.ename == "DataFileNotFoundError":
            skipped = message
        else:
            number = sum(
                "execution_count" in c and c.execution_count is not None for c in notebook.cells
            )
            error = f"{path.name}, code cell {number}: {failure.ename}: {message}"
    return Outcome(notebook, error, skipped, time.perf_counter() - began)


def code(path: Path, small: bool = False) -> str:
    """Return a notebook as a plain script: text and magics are comments."""
    return jupytext.writes(read(path, small), "py:percent")


def printed(cell: Any) -> str:
    """Return what a cell printed to standard output."""
    streams = (o for o in cell.get("outputs", []) if o.output_type == "stream")
    return "".join(o.text for o in streams if o.name == "stdout")


def warned(notebook: Any) -> list[str]:
    """Return what cells wrote to standard error: warnings, and nothing else."""
    streams = (o for c in notebook.cells for o in c.get("outputs", []) if o.output_type == "stream")
    return [o.text for o in streams if o.name == "stderr"]


def write(outcome: Outcome, path: Path, out: Path) -> None:
    """Write a notebook with its outputs as .ipynb and .html."""
    out.mkdir(parents=True, exist_ok=True)
    nbformat.write(outcome.notebook, out / f"{path.stem}.ipynb")
    page, _ = HTMLExporter().from_notebook_node(outcome.notebook)
    (out / f"{path.stem}.html").write_text(page, encoding="utf-8")


def main() -> int:
    """Execute what was asked for; return how many notebooks failed."""
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = [path.stem[0] for path in NOTEBOOKS]
    parser.add_argument("numbers", nargs="*", metavar="N", help="which; by default all")
    parser.add_argument("--small", action="store_true", help="with small settings")
    parser.add_argument("--code", action="store_true", help="print the code, execute nothing")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write .ipynb and .html here")
    asked = parser.parse_args()
    if unknown := set(asked.numbers) - set(numbers):
        parser.error(f"there is no notebook {', '.join(unknown)}; give some of {' '.join(numbers)}")
    failed = 0
    for path in NOTEBOOKS:
        if asked.numbers and path.stem[0] not in asked.numbers:
            continue
        if asked.code:
            sys.stdout.write(code(path, asked.small))
            continue
        outcome = execute(path, asked.small)
        if asked.out is not None:
            write(outcome, path, asked.out)
        if outcome.error or outcome.skipped:
            failed += bool(outcome.error)
            line = f"skipped. {outcome.skipped}" if outcome.skipped else f"failed. {outcome.error}"
        else:
            line = f"{outcome.seconds:.0f} s\n{outcome.result.rstrip()}"
        sys.stdout.write(f"{path.stem}: {line}\n")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())
