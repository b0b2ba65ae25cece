"""Write the HTML report of a study from a folder of results or from a posterior."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system.files import write_atomically
from kem_pymc.errors import InputError
from kem_pymc.reports.gather import Material, planned_chains

if TYPE_CHECKING:
    from xarray import DataTree


#: Below this number of boxes the graph also shows less probable evolutions, by these thresholds.
FEW, FAINTER = 8, (0.025, 0.01)

#: Maximum width of the graph on a phone, in points; wider text would be too small to read.
PHONE = 330.0


def report(
    source: "str | Path | DataTree", path: str | Path | None = None, *, overwrite: bool = False
) -> Path:
    """Write a report on a study as one HTML file, which needs no network and works in any browser.

    The report shows the graph of evolutions, what users share, a description of each composition in
    plain English, every user's kernels and predictions, diagnostics with remedies, settings,
    versions and citations. Sections for which `source` has no data are left out, and the page says
    which command produces the data.

    Parameters
    ----------
    source : path or DataTree
        A folder written by ``kem fit`` or ``kem quickstart``, optionally with the tables of
        ``kem select`` in it; or the posterior of an ``EvolutionModel``.
    path : path, optional
        File to write; by default ``report.html`` in the folder. Required for a posterior.
    overwrite : bool
        Whether to replace an existing file.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    InputError
        If the source can't be used, `path` is missing for a posterior, or the file exists or can't
        be written.
    """
    if isinstance(source, str | Path):
        folder = Path(source)
        material = Material.of_folder(folder)
        file = folder / "report.html" if path is None else Path(path)
    elif path is None:
        raise InputError(
            "A posterior has no folder to write the report to. Give the path of a file."
        )
    else:
        file = Path(path)
        material = Material.of_posterior(source, file.stem)
    _check(file, overwrite)
    page = page_of(material)
    try:
        write_atomically(file, page.encode())
    except OSError as error:
        raise InputError(
            f"The file {file} can't be written ({error.strerror}). Give another path."
        ) from error
    return file


def page_of(material: Material) -> str:
    """Return the report on a study as HTML."""
    from kem_pymc.diagnostics.diagnosis import diagnose
    from kem_pymc.diagnostics.representative import representative
    from kem_pymc.plots.graph import graph_drawing, narrow_drawing
    from kem_pymc.reports import page, study, users
    from kem_pymc.reports import summary as short
    from kem_pymc.reports.diagnostics import summarise_diagnosis
    from kem_pymc.reports.graph import graph
    from kem_pymc.reports.inclusion import bars, parts_in
    from kem_pymc.reports.kernels import Kernels
    from kem_pymc.reports.pilots import pilots
    from kem_pymc.reports.shared import shared_part
    from kem_pymc.reports.theme import Look

    learned, idata = material.evolutions, material.idata
    found_pilots = [] if idata is None else pilots(idata)
    shown = [step.likely[0][0] for pilot in found_pilots for step in pilot.steps]
    if material.selections is not None:
        shown += users.selected(material.selections, learned)
    look = Look.of(learned, shown)
    several = len(learned.features) > 1
    drawing = graph_drawing(learned, features=several)
    shown_from: dict[str, Any] = {"features": several}
    for minimum in FAINTER:
        if len(drawing.boxes) < FEW:
            shown_from |= {"minimum_probability": minimum, "max_nodes": FEW}
            drawing = graph_drawing(learned, **shown_from)
    phone = narrow_drawing(learned, PHONE, **shown_from)
    across = users.ARRIVAL if several else learned.features[0]
    found: dict[str, Any] = {"pilots": [], "clustering": None, "diagnostics": None, "new": []}
    diagnosis = None if idata is None else diagnose(idata, planned_chains(material.settings))
    if idata is not None and diagnosis is not None:
        found["pilots"] = users.pilot_user_reports(found_pilots, look, across, learned.target)
        found["clustering"] = representative(idata)
        found["diagnostics"] = summarise_diagnosis(diagnosis, idata)
    if material.selections is not None:
        found["new"] = users.new_user_reports(
            material.selections, material.predictions, learned, look
        )
    kernels = Kernels(learned, drawing, look, found["clustering"], found["pilots"])
    rows, hidden = short.rows(learned)
    return page.render(
        material=material,
        look=look,
        drawing=drawing,
        graph=graph(drawing, kernels.address, kernels.tip, look.colour),
        phone=phone,
        phone_graph=graph(phone, kernels.address, kernels.tip, look.colour),
        kernels=kernels,
        pilots=found["pilots"],
        clustered=found["clustering"] is not None,
        new=found["new"],
        parts_in=None if idata is None else parts_in(idata, look),
        diagnostics=found["diagnostics"],
        bars=[] if diagnosis is None else bars(diagnosis.parts, learned, look),
        headline=short.headline_of(diagnosis),
        short=short.lines(learned, look, found["pilots"], diagnosis),
        missing=short.missing(material),
        ends=short.ends(learned),
        shared=shared_part(learned, idata),
        rows=rows,
        hidden=hidden,
        settings=study.settings(material),
        candidates=study.candidates(material),
        priors=study.priors(material),
        versions=study.versions(material),
    )


def _check(file: Path, overwrite: bool) -> None:
    if file.is_dir():
        raise InputError(f"{file} is a folder. Give the path of a file to write.")
    if file.exists() and not overwrite:
        raise InputError(
            f"The file {file} exists. Give another path, or {{overwrite}}.", overwrite=True
        )
