"""``kem diagnose``: diagnostics and summaries of the posterior that ``kem fit`` wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from xarray import DataTree

EXAMPLE = "Example: kem diagnose kem-fit --out kem-diagnosis"

#: File that marks a folder as results of this command, and names of all files it may contain.
TABLE = "convergence.csv"
WRITTEN = frozenset(
    {
        *(TABLE, "parts.csv", "edges.csv", "clusters.csv", "relevances.csv", "contrasts.csv"),
        *("chains.png", "edges.png", "co_clustering.png"),
    }
)


def diagnose(
    results: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Results of `kem fit`.", show_default=False)
    ],
    study: Annotated[
        Path | None,
        typer.Option(metavar="STUDY.py", help="Study file, if it registers base kernels."),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Features with categories or two values: report how their groups differ in the "
            "function that all users share.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A new folder; by default FOLDER/diagnosis."),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Report which parts of kernels matter, whether chains agree, and how groups differ.

    If there are problems, advice is printed. Tables are written of the parts, of convergence, of
    the edges of the evolution graph, of a representative clustering, of shares of the variance and,
    with --contrast, of differences between groups; and pictures are drawn.
    """
    import pandas as pd

    from kem_pymc.cli.study import load_study
    from kem_pymc.data.scaling import Scaling
    from kem_pymc.diagnostics import diagnosis, groups, representative
    from kem_pymc.evolutions.from_posterior import study_settings
    from kem_pymc.reports.gather import planned_chains, read_settings

    if study is not None:
        load_study(study)
    idata = _posterior(results / "posterior.zarr")
    planned = planned_chains(read_settings(results))
    differences = [
        groups.contrasts(idata, feature).assign(feature=feature)
        for feature in options.listed(contrast) or ()
    ]
    shares = groups.relevances(idata)
    out = results / "diagnosis" if out is None else out
    with folders.results(out, overwrite, marker=TABLE, written=WRITTEN) as folder:
        found = diagnosis.diagnose(idata, planned)
        found.parts.to_csv(folder / "parts.csv", index=False)
        found.convergence.to_csv(folder / TABLE, index=False)
        found.edges.to_csv(folder / "edges.csv", index=False)
        clusters = representative.representative(idata).to_frame()
        clusters.to_csv(folder / "clusters.csv", index=False)
        if len(shares):
            shares.to_csv(folder / "relevances.csv", index=False)
        if differences:
            pd.concat(differences).to_csv(folder / "contrasts.csv", index=False)
        _draw(idata, found.n_chains, folder)
    screen.console.print(found)
    _say_what_matters(shares)
    settings = study_settings(idata)
    unit = Scaling.from_dict(settings["scaling"]).target_label(settings["target"])
    for own in differences:
        _say_how_groups_differ(own, unit)
    screen.info(f"\nTables and plots are in {out}.")


def _say_what_matters(shares: "pd.DataFrame") -> None:
    """Print shares of the variance, by part and component, and by feature."""
    if shares.empty:
        return
    screen.heading("Shares of the variance of all users' data")
    rows = [
        (row.part if row.kind == "all" else "", row.name, row.share)
        for row in shares[shares["kind"] != "feature"].itertuples(index=False)
    ]
    screen.table(("part", "component", "share"), rows, {"share": ".0%"})
    features = shares[shares["kind"] == "feature"].pivot(index="name", columns="part")["share"]
    names = dict.fromkeys(shares.loc[shares["kind"] == "feature", "name"])
    forms = dict.fromkeys(features.columns, ".0%")
    screen.table(("feature", *forms), [(name, *features.loc[name]) for name in names], forms)


def _say_how_groups_differ(differences: "pd.DataFrame", target: str) -> None:
    feature = differences["feature"].iloc[0]
    screen.heading(
        f"Differences between levels of {feature} in the shared function, in units of {target}"
    )
    for row in differences.itertuples():
        screen.info(f"{row.contrast} {row.mean:.3g}, 95 % interval {row.low:.3g} to {row.high:.3g}")


def _posterior(path: Path) -> "DataTree":
    from kem_pymc.evolutions.posteriors import read_posterior

    if not path.is_dir():
        raise InputError(f"There is no posterior in {path}. Give the folder that kem fit wrote.")
    return read_posterior(path)


def _draw(idata: "DataTree", n_chains: int, folder: Path) -> None:
    from kem_pymc import plots

    if n_chains > 1:
        plots.traces(idata).savefig(folder / "chains.png", dpi=150)
    for name, axes in {
        "edges": plots.edges_by_chain(idata),
        "co_clustering": plots.co_clustering(idata, order="similarity"),
    }.items():
        cast("Figure", axes.get_figure(root=True)).savefig(folder / f"{name}.png", dpi=150)
