"""What is seen while commands work: what is done, how long it takes, and not too many lines."""

from time import sleep

import pytest
from rich.console import Console

from kem_pymc.cli import screen, waiting
from kem_pymc.runs import progress
from kem_pymc.runs.folder import Plan
from kem_pymc.runs.progress import Bars, Lines, duration, time_left


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((1, "a few seconds"), (12, "about 10 seconds"), (44, "about 40 seconds")),
        *((55, "about 1 minute"), (125, "about 2 minutes"), (7300, "about 2 hours")),
    ],
)
def test_times_are_in_words(seconds, words):
    assert duration(seconds) == words


def test_the_rest_takes_as_long_as_what_is_done():
    assert time_left(1, 3, 60.0) == "1 of 3, about 2 minutes left"
    assert time_left(0, 3, 60.0) == "0 of 3"
    assert time_left(3, 3, 60.0) == "3 of 3"


def test_without_a_terminal_long_waits_are_reported_in_lines(monkeypatch, capsys):
    """Catches silence, a line for what takes no time, and a line at every look."""
    monkeypatch.setattr(waiting, "NOTICEABLE", 0.05)
    monkeypatch.setattr(waiting, "BETWEEN_LINES", 0.3)
    monkeypatch.setattr(screen, "console", Console(highlight=False))
    with waiting.waiting("Nothing much"):
        pass
    with waiting.waiting("Compiling"):
        sleep(0.5)
    message = capsys.readouterr().out.splitlines()
    assert message[0] == "Compiling ..."
    assert len(message) == 2
    assert message[1].endswith("s so far")


def test_an_error_ends_the_wait(monkeypatch, capsys):
    monkeypatch.setattr(waiting, "NOTICEABLE", 0.05)
    with pytest.raises(ZeroDivisionError), waiting.waiting("Dividing"):
        raise ZeroDivisionError
    sleep(0.1)
    assert capsys.readouterr().out == ""


def test_lines_are_apart(monkeypatch):
    clock = iter([0.0, 10.0, 31.0, 31.0, 40.0, 70.0, 70.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    message = []
    lines = Lines(message.append)
    for line in "abcd":
        lines.say(line)
    assert message == ["b", "d"]


def test_sampling_is_reported_without_a_terminal(monkeypatch, capsys):
    """40 draws took 32 s, so the 60 others take 48. Catches a pace of one chain alone."""
    now = 0.0
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    with Bars(Plan(draws=30, tune=20, chains=2, random_seed=0, chunk=10), True) as bars:
        statistics = {"n_clusters": 1, "log_density": 0.0}
        bars.update(0, 0, statistics)
        now = 32.0
        bars.update(1, 40, statistics)
    assert capsys.readouterr().err.splitlines() == ["40 of 100 draws, about 50 seconds left"]
