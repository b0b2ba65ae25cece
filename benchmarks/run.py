"""Run the speed benchmarks and report them as a table, as JSON and as a plot.

uv run python benchmarks/run.py [--only NAME] [--json FILE] [--out FOLDER]
"""

import os

# Matrices are small, so several threads would only slow each other down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from measure import Row
from rich.console import Console
from rich.table import Table

FIGURES = ("likelihood", "sweep", "selection", "growth", "memory", "workers", "startup")

#: Measured only on request: peers and search need other libraries (`uv run --extra peers`), and
#: evocov and evocov_peer measure one method of search.
ASKED = ("peers", "search", "evocov", "evocov_peer")

#: Smallest ratio of a measurement to its target that the plot shows.
SHORTEST = 0.02

#: Benchmarks that also draw a plot.
DRAWN = ("growth",)


def table(rows: list[Row]) -> Table:
    """Return the rows as a table."""
    out = Table("figure", "target", "measured", "met", title="Speed, one thread")
    for row in rows:
        out.add_row(
            row.figure, row.target, row.measured, "[green]yes[/]" if row.met else "[red]no[/]"
        )
    return out


def picture(rows: list[Row], file: Path) -> None:
    """Draw every measurement as a share of its target, on a logarithmic scale."""
    # A measured exponent may be negative, which a logarithmic scale can't show.
    distances = [max(row.distance, SHORTEST) for row in rows]
    figure, ax = plt.subplots(figsize=(12, 0.35 * len(rows) + 1.2), layout="constrained")
    colours = ["#2b6c8f" if row.met else "#c0562f" for row in rows]
    ax.barh([row.figure.strip() for row in rows], [d - 1 for d in distances], left=1, color=colours)
    for k, row in enumerate(rows):
        ax.annotate(f" {row.measured} ({row.target})", (max(distances[k], 1), k), va="center")
    ax.axvline(1, color="black", linewidth=0.8)
    farthest = max(1.0, *distances)
    ax.set(xscale="log", xlabel="measured value / target", xlim=(SHORTEST, 30 * farthest))
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(y=0.01)
    ax.invert_yaxis()
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main(usual: Sequence[str] = FIGURES) -> None:
    """Run the requested benchmarks, by default the usual ones, and show the results."""
    parser = argparse.ArgumentParser(description="Run the speed benchmarks.")
    parser.add_argument(
        "--only", choices=FIGURES + ASKED, action="append", help="benchmark to run (repeatable)"
    )
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument(
        "--out", type=Path, default=Path("kem-out-speed"), help="folder for the plots"
    )
    given = parser.parse_args()
    console = Console()
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in given.only or usual:
        with console.status(f"measuring {name}"):
            own = (given.out / f"{name}.png",) if name in DRAWN else ()
            rows += import_module(name).rows(*own)
    console.print(table(rows))
    picture(rows, given.out / "speed.png")
    console.print(f"Plots are in {given.out}.")
    if given.json is not None:
        keys = ("figure", "target", "measured", "met")
        listed = [{key: asdict(row)[key] for key in keys} for row in rows]
        given.json.write_text(json.dumps(listed, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
