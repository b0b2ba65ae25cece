"""How well participants are predicted, against what pilot users promised.

Whenever a selection uses the points of a new time step, it is recorded with it how these compare
with what was predicted from the time step before. Pilot users were predicted in the same way, each
from what was learned without them (:func:`kem_pymc.calibrate`): this is the promise.
"""

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t
from sqlalchemy import Connection, func, select

from kem_pymc.gp.calibration import Outcome, share_interval
from kem_pymc.selection.scores import LEVELS, outcome_of
from kem_pymc.selection.selection import Selection
from kem_pymc.trial import alarms, intake, schema
from kem_pymc.trial.alarms import DISCOVERY, FALSE_ALARMS, FALSE_DISCOVERIES, Persons
from kem_pymc.trial.store import Observations, Store, now

#: Columns of outcomes that tables show, per point, and what they are if predictions are right.
NOMINAL = {f"within{level}": level / 100 for level in LEVELS}
NOMINAL |= {"log_density": np.nan, "probit": 0.0, "distance": np.sqrt(2 / np.pi)}

#: In words: what is compared, if it is smaller or larger than that of pilot users.
WORDS = {
    "log_density": (
        "answers are harder to predict than pilot users', by {:.2f} nats each",
        "answers are easier to predict than pilot users', by {:.2f} nats each",
    ),
    "probit": (
        "answers are lower than predicted, by {:.2f} predicted sds",
        "answers are higher than predicted, by {:.2f} predicted sds",
    ),
    "distance": (
        "answers are nearer to predictions than pilot users', by {:.2f} predicted sds",
        "answers are further from predictions than pilot users', by {:.2f} predicted sds",
    ),
}

#: In words: the weeks that are compared.
PERIODS = {
    "1": "in this week",
    **{str(n): f"in the {n} weeks up to it" for n in alarms.PERIODS[1:]},
    "drift": f"in the {alarms.RECENT} weeks up to it, compared with those before",
}


@dataclass(frozen=True)
class Monitoring:
    """How well participants are predicted, and what was promised.

    Attributes
    ----------
    participants, pilots : int
        Numbers of participants of whom there are outcomes, and of pilot users.
    by_time_step, by_week : DataFrame
        One row for each time step, or calendar week (its Monday) in which rows were first used, and
        ``quantity``: the mean over participants of their means per point (``value``), its 95 %
        interval over participants (``low``, ``high``), what pilot users promise at the same time
        steps (``promised``; without them what right predictions have), and the number of
        ``participants``. Quantities are coverage (``within50``, ``within80``, ``within95``),
        ``log_density`` in the target's unit, and the mean (``probit``) and mean absolute value
        (``distance``) of the probits of probability integral transforms.
    looks : DataFrame
        The tests of all weeks that are over, as :func:`kem_pymc.trial.alarms.looks` has them.
    alarms : tuple of str
        What is wrong, in words. The probability of any in a trial in which nothing is wrong is at
        most 5 %, however often it is monitored.
    unusual : DataFrame
        Participants whose data fit their predictions unlike pilot users' do: ``participant``,
        ``reason`` and ``q``. At most a tenth of them, on average, are there by chance.
    waiting : DataFrame
        Rows of uploads that wait for a person: ``status``, ``reason`` and their number, ``rows``.
    elsewhere : dict of int to int
        Numbers of those who take part with other artefacts, which have promises of their own.
    """

    participants: int
    pilots: int
    by_time_step: pd.DataFrame
    by_week: pd.DataFrame
    looks: pd.DataFrame
    alarms: tuple[str, ...]
    unusual: pd.DataFrame
    waiting: pd.DataFrame
    elsewhere: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """Return what is known, in sentences."""
        lines = []
        if not self.participants:
            lines.append("No participant has a second time step yet, so nothing can be compared.")
        last = self.by_week[self.by_week["week"] == self.by_week["week"].max()]
        for when, table in (("In all time steps", self.by_time_step), ("In the last week", last)):
            found = table[table["quantity"] == "within95"]
            if len(found):
                share, promised = (
                    np.average(found[name], weights=found["participants"])
                    for name in ("value", "promised")
                )
                lines.append(
                    f"{when}, {100 * share:.0f} % of answers were within their 95 % intervals; "
                    f"{100 * promised:.0f} % were promised."
                )
        if self.participants:
            basis = f"{self.participants} participants are compared with {self.pilots} pilot users."
            if self.pilots < alarms.FEWEST:
                basis = (
                    "The evolutions don't say how pilot users were predicted, so nothing raises an "
                    "alarm. Learn them again with this version of kem_pymc."
                )
            lines.append(basis)
        if self.participants and self.pilots >= alarms.FEWEST:
            chance = (
                f"(false with a probability of at most {100 * FALSE_ALARMS:.0f} % in the trial)"
            )
            lines.append(f"There {_count(len(self.alarms), 'alarm')} {chance}.")
            lines += self.alarms
            chance = f"(at most {100 * FALSE_DISCOVERIES:.0f} % of them by chance)"
            lines.append(f"There {_count(len(self.unusual), 'unusual participant')} {chance}.")
            lines += [f"{one.participant}: {one.reason}." for one in self.unusual.itertuples()]
        for artefact, number in self.elsewhere.items():
            have = "participant has" if number == 1 else "participants have"
            lines.append(f"{number} {have} artefact {artefact}, which is monitored apart.")
        lines.append(
            f"There {_count(int(self.waiting['rows'].sum()), 'row')} that wait for a decision."
        )
        lines += [f"{one.rows} {one.status}: {one.reason}" for one in self.waiting.itertuples()]
        return lines


def _count(number: int, what: str) -> str:
    return f"is 1 {what}" if number == 1 else f"are {number or 'no'} {what}s"


def outcome(
    participant: int,
    time_step: int,
    before: Selection,
    used: Sequence[int],
    data: Observations,
) -> str | None:
    """Compare the points of a time step with what was predicted from an earlier one, as served.

    Parameters
    ----------
    participant, time_step : int
    before : Selection
        The last selection at an earlier time step.
    used : sequence of int
        Numbers of the observations that it used.
    data : Observations
        All that there are.

    Returns
    -------
    str or None
        The outcome as JSON; None if all points of the time step are earlier than some that were
        used.
    """
    known, points = set(used), data.points
    after = 1 + max((k for k, one in enumerate(data.observations) if one in known), default=-1)
    coming = slice(max(after, int(points.ends[time_step - 1])), int(points.ends[time_step]))
    y = points.y[coming]
    if not len(y):
        return None
    given: dict[str, Any] = {name: values[coming] for name, values in points.given.items()}
    sure = before.calibration is not None
    predicted = before.predict(points.x[coming], include_noise=True, calibrated=sure, **given)
    return json.dumps(outcome_of(participant, time_step, predicted, y))


def same_answers(db: Connection, artefact: int) -> set[str]:
    """Return the labels of those whose observations with an artefact all have one target."""
    o, p = schema.observations.c, schema.participants.c
    query = select(p.label, o.content).join(schema.participants, o.participant == p.id)
    query = query.where(o.state == "live", p.artefact == artefact)
    targets: dict[str, set[float]] = {}
    for label, content in db.execute(query):
        targets.setdefault(label, set()).add(json.loads(content)[1])
    return {label for label, own in targets.items() if len(own) == 1}


def outcomes(db: Connection, artefact: int) -> pd.DataFrame:
    """Return the outcomes of those who take part with an artefact, with ``label`` and ``week``."""
    s, p = schema.selections.c, schema.participants.c
    query = (
        select(p.label, s.created, s.outcome)
        .join(schema.participants, s.participant == p.id)
        .where(s.outcome.is_not(None), s.artefact == artefact, p.removed.is_(None))
        .order_by(s.id)
    )
    found = db.execute(query).all()
    rows = pd.DataFrame([json.loads(one.outcome) for one in found], columns=[*Outcome._fields])
    created = pd.to_datetime([one.created for one in found], format="ISO8601", utc=True)
    days = pd.Series(created).dt.tz_localize(None).dt.normalize()
    week = days - pd.to_timedelta(days.dt.day_of_week, unit="D")
    return rows.assign(label=[one.label for one in found], week=week)


def monitor(store: Store, artefact: int | None) -> Monitoring:
    """Compare participants with the promise; see :meth:`Trial.monitor`."""
    artefact = store.artefact if artefact is None else artefact
    promise, p = store.selector(artefact).evolutions.held_out, schema.participants.c
    others = select(p.artefact, func.count()).where(p.removed.is_(None), p.artefact != artefact)
    with schema.reading(store.engine) as db:
        found, same = outcomes(db, artefact), same_answers(db, artefact)
        elsewhere = db.execute(others.group_by(p.artefact).order_by(p.artefact)).all()
    waiting = store.table(intake.WAITING)
    compared = monitored(found, promise, waiting, datetime.fromisoformat(now()), same)
    return replace(compared, elsewhere={number: count for number, count in elsewhere})


def monitored(
    rows: pd.DataFrame,
    held_out: Sequence[Outcome],
    waiting: pd.DataFrame,
    now: datetime,
    same: Container[str] = (),
) -> Monitoring:
    """Compare outcomes of participants with the promise.

    Parameters
    ----------
    rows : DataFrame
        As :func:`outcomes` returns them.
    held_out : sequence of Outcome
        Outcomes of pilot users.
    waiting : DataFrame
        Entries that wait for a person, with ``status`` and ``reason``.
    now : datetime
        The time, in UTC. A week is tested once it is over.
    same : container of str
        Labels of those who always gave the same answer.
    """
    pilots = pd.DataFrame(list(held_out), columns=[*Outcome._fields])
    first = rows.groupby(["user", "time_step"])["week"].transform("min")
    latest = rows.assign(week=first).drop_duplicates(["user", "time_step"], keep="last")
    over = rows["week"] + pd.Timedelta(weeks=1) <= now.astimezone(UTC).replace(tzinfo=None)
    looks = alarms.looks(rows[over], pilots)
    odd = alarms.unusual(latest, pilots)
    odd = odd[odd["q"] <= DISCOVERY].sort_values("q", kind="stable")
    labels = dict(zip(rows["user"], rows["label"], strict=True))
    who = odd["user"].map(labels)
    reasons = [
        "the same answer every time" if label in same else _said(one.quantity, one.difference)
        for one, label in zip(odd.itertuples(), who, strict=True)
    ]
    return Monitoring(
        latest["user"].nunique(),
        pilots["user"].nunique(),
        _summary(latest, pilots, "time_step"),
        _summary(latest, pilots, "week"),
        looks,
        _alarms(looks),
        pd.DataFrame({"participant": [*who], "reason": reasons, "q": [*odd["q"]]}),
        waiting.groupby(["status", "reason"], as_index=False).agg(rows=("entry", "size")),
    )


def _said(quantity: str, difference: float) -> str:
    return WORDS[quantity][int(difference > 0)].format(abs(difference))


def _alarms(looks: pd.DataFrame) -> tuple[str, ...]:
    """Return a sentence for each quantity and direction, about its last week."""
    found = looks[looks["p"] <= looks["spent"]]
    said = []
    for (quantity, _), rows in found.groupby(["quantity", found["difference"] > 0]):
        of_last = rows[rows["week"] == rows["week"].max()]
        one = of_last.loc[of_last["p"].idxmin()]
        begun = rows["week"].min()
        since = "" if begun == one["week"] else f"; first in the week of {begun:%Y-%m-%d}"
        said.append(
            f"Week of {one['week']:%Y-%m-%d}: {_said(str(quantity), one['difference'])}, "
            f"{PERIODS[one['period']]} (p = {one['p']:.1g}{since})."
        )
    return tuple(said)


def _summary(rows: pd.DataFrame, pilots: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the table of :class:`Monitoring` by a column of the outcomes."""
    names = tuple(NOMINAL)
    last = max([*pilots["time_step"], 1])
    theirs = Persons.of(pilots, pd.Index(pilots["user"].unique()), last, names)
    there = (theirs.points > 0)[..., None]
    typical = theirs.means.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    found = []
    for key, group in rows.groupby(by):
        own = Persons.of(group, pd.Index(group["user"].unique()), last, names)
        each = (own.means * own.weights[..., None]).sum(axis=1)
        promised = np.array([*NOMINAL.values()])
        if len(theirs.points):
            promised = own.weights.mean(axis=0) @ typical
        for name, values, promise in zip(names, each.T, promised, strict=True):
            low, high = (share_interval if name.startswith("within") else _mean)(values)
            found.append((key, name, values.mean(), low, high, promise, len(values)))
    columns = [by, "quantity", "value", "low", "high", "promised", "participants"]
    return pd.DataFrame(found, columns=columns)


def _mean(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of the mean of persons' values; NaN of one person's."""
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    half = t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return values.mean() - half, values.mean() + half
