"""Timings for fair comparisons: the functions compared run in turns, in one process."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One row of the table of results.

    Attributes
    ----------
    figure : str
        Name of the measured quantity.
    target : str
        Required value.
    measured : str
    met : bool
    distance : float
        Measured value over the target, or its inverse for a lower bound: above 1 the target is
        missed.
    """

    figure: str
    target: str
    measured: str
    met: bool
    distance: float


def at_most(figure: str, measured: float, target: float, unit: str = "") -> Row:
    """Return a row for a quantity that should be `target` or less."""
    met = bool(measured <= target)
    return Row(figure, f"<= {target:g}{unit}", f"{measured:.3g}{unit}", met, measured / target)


def at_least(figure: str, measured: float, target: float, unit: str = "") -> Row:
    """Return a row for a quantity that should be `target` or more."""
    met = bool(measured >= target)
    return Row(figure, f">= {target:g}{unit}", f"{measured:.3g}{unit}", met, target / measured)


def in_turns(*functions: Callable[[], object], seconds: float = 2.0) -> list[float]:
    """Return each function's CPU seconds per call, the median of blocks that run in turns.

    Blocks take about 20 ms, so that any slowdown of the machine affects all functions alike.
    """
    repeats = []
    for function in functions:
        function()
        began = time.process_time()
        function()
        once = max(time.process_time() - began, 1e-7)
        repeats.append(max(1, round(0.02 / once)))
    blocks: list[list[float]] = [[] for _ in functions]
    began = time.process_time()
    while time.process_time() - began < seconds or len(blocks[0]) < 3:
        for block, function, n in zip(blocks, functions, repeats, strict=True):
            start = time.process_time()
            for _ in range(n):
                function()
            block.append((time.process_time() - start) / n)
    return [sorted(block)[len(block) // 2] for block in blocks]
