"""Messages and tables of the commands: where lines break, and what is said of the target."""

from dataclasses import replace

import numpy as np

from kem_pymc.cli import screen
from kem_pymc.cli.screen import broken, wrapped
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.prose import readable


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
    assert broken("LIN0 + SE0", 200) == readable("LIN0 + SE0")


def test_messages_say_whether_a_transform_may_help(cohort, capsys):
    """Fails where a transform that is there is advised again."""
    positive = replace(cohort, targets=tuple(np.exp(3 * y) for y in cohort.targets))
    screen.modelled(positive, None)
    assert "See --transform." in capsys.readouterr().err
    screen.modelled(positive, Scaling.unit(positive, "log"))
    shown = capsys.readouterr()
    assert shown.out == f"The modelled quantity is log({positive.target}).\n"
    assert not shown.err
