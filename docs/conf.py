"""The site of the documentation: ``uv run --group docs sphinx-build -W docs docs/_build``.

It is built without a network. What is made before Sphinx reads the pages, all of it ignored by git:
the notebooks as ``.ipynb`` (`notebooks`), the page of the command line (`command_line`), and by
Sphinx's extensions those of Python names (``reference/api``) and of the examples (``examples``).
"""

import re
import shutil
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import jupytext
import nbformat
import pytensor
import typer
from numpydoc.xref import DEFAULT_LINKS
from sphinx.application import Sphinx
from sphinx_gallery.sorting import FileNameSortKey

import kem_pymc

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "kem_pymc"
author = copyright = "The kem_pymc developers"
version = release = version_of("kem-pymc")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery", "examples/*.ipynb", "examples/*.py", "jupyter_execute"]
templates_path = ["_templates"]
default_role = "code"  # `name` in docstrings: a parameter
suppress_warnings = ["config.cache"]  # of classes in the gallery's settings

# Pages, and notebooks, which notebooks/run.py executes.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"

# Python names.
autosummary_generate = True
autodoc_typehints = "none"  # docstrings have types
_REQUESTS = [f"set_{method}_request" for method in ("fit", "partial_fit", "predict", "score")]
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": ",".join(_REQUESTS),  # scikit-learn's own, with links into its site
}
numpydoc_show_class_members = False
numpydoc_xref_param_type = True  # classes in types are links, other words aren't
numpydoc_xref_ignore = "all"
DEFAULT_LINKS.clear()  # into glossaries of Python and NumPy, which need a network
_CLASSES = re.findall(
    r"^   ([\w.]*?\b([A-Z]\w+))$", (HERE / "reference" / "python.rst").read_text(), re.MULTILINE
)
numpydoc_xref_aliases = {
    **{name: f"kem_pymc.{path}" for path, name in _CLASSES},
    **{"DataFrame": "pandas.DataFrame", "ndarray": "numpy.ndarray"},
}
copybutton_prompt_text = "$ "

# Examples, which the build executes in one process, and in which functions are called a few times.
pytensor.config.mode = "FAST_COMPILE"
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": FileNameSortKey,
    "abort_on_example_error": True,
    "capture_repr": (),  # what examples print, not what they end in
    "min_reported_time": 1,
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": False,
    "doc_module": ("kem_pymc",),
    "reference_url": {"kem_pymc": None},  # names in examples are links
    "backreferences_dir": "reference/examples",
}

# Appearance. Nothing is loaded from other hosts.
html_theme = "pydata_sphinx_theme"
html_title = "kem_pymc"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"which": []}  # has no pages below it
html_theme_options: dict[str, Any] = {
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def reachable(address: str) -> bool:
    """Return whether a host answers: without a network names of other packages aren't linked."""
    try:
        with urlopen(f"{address}objects.inv", timeout=2):
            return True
    except OSError:
        return False


_OTHERS = {
    "pymc": "https://www.pymc.io/projects/docs/en/stable/",
    "arviz": "https://python.arviz.org/en/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "numpy": "https://numpy.org/doc/stable/",
}
intersphinx_mapping = {name: (url, None) for name, url in _OTHERS.items() if reachable(url)}


def notebooks() -> None:
    """Write the notebooks as Jupyter has them, without outputs."""
    folder = HERE / "notebooks"
    for path in sorted((ROOT / "notebooks").glob("[0-9]_*.py")):
        nbformat.write(jupytext.read(path), folder / f"{path.stem}.ipynb")


def command_line() -> None:
    """Write the page of all commands and options, as typer describes them."""
    from typer.cli import get_docs_for_click

    from kem_pymc.cli.main import app

    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="kem")
    text = re.sub(r"^Example: (.*)$", r"```console\n$ \1\n```", text, flags=re.MULTILINE)
    text = text.replace("# `kem`", "# Command line", 1)
    (HERE / "reference" / "command-line.md").write_text(text, encoding="utf-8")


def beside_pages(app: Sphinx, error: Exception | None) -> None:
    """Write what isn't a page of the site: a report of the gallery, and llms.txt (llmstxt.org)."""
    if error or app.builder.name != "html":
        return
    shutil.copy(HERE / "gallery" / "report.html", app.outdir)
    lines = ["# kem_pymc", "", "> Kernels that evolve as data arrive, for PyMC."]
    sections = ("which", "tutorials", "notebooks", "how-to", "examples", "reference", "explanation")
    for section in sections:
        lines.append("")
        for page, title in sorted(app.env.titles.items()):
            if page.partition("/")[0] == section and "/api/" not in page:
                source = app.env.doc2path(page).suffix
                lines.append(f"- [{title.astext()}](_sources/{page}{source}.txt)")
    text = "\n".join(lines) + "\n"
    (Path(app.outdir) / "llms.txt").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Tell Sphinx what to do at the end."""
    app.connect("build-finished", beside_pages)


notebooks()
command_line()
sys.modules["kem_pymc.datasets"] = kem_pymc.datasets  # as users write it, not as the package has it
