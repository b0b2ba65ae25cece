"""Small plots as SVG, with colours from the style sheet of the page (light or dark)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from kem_pymc.reports.intervals import Band, Predicted

#: Size of a plot and its margins, in CSS pixels at full width.
WIDTH, HEIGHT = 260, 170
LEFT, TOP, RIGHT, BOTTOM = 48, 6, 8, 34

#: Text for a missing number.
DASH = "\N{EN DASH}"


class Frame(NamedTuple):
    """Ranges and labels of both axes."""

    x: tuple[float, float]
    y: tuple[float, float]
    across: str
    up: str

    def px(self, x: np.ndarray | float) -> np.ndarray:
        """Return the horizontal pixel positions of values."""
        low, high = self.x
        return LEFT + (np.asarray(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def py(self, y: np.ndarray | float) -> np.ndarray:
        """Return the vertical pixel positions of values."""
        low, high = self.y
        return HEIGHT - BOTTOM - (np.asarray(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def frame_of(steps: Sequence[Predicted], across: str, up: str) -> Frame:
    """Return the axes that all plots of a user share.

    The axes include all points and all predictive intervals, because a band cut off at the edge of
    the plot would look narrower than it is.
    """
    points = np.concatenate([np.concatenate([p.seen, p.following]) for p in steps])
    places = np.concatenate([points[:, 0], *(p.curve.at for p in steps)])
    low, high = np.nanmin(points[:, 1]), np.nanmax(points[:, 1])
    room = 0.25 * (high - low) or 1.0
    ends = np.concatenate([np.ravel(b.observed) for p in steps for b in (p.curve, p.ahead)])
    ends = ends[np.isfinite(ends)]
    low, high = min([low - room, *ends]), max([high + room, *ends])
    return Frame(_widened(places.min(), places.max()), _widened(low, high), across, up)


def prediction(predicted: Predicted, frame: Frame, identifier: str, label: str) -> Markup:
    """Return a plot of the predictions for a user at a time step.

    Parameters
    ----------
    predicted : Predicted
    frame : Frame
    identifier : str
        Identifier of the drawing, with which :func:`again` shows it elsewhere on the page.
    label : str
        Text alternative of the plot.
    """
    curve, ahead = predicted.curve, predicted.ahead
    if predicted.continuous:
        parts = [_band(curve, frame), _line(curve, frame)]
    else:
        parts = [_bars(curve, frame, "fit"), _bars(ahead, frame, "ahead")]
    judged = predicted.following[np.isfinite(predicted.following[:, 1])]
    parts += [_crosses(predicted.seen, frame), _rings(judged, frame)]
    body = Markup("").join([_axes(frame), _clipped(Markup("").join(parts))])
    return Markup(
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}">'
        '<g class="drawn" id="{}">{}</g></svg>'
    ).format(label, WIDTH, HEIGHT, identifier, body)


def frame(x: np.ndarray, y: tuple[float, float], across: str, up: str) -> Frame:
    """Return axes over the range of x (m,) and over the interval y, both slightly widened."""
    return Frame(_widened(x.min(), x.max()), _widened(*y), across, up)


def section(x: np.ndarray, mean: np.ndarray, sd: np.ndarray, frame: Frame, label: str) -> Markup:
    """Return a plot of a function's mean (m,), with a band of 2 sd (m,) to either side."""
    there, band = np.concatenate([x, x[::-1]]), 2 * np.concatenate([sd, -sd[::-1]])
    around = np.concatenate([mean, mean[::-1]]) + band
    shapes = [_path(there, around, frame, "band function"), _path(x, mean, frame, "median")]
    body = Markup("").join([_axes(frame), _clipped(Markup("").join(shapes))])
    return Markup(
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}">'
        '<g class="drawn">{}</g></svg>'
    ).format(label, WIDTH, HEIGHT, body)


def again(identifier: str, label: str) -> Markup:
    """Return a copy of a plot that is shown elsewhere on the page."""
    return Markup(
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}"><use href="#{}"/></svg>'
    ).format(label, WIDTH, HEIGHT, identifier)


def traces(values: np.ndarray, label: str) -> Markup:
    """Return a trace plot of values (K chains, S draws), with one line per chain."""
    finite = values[np.isfinite(values)]
    if not len(finite) or values.shape[1] < 2:
        return Markup("")
    frame = Frame((1, values.shape[1]), _widened(finite.min(), finite.max()), "draw", "log joint")
    every = max(1, values.shape[1] // 250)
    draws = np.arange(1, values.shape[1] + 1)[::every]
    lines = [
        _path(draws, chain[::every], frame, f"chain chain-{k % 4}")
        for k, chain in enumerate(values)
        if np.isfinite(chain).all()
    ]
    body = Markup("").join([_axes(frame), _clipped(Markup("").join(lines))])
    return Markup(
        '<svg class="chart traces" role="img" aria-label="{}" viewBox="0 0 {} {}">'
        '<g class="drawn">{}</g></svg>'
    ).format(label, WIDTH, HEIGHT, body)


def number(value: float) -> str:
    """Return a number with about three digits, if possible without an exponent."""
    if not np.isfinite(value):
        return DASH
    if value and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:.{max(digits, 3 if 0 < abs(value) < 0.1 else digits)}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _widened(low: float, high: float) -> tuple[float, float]:
    room = 0.02 * (high - low) or 0.5
    return float(low - room), float(high + room)


def _axes(frame: Frame) -> Markup:
    """Return both axes with a few round ticks, and their labels."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    mark = Markup('<path class="frame" d="M{:.1f} {:.1f}{}"/>')
    text = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    parts = [mark.format(LEFT, TOP, f"V{bottom}H{right}")]
    for value in _ticks(frame.x, 5):
        x = float(frame.px(value))
        side = "end" if x > right - 6 else "middle"  # else half of it would be outside the plot
        parts += [mark.format(x, bottom, "v3"), text.format(x, bottom + 13, side, plain(value))]
    for value in _ticks(frame.y, 4):
        y = float(frame.py(value))
        parts += [
            mark.format(LEFT - 3, y, "h3"),
            text.format(LEFT - 5, y + 3.3, "end", plain(value)),
        ]
    middle, height = (LEFT + right) / 2, (TOP + bottom) / 2
    parts += [
        text.format(middle, bottom + 27, "middle", _short(frame.across)),
        Markup(
            '<text transform="translate(8 {}) rotate(-90)" text-anchor="middle">{}</text>'
        ).format(height, _short(frame.up, 22)),
    ]
    return Markup("").join(parts)


def _ticks(ends: tuple[float, float], most: int) -> list[float]:
    """Return about `most` round numbers between the ends of an axis."""
    low, high = ends
    places = MaxNLocator(nbins=most, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(p) for p in places if low <= p <= high]


def plain(value: float) -> str:
    """Return a round number without padding or rounding, up to six digits."""
    return f"{value:.6g}".replace("-", "\N{MINUS SIGN}")


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _clipped(content: Markup) -> Markup:
    """Return content clipped to the area of the axes, by an inner SVG element."""
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    return Markup(
        '<svg x="{0}" y="{1}" width="{2}" height="{3}" viewBox="{0} {1} {2} {3}">{4}</svg>'
    ).format(LEFT, TOP, across, down, content)


def _pairs(x: np.ndarray, y: np.ndarray, frame: Frame) -> list[str]:
    across, up = frame.px(x), np.clip(frame.py(y), -HEIGHT, 2 * HEIGHT)
    return [f"{a:.1f} {b:.1f}" for a, b in zip(across, up, strict=True) if np.isfinite(b)]


def _path(x: np.ndarray, y: np.ndarray, frame: Frame, kind: str) -> Markup:
    pairs = _pairs(x, y, frame)
    if not pairs:
        return Markup("")
    return Markup('<path class="{}" d="M{}"/>').format(kind, "L".join(pairs))


def _line(band: Band, frame: Frame) -> Markup:
    return _path(band.at, band.median, frame, "median")


def _band(band: Band, frame: Frame) -> Markup:
    """Return two bands: the intervals of observations, and of the function."""
    there = np.concatenate([band.at, band.at[::-1]])
    shapes = []
    for kind, (low, high) in (("observed", band.observed), ("function", band.function)):
        shapes.append(_path(there, np.concatenate([high, low[::-1]]), frame, f"band {kind}"))
    return Markup("").join(shapes)


def _bars(band: Band, frame: Frame, kind: str) -> Markup:
    """Return a bar for the interval of each observation, with the median as a point."""
    x = frame.px(band.at)
    low, high = np.clip(frame.py(band.observed), -HEIGHT, 2 * HEIGHT)
    ok = np.isfinite(low) & np.isfinite(high)
    bars = "".join(
        f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(x[ok], low[ok], high[ok], strict=True)
    )
    middle = frame.py(band.median)
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x[ok], middle[ok], strict=True))
    if not bars:
        return Markup("")
    return Markup('<path class="bar {0}" d="{1}"/><path class="dot {0}" d="{2}"/>').format(
        kind, bars, dots
    )


def _crosses(points: np.ndarray, frame: Frame) -> Markup:
    x, y = frame.px(points[:, 0]), frame.py(points[:, 1])
    marks = (f"M{a - 2.5:.1f} {b - 2.5:.1f}l5 5m0-5l-5 5" for a, b in zip(x, y, strict=True))
    return Markup('<path class="cross" d="{}"/>').format("".join(marks))


def _rings(points: np.ndarray, frame: Frame) -> Markup:
    if not len(points):
        return Markup("")
    x, y = frame.px(points[:, 0]), frame.py(points[:, 1])
    marks = (
        f"M{a - 2.5:.1f} {b:.1f}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0"
        for a, b in zip(x, y, strict=True)
    )
    return Markup('<path class="ring" d="{}"/>').format("".join(marks))
