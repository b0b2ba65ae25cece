"""``kem diagnose``: whether the posterior that ``kem fit`` wrote may be trusted."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kem_pymc.commands import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from xarray import DataTree

EXAMPLE = "Example: kem diagnose kem-fit --out kem-diagnosis"

#: What marks a folder as results of this command.
TABLE = "convergence.csv"

Results = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Results of `kem fit`.", show_default=False)
]
OutOfDiagnosis = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="A new folder; by default FOLDER/diagnosis."),
]
StudyOfResults = Annotated[
    Path | None,
    typer.Option(metavar="STUDY.py", help="Study file, if it registers base kernels of its own."),
]


def diagnose(
    results: Results,
    study: StudyOfResults = None,
    out: OutOfDiagnosis = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Say which parts of kernels matter, whether chains agree, and what helps.

    Writes tables of parts, of convergence, of edges and of a representative clustering, and
    pictures.
    """
    from kem_pymc.commands.study import load_study
    from kem_pymc.diagnostics import diagnosis, representative
    from kem_pymc.reports.gather import planned_chains, read_settings

    if study is not None:
        load_study(study)
    idata = _posterior(results / "posterior.zarr")
    planned = planned_chains(read_settings(results))
    out = results / "diagnosis" if out is None else out
    with folders.results(out, overwrite, marker=TABLE) as folder:
        found = diagnosis.diagnose(idata, planned)
        found.parts.to_csv(folder / "parts.csv", index=False)
        found.convergence.to_csv(folder / TABLE, index=False)
        found.edges.to_csv(folder / "edges.csv", index=False)
        clusters = representative.representative(idata).to_frame()
        clusters.to_csv(folder / "clusters.csv", index=False)
        _draw(idata, found.n_chains, folder)
    screen.console.print(found)
    screen.say(f"\nTables and pictures are in {out}.")


def _posterior(path: Path) -> "DataTree":
    import xarray as xr

    if not path.is_dir():
        raise InputError(f"There is no posterior in {path}. Give the folder that kem fit wrote.")
    try:
        return xr.open_datatree(path, engine="zarr").load()
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"The posterior in {path} can't be read ({error}). Restore it, or run kem fit again."
        ) from error


def _draw(idata: "DataTree", n_chains: int, folder: Path) -> None:
    from kem_pymc import plots

    if n_chains > 1:
        plots.traces(idata).savefig(folder / "chains.png", dpi=150)
    for name, axes in {
        "edges": plots.edges_by_chain(idata),
        "co_clustering": plots.co_clustering(idata, order="similarity"),
    }.items():
        cast("Figure", axes.get_figure(root=True)).savefig(folder / f"{name}.png", dpi=150)
