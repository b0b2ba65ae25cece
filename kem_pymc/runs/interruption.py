"""Deferred handling of Ctrl-C: it is recorded, and checked between draws, so no draw is cut off."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruption:
    """Signal handler that only records, in attribute `happened`, that Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.happened = False

    def __call__(self, number: int, frame: Any) -> None:
        self.happened = True


@contextmanager
def noticing_interruption() -> Iterator[Interruption]:
    """Record Ctrl-C, however often it is pressed, instead of raising KeyboardInterrupt.

    If another handler is installed already, or the signal is ignored as in background jobs, this
    isn't changed; nor is anything outside the main thread. A context within another such context
    yields the same object.
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
