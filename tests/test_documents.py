"""What the documents show works: their Python runs, their commands, options and files exist."""

import ast
import operator
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pymc as pm
import pytensor
import pytest
import typer

import kem_pymc
from kem_pymc.cli.main import app
from kem_pymc.cli.tables import Table
from kem_pymc.kernels import base
from kem_pymc.lifelong.training import training
from tests.cli.conftest import fine
from tests.cli.test_main import commands as all_commands

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if path.name != "command-line.md"
        and "_build" not in path.parts  # which the site's build makes
    ),
]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}

COMMANDS: dict[str, Any] = all_commands()


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXTS[document], flags=re.DOTALL)


def lines() -> list[str]:
    """Return all lines of console blocks, without comments."""
    found = [
        line.split(" #")[0].removeprefix("$ ").strip()
        for document in TEXTS
        for block in blocks(document, "console")
        for line in block.splitlines()
    ]
    return sorted({line for line in found if line})


def commands() -> list[str]:
    """Return what is said to ``kem``: in console blocks, and inline where it has options."""
    shown = [line[line.index("kem ") :] for line in lines() if re.search(r"(^|\s)kem ", line)]
    inline = [
        text
        for document in TEXTS.values()
        for text in re.findall(r"`(kem [^`\n]+)`", re.sub(r"```.*?```", "", document, flags=re.S))
    ]
    return sorted({*shown, *inline})


def anchors(document: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", TEXTS[document], flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", TEXTS)
def test_links_lead_somewhere(document):
    """Files and headings to which the documents link exist."""
    for link in re.findall(r"\]\(([^)\s]+)\)", TEXTS[document]):
        if link.startswith("http"):
            continue
        file, _, anchor = link.partition("#")
        to = ((ROOT / document).parent / file).resolve() if file else ROOT / document
        assert to.exists(), link
        assert not anchor or anchor in anchors(to.relative_to(ROOT).as_posix()), link


def with_python() -> list[str]:
    """Return documents whose Python is run here, and not in tests/runs or from a wheel."""
    elsewhere = ("docs/reference/runs.md", "README.md")
    shown = (document for document in TEXTS if blocks(document, "python"))
    return [document for document in shown if document not in elsewhere]


def test_blocks_are_python_or_console():
    """Nothing else is fenced with a language, so nothing escapes the tests of this file."""
    for document, text in TEXTS.items():
        fences = re.findall(r"^```(.*)$", text, flags=re.MULTILINE)
        assert len(fences) % 2 == 0, document
        assert set(fences[::2]) <= {"python", "console", ""}, document
    assert {"docs/how-to/priors.md", "docs/how-to/search.md"} <= set(with_python())


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = pm.sample

    def few(**options: Any) -> Any:
        least = {"draws": 5, "tune": 5, "chains": 1, "cores": 1, "progressbar": False}
        return sample(**(options | least | {"random_seed": 0}))

    monkeypatch.setattr(pm, "sample", few)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base kernels that a document registers are gone after its test."""
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))


@pytest.mark.filterwarnings("ignore:The number of samples is too small")
@pytest.mark.usefixtures("few_draws", "registry")
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=pytest.mark.slow if "lifelong" in name else ())
        for name in with_python()
    ],
)
@pytest.mark.newcomer
def test_python_runs_in_order(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "document"}
    # Networks take thousands of steps: they are compiled as users have them, not as in other tests.
    training.cache_clear()
    mode = "NUMBA" if "lifelong" in document else pytensor.config.mode
    with pytensor.config.change_flags(mode=mode):
        for number, block in enumerate(blocks(document, "python")):
            exec(compile(block, f"{document}, block {number}", "exec"), names)
    training.cache_clear()


@pytest.mark.newcomer
def test_the_first_answer_is_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where a number or a word of the first tutorial isn't what the command prints."""
    document = "docs/tutorials/first-answer.md"
    monkeypatch.chdir(tmp_path)
    (python,) = blocks(document, "python")
    exec(compile(python, document, "exec"), {})
    command = next(line for line in lines() if line.startswith("kem effects --data visits.csv"))
    printed = " ".join(fine(*shlex.split(command)[1:]).split())
    (shown,) = re.findall(r"```\n(The mean curve.*?)```", TEXTS[document], flags=re.DOTALL)
    assert " ".join(shown.split()) in printed


@pytest.mark.parametrize("line", commands())
def test_commands_exist(line: str) -> None:
    _, *words = shlex.split(line)
    command = typer.main.get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_and_their_options_are_explained(name: str) -> None:
    """Fails where something is added to the command line without a word on what it is."""
    command = COMMANDS[name]
    assert command.help
    for parameter in command.params:
        assert len((parameter.help or "").split()) > 1, parameter.opts
    assert any(re.search(rf"\bkem {name}\b", text) for text in TEXTS.values())


def test_options_of_the_program_are_explained() -> None:
    for parameter in typer.main.get_command(app).params:
        assert len((parameter.help or "").split()) > 1, parameter.opts  # type: ignore[attr-defined]


def tables() -> list[tuple[str, str, str]]:
    """Return name, content and command of each table that is shown."""
    pattern = r"`(\w+\.csv)`:\n\n```\n(.*?)```.*?\$ (kem fit [^\n]+)"
    return [found for text in TEXTS.values() for found in re.findall(pattern, text, re.DOTALL)]


def test_tables_are_read_by_their_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them, with its own options: catches one that would be refused, or named wrong."""
    monkeypatch.chdir(tmp_path)
    assert len(tables()) == 6
    for name, content, line in tables():
        Path(name).write_text(content)
        command = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
        given = command.make_context("fit", shlex.split(line)[2:]).params
        assert given["data"] == Path(name)
        cohort = Table(**{option: given[option] for option in Table.model_fields}).cohort()
        rows = [row for row in content.splitlines() if row][1:]
        assert cohort.n_users == 2
        assert cohort.n_points == len(rows)


@pytest.mark.parametrize("line", lines())
def test_paths_of_commands_exist(line: str) -> None:
    for word in shlex.split(line):
        if re.match(r"(tests|benchmarks|models|docs)/", word) and word != "docs/_build":
            assert (ROOT / word).exists()


MOVES = ROOT / "kem_pymc" / "sampler" / "moves"


def test_what_goes_wrong_in_a_trial_has_tests() -> None:
    """Fails where docs/reference/trial.md promises what no test of that name shows."""
    named = re.findall(r"\| `(test_\w+)` \|", TEXTS["docs/reference/trial.md"])
    there = "".join(path.read_text() for path in (ROOT / "tests" / "trial").glob("test_*.py"))
    assert len(named) >= 30
    assert [name for name in named if f"def {name}(" not in there] == []


@pytest.mark.parametrize("name", sorted(path.name for path in MOVES.glob("[!_]*.py")))
def test_every_move_is_in_the_mathematics(name: str) -> None:
    assert f"`moves/{name}`" in TEXTS["docs/explanation/sampler.md"]


def test_the_mathematics_names_no_other_files() -> None:
    pages = (TEXTS[f"docs/explanation/{name}.md"] for name in ("model", "sampler", "selection"))
    for path in re.findall(r"`((?:\w+/)+\w+\.py)`", "".join(pages)):
        package = ROOT / "kem_pymc"
        assert (
            (package / path).exists()
            or (package / "sampler" / path).exists()
            or (ROOT / path).exists()
        ), path


def test_every_option_of_the_schedule_is_in_the_mathematics() -> None:
    for option in re.findall(r"`Schedule\.(\w+)`", TEXTS["docs/explanation/sampler.md"]):
        from kem_pymc.sampler.moves.sweep import Schedule

        assert option in Schedule._fields


def notation() -> list[tuple[str, list[str], list[str]]]:
    """Return the rows of docs/explanation/notation.md: the symbol, names in the code, files."""
    rows = []
    for line in TEXTS["docs/explanation/notation.md"].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[0] != "paper" and not cells[0].startswith("--"):
            names, files = (re.findall(r"`([^`]+)`", cell) for cell in cells[2:])
            rows.append((f"{cells[0]}: {cells[1]}", names, files))
    return rows


@pytest.mark.parametrize(("symbol", "names", "files"), notation())
def test_notation_is_that_of_the_code(symbol: str, names: list[str], files: list[str]) -> None:
    assert names, symbol
    assert files, symbol
    texts = [(ROOT / "kem_pymc" / file).read_text("utf-8") for file in files]
    for name in names:
        assert any(re.search(rf"\b{name}\b", text) for text in texts), name
    for file, text in zip(files, texts, strict=True):
        assert any(re.search(rf"\b{name}\b", text) for name in names), file


def said() -> str:
    """Return all texts of the package that are longer than a word, one a line."""
    texts = (
        "...".join(part.value for part in node.values if isinstance(part, ast.Constant))
        if isinstance(node, ast.JoinedStr)
        else node.value
        for path in (ROOT / "kem_pymc").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )
    return "\n".join(texts)


def test_messages_that_are_explained_are_those_of_the_package() -> None:
    """Fails where a message was changed, and its explanation can't be found any more."""
    explained = re.findall(r"^> `(.*)`$", TEXTS["docs/reference/pitfalls.md"], flags=re.MULTILINE)
    there = said()
    assert len(explained) >= 15
    for message in explained:
        for part in message.split("..."):
            assert part.strip() in there, message


def test_messages_name_headings_of_their_page() -> None:
    """Fails where a message sends its reader to a heading that isn't there."""
    headings = re.findall(r"^### (.*)$", TEXTS["docs/reference/pitfalls.md"], flags=re.MULTILINE)
    sources = (path.read_text("utf-8") for path in (ROOT / "kem_pymc").rglob("*.py"))
    named = re.findall(r'\bsee="([^"]+)"', "".join(sources))
    assert len(named) >= 8
    assert set(named) <= set(headings)


#: Parts of the package that need other packages.
EXTRA = ("sklearn.", "trial.")


def test_all_public_names_are_in_the_reference() -> None:
    """Fails where a name is added to the package, or to a part of it, without a place there."""
    page = (ROOT / "docs" / "reference" / "python.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^   ([\w.]+)$", page, flags=re.MULTILINE)
    explained = [
        operator.attrgetter(name)(kem_pymc) for name in listed if not name.startswith(EXTRA)
    ]
    for name in set(kem_pymc.__all__) - {"__version__"}:
        public = getattr(kem_pymc, name)
        if isinstance(public, ModuleType):
            for own in getattr(public, "__all__", []):
                assert getattr(public, own) in explained, f"{name}.{own}"
        else:
            assert public in explained, name
