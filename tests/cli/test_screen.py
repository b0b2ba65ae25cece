"""Messages and tables of the commands: where lines break, and what is said of the target."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from kem_pymc._system.display import SYMBOLS, Display, Listing
from kem_pymc._system.progress import Progress
from kem_pymc.cli import screen
from kem_pymc.cli.screen import broken, wrapped
from kem_pymc.data.scaling import Scaling


def test_lines_break_between_items_only():
    """Fails where a composition is broken at the sign within a candidate."""
    items = ["LIN0 x SE1", "SE0", "a-feature x b", "PER0"]
    lines = wrapped(items, " + ", 16)
    assert " ".join(lines) == " + ".join(items)
    assert [line.removesuffix(" +") for line in lines] == [
        "LIN0 x SE1",
        "SE0",
        "a-feature x b",
        "PER0",
    ]
    assert wrapped(items, ", ", 100) == [", ".join(items)]
    assert wrapped(["x" * 40], ", ", 3) == ["x" * 40]
    assert broken("LIN0 + SE1 x PER0", ["day", "age"], 200) == "LIN(day) + PER(day) \xd7 SE(age)"


def test_messages_say_whether_a_transform_may_help(cohort, capsys):
    """Fails where a transform that is there is advised again."""
    positive = replace(cohort, targets=tuple(np.exp(3 * y) for y in cohort.targets))
    screen.modelled(positive, None)
    assert "See --transform." in capsys.readouterr().err
    screen.modelled(positive, Scaling.unit(positive, "log"))
    shown = capsys.readouterr()
    assert shown.out == f"The modelled quantity is log({positive.target}).\n"
    assert not shown.err


def test_control_characters_in_names_are_symbols(capsys):
    """A title of the window, colours, text from right to left; markup and emojis are text, too."""
    name = "\x1b]0;title\x07\x1b[31mred\x9b2K\rgone\x7f \u202eleft\u2066 [bold]b[/] :x:"
    shown = "␛]0;title␇␛[31mred�2K␍gone␡ �left� [bold]b[/] :x:"
    display = Display(name, {name: name}, [Listing([name], [[name]], title=name)], [name])
    with Progress("users") as bars:
        for show in (screen.error, screen.warn, screen.info, screen.heading, bars.info):
            show(name)
            printed = "".join(capsys.readouterr())
            assert shown in printed
            assert not any(ord(character) in SYMBOLS for character in printed)
    console = Console(file=StringIO(), width=300)
    console.print(display.rich())
    text = console.file.getvalue()
    assert text.count(shown) == 7
    assert not any(ord(character) in SYMBOLS for character in text)


@pytest.mark.parametrize("width", [200, 80])
def test_every_cell_of_a_wide_table_is_on_the_screen(width, monkeypatch):
    steps = range(1, 10)
    rows = {
        (study, method): {t: f"-{size}.{t}{s} ± 0.{s}{t}" for t in steps}
        for s, study in enumerate(["First study", "Second study"])
        for size, method in enumerate(["KEM", "KEM, one noise prior"])
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["study", "method"])
    console = Console(file=StringIO(), width=width)
    monkeypatch.setattr(screen, "console", console)
    screen.tables({"Means": table})
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    means = {cell.split()[0] for row in rows.values() for cell in row.values()}
    assert means < set(text.split())
    assert text.count("KEM, one noise prior") == {200: 2, 80: 6}[width]
