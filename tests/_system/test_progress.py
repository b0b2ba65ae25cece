"""What is seen while the library works: what is done, the time left, and not too many lines."""

from io import StringIO
from time import sleep

import pytest
from rich.console import Console

from kem_pymc._system import progress
from kem_pymc._system.progress import Pace, Progress, duration, waiting


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def on_a_terminal(monkeypatch, terminal=True):
    """Return what is written to the error stream."""
    screen = StringIO()

    def console(**_):
        return Console(file=screen, force_terminal=terminal, width=160)

    monkeypatch.setattr(progress, "Screen", console)
    return screen


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((1, "a few seconds"), (12, "about 10 seconds"), (44, "about 40 seconds")),
        *((55, "about 1 minute"), (125, "about 2 minutes"), (7300, "about 2 hours")),
    ],
)
def test_times_are_in_words(seconds, words):
    assert duration(seconds) == words


def test_no_estimate_before_20_seconds_and_none_from_what_is_only_read(clock):
    """Catches an estimate from draws that a resumed run has already, and one of a slow start."""

    def lefts(*seen):
        pace, texts = Pace(), []
        for clock[0], done in seen:
            texts.append(pace.left(done, 100))
        return texts

    read = lefts((0, 0), (1, 1), (19, 2), (20, 2), (40, 4), (60, 6), (61, 100))
    assert read == [*[""] * 5, "about 16 minutes left", ""]
    assert (
        lefts((100, 0), (101, 50), (130, 51), (160, 52), (190, 53))[-1] == "about 24 minutes left"
    )


def test_hours_in_which_a_process_was_suspended_are_no_pace(clock):
    """Catches 21 hours left for 9 minutes, in which 6 seconds are a step of 1 %."""
    pace = Pace()
    for clock[0], done in ((0, 0), (6, 1), (12, 2), (18, 3), (24, 4), (30, 5)):
        before = pace.left(done, 100)
    after = []
    for clock[0], done in ((7230, 6), (7236, 7), (7242, 8)):
        after.append(pace.left(done, 100))
    assert before == "about 10 minutes left"
    assert after == ["", *["about 9 minutes left"] * 2]


def test_the_time_left_follows_the_work_not_the_number_of_units(clock, capsys):
    """The last unit of four is 94 % of the work. Catches 10 seconds left for 6 minutes."""
    with Progress("units") as bars:
        task = bars.add("Working", 4, work=100)
        for clock[0] in (0.0, 10.0, 20.0, 30.0):
            bars.advance(task, int(clock[0] > 0), work=clock[0] / 10)
    assert capsys.readouterr().err.splitlines() == ["1 of 4 units"]
    assert bars._live.tasks[0].fields["text"] == "about 6 minutes left"


def test_without_a_terminal_lines_are_apart_and_count_all_tasks(clock, capsys):
    """62 draws took 50 s, so the 38 others take 31. Catches a pace of one chain alone."""
    with Progress("draws") as bars:
        first, second = bars.add("Chain 0", 50), bars.add("Chain 1", 50)
        bars.update(first, 0, "tuning")
        for clock[0], done in ((9.0, 11), (20.0, 25), (32.0, 40), (50.0, 62)):
            bars.update(second, done, "sampling")
    lines = ["25 of 100 draws", "62 of 100 draws, about 30 seconds left"]
    assert capsys.readouterr().err.splitlines() == lines
    with Progress("users") as bars:
        task = bars.add("Selecting", 3)
        clock[0] += 11.0
        bars.advance(task, 2, "[best] so far")
        bars.info("Stopping.")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["2 of 3 users, [best] so far", "Stopping."]


def test_bars_on_a_terminal(monkeypatch):
    screen = on_a_terminal(monkeypatch)
    with Progress("draws") as bars:
        chains = [bars.add(f"Chain {i}", 20) for i in range(3)]
        bars.update(chains[0], 4, "tuning, 3 clusters")
        bars.update(chains[0], 20, "sampling")
        bars.update(chains[1], 9, "[odd] text")
        bars.describe(chains[1], "Chain 1 failed")
    text = screen.getvalue()
    for words in ("Chain 0", "4/20", "tuning, 3 clusters", "20/20", "[odd]", "Chain 1 failed"):
        assert words in text
    assert "Chain 2" not in text  # it hasn't begun


@pytest.mark.parametrize(("asked", "terminal"), [(False, True), (True, False)])
def test_quiet(monkeypatch, asked, terminal):
    screen = on_a_terminal(monkeypatch, terminal)
    with Progress("draws", asked) as bars:
        bars.advance(bars.add("Chain 0", 20))
    assert not screen.getvalue().strip()


def test_without_a_terminal_long_waits_are_reported_in_lines(monkeypatch, capsys):
    """Catches silence, a line for what takes no time, and a line at every look."""
    monkeypatch.setattr(progress, "NOTICEABLE", 0.05)
    monkeypatch.setattr(progress, "BETWEEN_LINES", 0.3)
    with waiting("Nothing much"):
        pass
    with waiting("Compiling"):
        sleep(0.5)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "Compiling ..."
    assert second.endswith("s so far")
    with pytest.raises(ZeroDivisionError), waiting("Dividing"):
        raise ZeroDivisionError
    sleep(0.1)
    assert capsys.readouterr().err == ""


def test_waits_in_waits_are_one_line_with_the_time_left_of_their_parts(monkeypatch, clock, capsys):
    monkeypatch.setattr(progress, "NOTICEABLE", 0.1)
    with waiting("Reading"), waiting("Learning") as report:
        for clock[0], done in ((0.0, 0), (20.0, 1), (40.0, 2), (60.0, 3)):
            report(done, 8)
        sleep(0.2)
    assert capsys.readouterr().err.splitlines() == ["Reading ... 60 s so far, about 2 minutes left"]
