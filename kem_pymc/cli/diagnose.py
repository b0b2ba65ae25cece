"""``kem diagnose``: diagnostics and summaries of the posterior that ``kem fit`` wrote."""

from pathlib import Path
from typing import Annotated

import typer

from kem_pymc.cli import folders, options, screen

EXAMPLE = "Example: kem diagnose kem-fit --out kem-diagnosis"

#: File that marks a folder as results of this command, and names of all files it may contain.
TABLE = "convergence.csv"
WRITTEN = frozenset(
    {
        *(TABLE, "parts.csv", "edges.csv", "clusters.csv"),
        *("chains.png", "edges.png", "co_clustering.png"),
    }
)


def diagnose(
    results: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Results of `kem fit`.", show_default=False)
    ],
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY.py", help=f"Study file, if it registers base kernels. {options.RUNS}"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A new folder; by default FOLDER/diagnosis."),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Report which parts kernels have, and whether chains agree.

    If there are problems, advice is printed. Tables are written of the parts, of convergence, of
    the edges of the evolution graph and of a representative clustering, and pictures are drawn.
    """
    from kem_pymc import plots
    from kem_pymc._system.progress import waiting
    from kem_pymc.cli.study import load_study
    from kem_pymc.diagnostics import diagnosis, representative
    from kem_pymc.evolutions.posteriors import read_posterior
    from kem_pymc.plots.report.gather import FINAL, POSTERIOR, planned_chains, read_settings

    if study is not None:
        load_study(study)
    idata = read_posterior(results / POSTERIOR)
    final = read_posterior(results / FINAL) if (results / FINAL).exists() else None
    planned = planned_chains(read_settings(results))
    out = results / "diagnosis" if out is None else out
    with (
        folders.results(out, overwrite, marker=TABLE, written=WRITTEN) as folder,
        waiting("Comparing the chains"),
    ):
        diagnosed = diagnosis.diagnose(idata, planned, final=final)
        tables = {
            "parts": diagnosed.parts,
            "convergence": diagnosed.convergence,
            "edges": diagnosed.edges,
            "clusters": representative.representative(idata).to_frame(),
        }
        for name, frame in tables.items():
            if len(frame):
                folders.write_table(frame, folder / f"{name}.csv")
        if diagnosed.n_chains > 1:
            plots.traces(idata).savefig(folder / "chains.png", dpi=150)
        folders.save_figure(plots.edges_by_chain(idata), folder / "edges.png")
        similar = plots.co_clustering(idata, order="similarity")
        folders.save_figure(similar, folder / "co_clustering.png")
    screen.console.print(diagnosed)
    screen.info(f"\nTables and plots are in {out}.")
