"""Write the HTML report of a study from a folder of results or from a posterior."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc._system.files import write_atomically
from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.novelty import UNLEARNED
from kem_pymc.plots.report.gather import Material, planned_chains

if TYPE_CHECKING:
    from xarray import DataTree


@checked
def report(
    source: "str | Path | DataTree", path: str | Path | None = None, *, overwrite: bool = False
) -> Path:
    """Write a report on a study as one HTML file, which needs no network and works in any browser.

    The report shows what users share and how they differ, the graph of evolutions, a description of
    each composition in plain English, every user's kernels and predictions, diagnostics with
    remedies, settings, versions, a model card and citations. Sections for which `source` has no
    data are left out, and the page says which command produces the data.

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
        material = Material(file.stem, Evolutions.from_posterior(source), source)
    if os.path.isdir(file):
        raise InputError(f"{file} is a folder. Give the path of a file to write.")
    if os.path.exists(file) and not overwrite:
        raise InputError(
            f"The file {file} exists. Give another path, or {{overwrite}}.", overwrite=True
        )
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
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from matplotlib import rc_context

    from kem_pymc.diagnostics.diagnosis import diagnose
    from kem_pymc.evolutions.from_posterior import pilot_population
    from kem_pymc.plots.report import sections, study
    from kem_pymc.plots.report.card import card
    from kem_pymc.plots.report.pictures import SETTINGS
    from kem_pymc.plots.report.pilots import selected_without
    from kem_pymc.plots.report.values import ENOUGH

    learned, idata, selections = material.evolutions, material.idata, material.selections
    content: dict[str, Any] = {"material": material, "study": study.tables(material)}
    content["card"] = card(learned)
    content |= {"n_pilots": 0, "novelty": learned.novelty or UNLEARNED, "enough": ENOUGH}
    with rc_context(SETTINGS):
        content |= sections.evolutions(learned)
        if idata is not None:
            content["n_pilots"] = idata["posterior"].sizes["user"]
            final = material.final
            diagnosis = diagnose(idata, planned_chains(material.settings), final=final)
            population = pilot_population(idata)
            if population is not None:
                content["population"] = sections.population(population)
            content["parts"] = sections.parts(diagnosis, idata if final is None else final)
            content["diagnostics"] = sections.diagnostics(diagnosis, idata)
            pilots = selected_without(idata, final, material.unshared, learned.novelty)
            if pilots is not None:
                content["pilots"] = sections.users("pilot", *pilots, learned)
        if selections is not None:
            content["new"] = sections.users("new", selections, material.predictions, learned)
    environment = Environment(
        loader=PackageLoader("kem_pymc.plots.report", "page_files"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("page.html").render(content)
