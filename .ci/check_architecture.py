"""Compare ARCHITECTURE.md with the tree: paths, modules, layers, and who knows PyMC and ArviZ.

Run without arguments from anywhere; prints what doesn't hold and exits with 1. Nothing but Python's
own library is needed.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "kem_pymc"

#: What a word in the tree has to look like to be a path.
PATH = re.compile(r"(?<![\w/.])(?:[\w.-]+/)*[\w.-]+(?:/|\.(?:py|md|toml|txt))(?=[\s,;:).]|$)")


def check(root: Path) -> list[str]:
    """Return what doesn't hold in a checkout, a line for each fault."""
    text = (root / "ARCHITECTURE.md").read_text("utf-8")
    tree = text.split("```")[1]
    named, faults = named_paths(root, tree)
    faults += not_covered(root, named)
    faults += layers(root, text)
    for library in ("PyMC", "ArviZ"):
        faults += who_knows(root, text, library)
    return faults


def named_paths(root: Path, tree: str) -> tuple[dict[Path, bool], list[str]]:
    """Return the paths that the tree names, with whether it lists what is in them, and faults."""
    named: dict[Path, bool] = {}
    faults = []
    folders = {0: root}  # by indentation: where names at that depth lie
    for line in tree.splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        folders = {d: folder for d, folder in folders.items() if d <= depth}
        home = folders[max(folders)]
        if home in named:
            named[home] = True
        for number, word in enumerate(PATH.findall(line)):
            places = [home, *folders.values()]
            if number > 0 and depth + 2 in folders:
                places.insert(0, folders[depth + 2])
            found = next((place / word for place in places if (place / word).exists()), None)
            if found is None:
                faults.append(f"The tree names {word}, which isn't in {home.relative_to(root)}/.")
                continue
            named.setdefault(found, False)
            if number == 0 and word.endswith("/"):
                folders[depth + 2] = found
    return named, faults


def not_covered(root: Path, named: dict[Path, bool]) -> Iterator[str]:
    """Yield modules that no line is about: their own, or that of a folder without a list."""
    for module in sorted((root / PACKAGE).rglob("*.py")):
        covering = [folder for folder in module.parents if folder in named]
        listed = bool(covering) and named[covering[0]]
        if module.name != "__init__.py" and module not in named and (listed or not covering):
            yield f"No line of the tree is about {module.relative_to(root)}."


def layers(root: Path, text: str) -> Iterator[str]:
    """Yield where the order of layers isn't that of the contract in pyproject.toml."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (c["layers"] for c in contracts if c["type"] == "layers")
    strict = [set(re.findall(rf"{PACKAGE}\.(\w+)", layer)) for layer in reversed(contract)]
    found = re.search(r"`([\w, ]+<[^`]+)`", text)
    told = [set(re.findall(r"\w+", layer)) for layer in found[1].split("<")] if found else []
    for number in range(max(len(strict), len(told))):
        one, other = (
            " and ".join(sorted(order[number])) if number < len(order) else "nothing"
            for order in (told, strict)
        )
        if one != other:
            yield f"Layer {number + 1} is {one} in ARCHITECTURE.md, {other} in pyproject.toml."
            return
    there = {path.stem for path in (root / PACKAGE).iterdir() if path.suffix in ("", ".py")}
    for name in sorted(there - set().union(*strict) - {"__init__", "__pycache__"}):
        yield f"{PACKAGE}/{name} is in no layer of pyproject.toml."


def who_knows(root: Path, text: str, library: str) -> Iterator[str]:
    """Yield modules that import a library though the text says others do, and the other way."""
    sentence = re.search(rf"([^.;]+) knows? {library}", text.replace("\n", " "))
    told: set[str] = set()
    for name in re.findall(r"`([^`]+)`", sentence[1]) if sentence else ():
        stem, _, rest = name.partition("{")
        told |= {stem + part for part in rest.rstrip("}").split(",")}
    knowing = set()
    for path in (root / PACKAGE).rglob("*.py"):
        module = path.relative_to(root / PACKAGE).with_suffix("").as_posix()
        if module.split("/")[0] != "cli" and _knows(path.read_text("utf-8"), library.lower()):
            knowing.add(
                next((t for t in told if module == t or module.startswith(f"{t}/")), module)
            )
    for module in sorted(knowing ^ told):
        verb = "does" if module in knowing else "doesn't"
        yield f"{PACKAGE}/{module} {verb} import {library}, other than ARCHITECTURE.md says."


@cache  # tests check many trees that differ in a line
def _knows(text: str, library: str) -> bool:
    """Return whether a module's text imports a library or a part of it (arviz_plots).

    Imports for type checking alone don't count.
    """
    if library not in text:
        return False
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        if any(re.match(rf"{library}(_|\.|$)", name) for name in names):
            return True
        waiting.extend(ast.iter_child_nodes(node))
    return False


if __name__ == "__main__":
    wrong = check(Path(__file__).resolve().parents[1])
    print("\n".join(wrong) or "ARCHITECTURE.md holds.")  # noqa: T201
    sys.exit(bool(wrong))
