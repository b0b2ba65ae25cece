"""ARCHITECTURE.md is true, and the script that says so notices when it isn't."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "check_architecture.py"
FOLDERS = (".ci", "benchmarks", "docs", "experiments", "kem_pymc", "models", "notebooks", "tests")
check = runpy.run_path(str(SCRIPT))["check"]


def test_it_holds():
    assert check(ROOT) == []


def test_ci_asks():
    assert "python .ci/check_architecture.py" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_no_class_has_the_name_of_another_one():
    """Two classes of one name in two modules would be mistaken for each other by readers."""
    modules: dict[str, list[str]] = {}
    for folder in ("kem_pymc", "experiments"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.MULTILINE):
                modules.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


@pytest.fixture
def elsewhere(tmp_path):
    """A checkout in which texts may be changed."""
    for path in ROOT.iterdir():
        if path.suffix in (".md", ".toml", ".txt"):
            shutil.copy(path, tmp_path)
        elif path.name in FOLDERS:
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("ARCHITECTURE.md", "errors.py ", "eras.py ", "names eras.py, which isn't in kem_pymc"),
        ("ARCHITECTURE.md", "  model/ ", "  ", "about kem_pymc/model/engine.py"),
        ("ARCHITECTURE.md", "  plots/ ", "  ", "about kem_pymc/plots/curves.py"),
        ("ARCHITECTURE.md", "< gp < priors", "< priors", "Layer 5 is priors in ARCHITECTURE.md"),
        ("pyproject.toml", '"kem_pymc.kernels",', "", "Layer 3 is kernels in ARCHITECTURE.md"),
        (
            "ARCHITECTURE.md",
            "population,distributions,noise",
            "population,noise",
            "distributions does import PyMC",
        ),
        ("ARCHITECTURE.md", "`diagnostics`", "`gp`", "kem_pymc/gp doesn't import ArviZ"),
    ],
)
def test_what_does_not_hold_is_reported(elsewhere, file, old, new, complaint):
    path = elsewhere / file
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")
    assert complaint in "\n".join(check(elsewhere))


def test_a_new_module_needs_a_line_and_a_layer(elsewhere):
    (elsewhere / "kem_pymc").unlink()
    shutil.copytree(ROOT / "kem_pymc", elsewhere / "kem_pymc")
    assert check(elsewhere) == []
    (elsewhere / "kem_pymc" / "fresh.py").touch()
    message = check(elsewhere)
    assert "No line of the tree is about kem_pymc/fresh.py." in message
    assert "kem_pymc/fresh is in no layer of pyproject.toml." in message
