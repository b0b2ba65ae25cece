"""Report sections on users: kernel, description and predictions at each time step."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy.special import ndtri

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.predict import Conditioned
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.reports import charts
from kem_pymc.reports.intervals import HIGH, Band, Predicted, grid_over
from kem_pymc.reports.pilots import Pilot
from kem_pymc.reports.theme import Look
from kem_pymc.reports.values import own_units

#: Maximum number of characters of the page for plots, beyond which no more users are drawn.
ROOM = 6_000_000

#: Label of the horizontal axis if there are several features.
ARRIVAL = "point, in order of arrival"


@dataclass(frozen=True)
class Moment:
    """One user at one time step, as the page shows it.

    Attributes
    ----------
    identifier : str
        Identifier of its plot.
    step : int
        Time step, counted from 0.
    composition : Composition
    label, description, colour : str
        Label and description of the composition, and the CSS class of its colour.
    share : float
        Posterior probability of the composition; 1 for a selected composition.
    n_points : int or None
    others : tuple of (label, probability)
        The next most probable compositions, at most two.
    likely : tuple of (Composition, float)
        All probable compositions of a pilot user, with their probabilities.
    predicted : Predicted or None
    picture : Markup or None
        Plot of the predictions; None if there are none or the page has no room for it.
    alt : str
        Text alternative of the plot.
    remark : str
    """

    identifier: str
    step: int
    composition: Composition
    label: str
    description: str
    colour: str
    share: float
    n_points: int | None
    others: tuple[tuple[str, float], ...] = ()
    likely: tuple[tuple[Composition, float], ...] = ()
    predicted: Predicted | None = None
    picture: Markup | None = None
    alt: str = ""
    remark: str = ""

    @property
    def size(self) -> int:
        """Side of the composition's tile in tenths, at least 3; the area is the probability."""
        return max(3, round(10 * float(np.sqrt(self.share))))


@dataclass(frozen=True)
class UserReport:
    """A user and the user's time steps, as the page shows them."""

    identifier: str
    name: str
    moments: tuple[Moment, ...]

    @property
    def undrawn(self) -> bool:
        """Return whether plots were left out because the page would be too large."""
        return any(m.predicted and not m.picture for m in self.moments)

    @property
    def changes(self) -> list[Moment]:
        """Time steps whose composition differs from that of the previous time step."""
        before = [None, *(m.composition for m in self.moments)]
        return [m for m, c in zip(self.moments, before, strict=False) if m.composition != c]


def pilot_user_reports(
    pilots: Sequence[Pilot], look: Look, across: str, target: str
) -> list[UserReport]:
    """Return pilot users with plots of their posterior predictions."""
    user_reports = []
    for number, pilot in enumerate(pilots):
        moments = []
        for t, step in enumerate(pilot.steps):
            (composition, share), *others = step.likely
            moments.append(
                Moment(
                    identifier=f"pilot-{number}-{t}",
                    step=t,
                    composition=composition,
                    label=look.label(composition),
                    description=look.words(composition),
                    colour=look.colour(composition),
                    share=share,
                    n_points=step.n_points,
                    others=tuple((look.label(c), p) for c, p in others[:2]),
                    likely=step.likely,
                    predicted=step.predicted,
                )
            )
        user_reports.append(UserReport(f"pilot-{number}", str(pilot.user), tuple(moments)))
    return _with_pictures(user_reports, across, target)


def new_user_reports(
    selections: pd.DataFrame, predictions: pd.DataFrame | None, evolutions: Evolutions, look: Look
) -> list[UserReport]:
    """Return new users with the kernels selected for them and plots of the predictions.

    Raises
    ------
    InputError
        If a kernel isn't one of the study's.
    """
    tables = {} if predictions is None else dict(list(predictions.groupby(["user", "time_step"])))
    several = len(evolutions.features) > 1
    place = "point" if several else evolutions.features[0]
    everywhere = {} if predictions is None else dict(list(predictions.groupby("user")[place]))
    user_reports = []
    for number, (user, rows) in enumerate(selections.groupby("user", sort=False)):
        moments = []
        for row in rows.sort_values("time_step").to_dict("records"):
            composition = _composition(row["composition"], evolutions)
            table = tables.get((user, row["time_step"]))
            message = row.get("message")
            values = _values(row, composition, evolutions)
            predicted = None
            if table is not None:
                kernel = _Kernels.of(row, composition, evolutions)
                predicted = _predicted(table, place, kernel, everywhere[user])
            moments.append(
                Moment(
                    identifier=f"new-{number}-{row['time_step']}",
                    step=int(row["time_step"]),
                    composition=composition,
                    label=look.label(composition),
                    description=describe(composition, look.features, values),
                    colour=look.colour(composition),
                    share=1.0,
                    n_points=int(row["n_points"]),
                    predicted=predicted,
                    remark=message if isinstance(message, str) else "",
                )
            )
        user_reports.append(UserReport(f"new-{number}", str(user), tuple(moments)))
    return _with_pictures(user_reports, ARRIVAL if several else place, evolutions.target)


def selected(selections: pd.DataFrame, evolutions: Evolutions) -> list[Composition]:
    """Return the compositions of a table of selections, row by row.

    Raises
    ------
    InputError
        If a kernel isn't one of the study's.
    """
    return [_composition(label, evolutions) for label in selections["composition"]]


def coverage(user_reports: Sequence[UserReport]) -> list[tuple[int, int, int]]:
    """Return how many scored points were within their 95 % intervals, by time step.

    Time steps are counted from 1; those without scored points are left out.

    Returns
    -------
    list of (time step, number within, total)
    """
    counts: dict[int, list[int]] = {}
    for moment in (m for user_report in user_reports for m in user_report.moments):
        if moment.predicted is not None and moment.predicted.judged:
            found = counts.setdefault(moment.step + 1, [0, 0])
            found[0] += moment.predicted.covered
            found[1] += moment.predicted.judged
    return [(step, inside, total) for step, (inside, total) in sorted(counts.items())]


def _with_pictures(user_reports: list[UserReport], across: str, target: str) -> list[UserReport]:
    """Return users with plots, drawn in order until the plots exceed the maximum size."""
    drawn, taken = [], 0
    for user_report in user_reports:
        steps = [m.predicted for m in user_report.moments if m.predicted is not None]
        if not steps or taken > ROOM:
            drawn.append(user_report)
            continue
        frame = charts.frame_of(steps, across, target)
        moments = tuple(_with_picture(m, frame, user_report.name) for m in user_report.moments)
        taken += sum(len(m.picture or "") for m in moments)
        drawn.append(replace(user_report, moments=moments))
    return drawn


def _with_picture(moment: Moment, frame: charts.Frame, name: str) -> Moment:
    if moment.predicted is None:
        return moment
    alt = f"User {name}, time step {moment.step + 1}: {_text_alternative(moment.predicted)}"
    picture = charts.prediction(moment.predicted, frame, moment.identifier, alt)
    return replace(moment, picture=picture, alt=alt)


def _text_alternative(predicted: Predicted) -> str:
    """Return the text alternative of a plot of predictions."""
    median, number = predicted.curve.median, charts.number
    text = f"{len(predicted.seen)} points. "
    if np.isfinite(median).any():
        text += f"The prediction lies between {number(np.nanmin(median))} and "
        text += f"{number(np.nanmax(median))}. "
    total = predicted.judged
    if total:
        text += f"{predicted.covered} of the next {total} points lie within their 95 % intervals. "
    if predicted.to_come:
        text += f"Points to come: {predicted.to_come}."
    return text.rstrip()


def _composition(label: Any, evolutions: Evolutions) -> Composition:
    try:
        composition = Composition.parse(str(label), evolutions.pool.dimension)
        evolutions.pool.inclusion(composition)
    except InputError as error:
        raise InputError(
            f"The table of selections contains {label!r}, which isn't a kernel of this study. "
            "Run kem select again with these evolutions, or delete the table."
        ) from error
    return composition


def _values(
    row: dict[str, Any], composition: Composition, evolutions: Evolutions
) -> dict[str, float] | None:
    """Return a selection's hyperparameters in the study's units, if the table has them."""
    text = row.get("hyperparameters")
    if not isinstance(text, str):
        return None
    scaled = json.loads(text)
    return {
        h.name: float(own_units(evolutions, candidate, h, np.array(scaled[h.name]))[0])
        for candidate in composition
        for h in candidate.hyperparameters
        if h.name in scaled
    }


def _predicted(
    table: pd.DataFrame, place: str, kernel: "_Kernels | None", everywhere: pd.Series
) -> Predicted:
    """Return the predictions of one selection in the table, with a curve if it can be computed.

    Parameters
    ----------
    table : DataFrame
        Rows of a table that ``kem select`` wrote.
    place : str
        Name of the column that is the horizontal axis.
    kernel : _Kernels, optional
        Kernels of the selection, if there is only one feature and the table has their values.
    everywhere : Series
        The user's positions on the horizontal axis at all time steps.
    """
    table = table.sort_values("point")
    at, seen = table[place].to_numpy(float), table["seen"].to_numpy(dtype=bool)
    if place == "point":
        at = at + 1
    observed = table["observed"].to_numpy(float)
    points, n = np.column_stack([at, observed]), int(seen.sum())
    band = Band.of_observations(at, *_quantiles(table))
    curve = None
    if kernel is not None:
        curve = kernel.curve(at[:n], observed[:n], grid_over(everywhere.to_numpy(float)))
    return Predicted(
        points[:n],
        points[n:],
        band.part(slice(n)) if curve is None else curve,
        band.part(slice(n, None)),
        continuous=curve is not None,
    )


def _quantiles(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return medians (m,) and ends of 95 % intervals (2, m) of a table of predictions.

    Tables of earlier versions have only means and standard deviations.
    """
    if {"median", "low_95", "high_95"} <= set(table):
        return table["median"].to_numpy(float), table[["low_95", "high_95"]].to_numpy(float).T
    mean, sd = table["mean"].to_numpy(float), table["sd"].to_numpy(float)
    return mean, mean + np.array([[-1.0], [1.0]]) * ndtri(HIGH) * sd


class _Part(NamedTuple):
    """A kernel with scaled values by name, its weight, and whether to add the shared part."""

    composition: Composition
    hyperparameters: dict[str, float]
    noise: float
    weight: float = 1.0
    shared: bool = True


@dataclass(frozen=True, eq=False)
class _Kernels:
    """Kernels that a selection in the table averages over, in a study with one feature.

    Attributes
    ----------
    parts : list of _Part
    evolutions : Evolutions
    """

    parts: list[_Part]
    evolutions: Evolutions

    @classmethod
    def of(
        cls, row: dict[str, Any], composition: Composition, evolutions: Evolutions
    ) -> "_Kernels | None":
        """Return the kernels of a row; None if it lacks values or there are several features."""
        text, noise = row.get("hyperparameters"), row.get("noise")
        if len(evolutions.features) > 1 or not isinstance(text, str) or noise is None:
            return None
        parts = [_Part(composition, json.loads(text), float(noise))]
        if isinstance(row.get("averaged"), str):  # tables of earlier versions have one kernel
            parts = [
                _Part(**(p | {"composition": Composition.parse(p["composition"], 1)}))
                for p in json.loads(row["averaged"])
            ]
        return cls(parts, evolutions)

    def curve(self, x: np.ndarray, y: np.ndarray, grid: np.ndarray) -> Band | None:
        """Return the averaged prediction on a grid (m, 1) given points (n,), in users' units."""
        scaling, function = self.evolutions.scaling, self.evolutions.shared
        points = scaling.inputs(x[:, None])
        shared = None if function is None else function.at(points)
        predicted = []
        try:
            for part in self.parts:
                where = Coordinates(self.evolutions.pool, part.composition)
                beside = shared if part.shared else None
                objective = Objective(where, points, scaling.targets(y), shared=beside)
                values = where.from_named(part.hyperparameters, part.noise)
                conditioned = Conditioned.of(objective, values)
                predicted.append(conditioned.predict(scaling.inputs(grid)))
        except (InputError, KeyError):  # the predictions in the table are used instead
            return None
        weights = np.array([part.weight for part in self.parts])
        return Band.of(
            grid[:, 0],
            np.array([p.mean for p in predicted]),
            np.array([p.sd for p in predicted]) ** 2,
            np.array([p.noise for p in predicted]),
            scaling,
            weights / weights.sum(),
        )
