"""Ctrl-C as a wish that is looked at between draws, so that it breaks nothing half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruption:
    """Whether Ctrl-C was pressed: a signal handler that only remembers."""

    def __init__(self) -> None:
        self.happened = False

    def __call__(self, number: int, frame: Any) -> None:
        self.happened = True


@contextmanager
def noticing_interruption() -> Iterator[Interruption]:
    """Remember Ctrl-C, however often it is pressed, in place of raising KeyboardInterrupt.

    Where somebody else handles it already, or it is ignored as in jobs in the background, that
    stays so. Within another such context, both are one.
    """
    usual = signal.getsignal(signal.SIGINT)
    if isinstance(usual, Interruption):
        yield usual
        return
    noticed = Interruption()
    main = threading.current_thread() is threading.main_thread()
    if not main or usual is not signal.default_int_handler:
        yield noticed
        return
    signal.signal(signal.SIGINT, noticed)
    try:
        yield noticed
    finally:
        signal.signal(signal.SIGINT, usual)
