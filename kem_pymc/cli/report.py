"""``kem report``: write the results of ``kem fit`` and ``kem select`` to one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from kem_pymc.cli import options, screen

EXAMPLE = "Example: kem report kem-fit --out report.html"

Results = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="Results of `kem fit` or `kem quickstart`.", show_default=False
    ),
]
OutOfReport = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File to write; by default FOLDER/report.html."),
]


def report(results: Results, out: OutOfReport = None, overwrite: options.Overwrite = False) -> None:
    """Write one HTML file that shows what was learned and whether it is reliable.

    The report contains the graph of evolutions, kernels described as text, every user's kernels
    and predictions, diagnostics, settings and citations. It needs no network connection, and can
    be sent as it is to anyone who may see the users' data. New users are included if `kem select`
    wrote selections.csv and predictions.csv to the folder.
    """
    from kem_pymc._system.progress import waiting
    from kem_pymc.plots.report.report import report as write_report

    with waiting("Writing the report"):
        file = write_report(results, out, overwrite=overwrite)
    screen.info(
        f"The report is in {file} ({file.stat().st_size / 1e6:.1f} MB). Open it in a browser."
    )
