"""Show that a slow operation is in progress: a status line or, without a terminal, plain lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from kem_pymc.cli import screen
from kem_pymc.runs.progress import BETWEEN_LINES

#: Seconds after which the first line is printed, without a terminal.
NOTICEABLE = 3.0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show an animated status line while an operation is in progress.

    Without a terminal, a line is printed if the operation takes longer than `NOTICEABLE` seconds,
    then another every half minute, with the elapsed time.

    Parameters
    ----------
    what : str
        Description of the operation, such as "Compiling the sampler".
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
        screen.info(f"{what} ...{elapsed}")
        pause = BETWEEN_LINES
