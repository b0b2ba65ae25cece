"""What is being done while nothing else is seen: a status; without a terminal, plain lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from kem_pymc.commands import screen
from kem_pymc.evolution.progress import BETWEEN_LINES

#: Without a terminal nothing is said of what takes less.
NOTICEABLE = 3.0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is being done until it is: in a status line that turns.

    Without a terminal it is said once if it takes a while, and then every half minute how long it
    has taken.

    Parameters
    ----------
    what : str
        Such as "Compiling the sampler".
    """
    if screen.console.is_terminal:
        with screen.console.status(f"{what} ..."):
            yield
        return
    over = Event()
    speaker = Thread(target=_speak, args=(what, over), daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def _speak(what: str, over: Event) -> None:
    began, pause = monotonic(), NOTICEABLE
    while not over.wait(pause):
        seconds = monotonic() - began
        elapsed = "" if seconds < BETWEEN_LINES else f" {seconds:.0f} s so far"
        screen.say(f"{what} ...{elapsed}")
        pause = BETWEEN_LINES
