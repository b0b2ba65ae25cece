"""Users' trajectories: which kernel at each time step, what it says and predicts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy.special import ndtri

from kem_pymc.errors import InputError
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.gp.objective import Coordinates, Objective
from kem_pymc.gp.predict import Conditioned
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.reports import charts
from kem_pymc.reports.bands import HIGH, Band, Predicted, grid_over
from kem_pymc.reports.look import Look
from kem_pymc.reports.pilots import Pilot
from kem_pymc.reports.values import own_units

#: Pictures take so many characters of a page at most.
ROOM = 6_000_000

#: The horizontal axis where there are several features.
ARRIVAL = "point, in order of arrival"


@dataclass(frozen=True)
class Moment:
    """One user at one time step, as the page shows it.

    Attributes
    ----------
    identifier : str
        Of its picture.
    step : int
    composition : Composition
    label, said, colour : str
        The composition, what it says, and the CSS class of its colour.
    share : float
        Posterior probability of the composition; 1 where it was selected.
    n_points : int or None
    others : tuple of (label, probability)
        The next most probable compositions.
    likely : tuple of (Composition, float)
        All probable ones.
    predicted : Predicted or None
    picture : Markup or None
        None where nothing can be drawn.
    alt : str
        The picture in words.
    remark : str
    """

    identifier: str
    step: int
    composition: Composition
    label: str
    said: str
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
        """Side of the composition's tile in tenths; its area is the probability."""
        return max(3, round(10 * float(np.sqrt(self.share))))


@dataclass(frozen=True)
class Person:
    """A user, as the page shows one."""

    identifier: str
    name: str
    moments: tuple[Moment, ...]

    @property
    def undrawn(self) -> bool:
        """Whether pictures were left out for want of room."""
        return any(m.predicted and not m.picture for m in self.moments)

    @property
    def changes(self) -> list[Moment]:
        """The moments at which the composition isn't that of the time step before."""
        before = [None, *(m.composition for m in self.moments)]
        return [m for m, c in zip(self.moments, before, strict=False) if m.composition != c]


def pilot_people(pilots: Sequence[Pilot], look: Look, across: str, target: str) -> list[Person]:
    """Return pilot users with pictures of what the posterior predicts for them."""
    people = []
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
                    said=look.words(composition),
                    colour=look.colour(composition),
                    share=share,
                    n_points=step.n_points,
                    others=tuple((look.label(c), p) for c, p in others[:2]),
                    likely=step.likely,
                    predicted=step.predicted,
                )
            )
        people.append(Person(f"pilot-{number}", str(pilot.user), tuple(moments)))
    return _with_pictures(people, across, target)


def new_people(
    selections: pd.DataFrame, predictions: pd.DataFrame | None, evolutions: Evolutions, look: Look
) -> list[Person]:
    """Return new users with the kernels selected for them.

    Raises
    ------
    InputError
        If a kernel isn't one of the study's.
    """
    tables = {} if predictions is None else dict(list(predictions.groupby(["user", "time_step"])))
    several = len(evolutions.features) > 1
    place = "point" if several else evolutions.features[0]
    everywhere = {} if predictions is None else dict(list(predictions.groupby("user")[place]))
    people = []
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
                    said=describe(composition, look.features, values),
                    colour=look.colour(composition),
                    share=1.0,
                    n_points=int(row["n_points"]),
                    predicted=predicted,
                    remark=message if isinstance(message, str) else "",
                )
            )
        people.append(Person(f"new-{number}", str(user), tuple(moments)))
    return _with_pictures(people, ARRIVAL if several else place, evolutions.target)


def selected(selections: pd.DataFrame, evolutions: Evolutions) -> list[Composition]:
    """Return the compositions of a table of selections, row by row.

    Raises
    ------
    InputError
        If a kernel isn't one of the study's.
    """
    return [_composition(label, evolutions) for label in selections["composition"]]


def coverage(people: Sequence[Person]) -> list[tuple[int, int, int]]:
    """Return, by time step, how many next points lay within their 95 % intervals, of how many.

    Time steps count from 1; those after which nothing came are left out.
    """
    counts: dict[int, list[int]] = {}
    for moment in (m for person in people for m in person.moments):
        if moment.predicted is not None and moment.predicted.judged:
            found = counts.setdefault(moment.step + 1, [0, 0])
            found[0] += moment.predicted.covered
            found[1] += moment.predicted.judged
    return [(step, inside, total) for step, (inside, total) in sorted(counts.items())]


def _with_pictures(people: list[Person], across: str, target: str) -> list[Person]:
    """Return people with pictures, the first ones until these take too much room."""
    drawn, taken = [], 0
    for person in people:
        steps = [m.predicted for m in person.moments if m.predicted is not None]
        if not steps or taken > ROOM:
            drawn.append(person)
            continue
        frame = charts.frame_of(steps, across, target)
        moments = tuple(_with_picture(m, frame, person.name) for m in person.moments)
        taken += sum(len(m.picture or "") for m in moments)
        drawn.append(replace(person, moments=moments))
    return drawn


def _with_picture(moment: Moment, frame: charts.Frame, name: str) -> Moment:
    if moment.predicted is None:
        return moment
    alt = f"User {name}, time step {moment.step + 1}: {_told(moment.predicted)}"
    picture = charts.prediction(moment.predicted, frame, moment.identifier, alt)
    return replace(moment, picture=picture, alt=alt)


def _told(predicted: Predicted) -> str:
    """Return a picture in words."""
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
            f"The table of selections has the kernel {label!r}, which isn't of this study. "
            "Select again with these evolutions, or delete the table."
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
    """Return the predictions of one selection, as `kem select` wrote them; a curve, if it can be.

    Parameters
    ----------
    table : DataFrame
    place : str
        The column that is the horizontal axis.
    kernel : _Kernels, optional
        The selection, where there is but one feature.
    everywhere : Series
        The user's places at all time steps.
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

    Tables of earlier versions have means and sds alone.
    """
    if {"median", "low_95", "high_95"} <= set(table):
        return table["median"].to_numpy(float), table[["low_95", "high_95"]].to_numpy(float).T
    mean, sd = table["mean"].to_numpy(float), table["sd"].to_numpy(float)
    return mean, mean + np.array([[-1.0], [1.0]]) * ndtri(HIGH) * sd


class _Part(NamedTuple):
    """A kernel with scaled values by name, its weight, and whether what is shared is added."""

    composition: Composition
    hyperparameters: dict[str, float]
    noise: float
    weight: float = 1.0
    shared: bool = True


@dataclass(frozen=True, eq=False)
class _Kernels:
    """What a selection in the table averages over, of a study with one feature.

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
        """Read a row; None if it lacks values, or there are several features."""
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
        """Return what they predict on a grid (m, 1) from the points (n,), in their units."""
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
        except (InputError, KeyError):  # the table's own predictions remain
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
