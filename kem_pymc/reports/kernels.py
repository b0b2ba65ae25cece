"""Report section on the graph's boxes and arrows: compositions and their evolutions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from kem_pymc._system.display import some
from kem_pymc.evolutions.children import Child
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import sentence
from kem_pymc.plots.graph import Drawing
from kem_pymc.plots.style import datasets_of
from kem_pymc.reports import charts
from kem_pymc.reports.theme import Look
from kem_pymc.reports.users import UserReport
from kem_pymc.reports.values import Interval, intervals, medians

if TYPE_CHECKING:
    from kem_pymc.diagnostics.representative import Representative, RepresentativeCluster

#: Maximum number of described compositions, and of plots for each evolution.
DESCRIBED, PICTURES = 40, 6

#: Maximum number of users listed for a composition.
LISTED = 12

#: Maximum number of users named for a composition that no representative cluster has.
HOLDERS = 4

#: Maximum number of listed children of a composition, and their least probability.
NEXT, LEAST = 8, 0.02

type Edge = tuple[Composition, Composition]


@dataclass(frozen=True)
class Step:
    """An evolution from a parent to a child composition, as the page shows it.

    Attributes
    ----------
    identifier : str
    parent, child : Composition
    label : str
        Label of the parent.
    found : Child
    table : list of Interval
        Posteriors of the hyperparameters.
    members : list of str
        Users with their time steps, in the representative clustering.
    holders : list of str
        Users with the highest probability of the composition, if no cluster of the representative
        clustering has it.
    users : list of str
        Users of `members` or, if there are none, of `holders`.
    pictures : list of (Markup, caption)
        Plots of some of these users.
    certainty : float or None
        Mean posterior probability of the composition over members; None if there are no members.
    """

    identifier: str
    parent: Composition
    child: Composition
    label: str
    found: Child
    table: list[Interval]
    members: list[str]
    holders: list[str]
    users: list[str]
    pictures: list[tuple[Markup, str]]
    certainty: float | None


@dataclass(frozen=True)
class Kernel:
    """A composition with its hyperparameters and evolutions, as the page shows it."""

    identifier: str
    composition: Composition
    label: str
    colour: str
    sentence: str
    datasets: float
    stays: float
    new: float
    table: list[Interval]
    steps: list[Step] = field(default_factory=list)
    children: list[tuple[str, str, Child]] = field(default_factory=list)


class Kernels:
    """All compositions that a report describes, by identifier."""

    def __init__(
        self,
        evolutions: Evolutions,
        drawing: Drawing,
        look: Look,
        clustering: "Representative | None",
        user_reports: Sequence[UserReport],
    ) -> None:
        self.evolutions, self.look = evolutions, look
        self.moments = {(p.name, m.step): m for p in user_reports for m in p.moments}
        self.order = {p.name: i for i, p in enumerate(user_reports)}
        self.groups: dict[Edge, list[RepresentativeCluster]] = {}
        for cluster in clustering.clusters if clustering else ():
            self.groups.setdefault((cluster.parent, cluster.composition), []).append(cluster)
        self.held = {child for _, child in self.groups}
        self.clusters: dict[Edge, list[Cluster]] = {}
        for one in evolutions.clusters:
            self.clusters.setdefault((one.parent, one.child), []).append(one)
        shown = [*drawing.boxes, *(child for _, child in self.groups)]
        order = list(dict.fromkeys(shown))[: max(DESCRIBED, len(drawing.boxes))]
        self.number = {composition: i for i, composition in enumerate(order)}
        self.edges = set(drawing.edges) | set(self.groups)
        self.all = [self._kernel(composition) for composition in order]

    def address(self, item: Composition | Edge) -> str:
        """Return the identifier of a composition or an evolution."""
        if isinstance(item, tuple):
            return f"evolution-{self.number[item[0]]}-{self.number[item[1]]}"
        return f"composition-{self.number[item]}"

    def tip(self, item: Composition | Edge) -> str:
        """Return the text of the tooltip of a box or an arrow, in lines."""
        if isinstance(item, tuple):
            kernel = self.all[self.number[item[1]]]
            step = next(s for s in kernel.steps if s.parent == item[0])
            low, high = step.found.interval
            lines = [
                f"{step.label} \N{RIGHTWARDS ARROW} {kernel.label}",
                f"Probability {step.found.probability:.2f}, 90 % interval {low:.2f} to {high:.2f}",
                f"In {step.found.occurrence:.0%} of the posterior draws",
            ]
            table, users = step.table, step.users
        else:
            kernel = self.all[self.number[item]]
            lines = [kernel.label, kernel.sentence, f"{kernel.datasets:.1f} pilot datasets"]
            if kernel.new < 1:
                lines[-1] += f"; stays the same with probability {kernel.stays:.2f}"
            table, users = kernel.table, [u for s in kernel.steps for u in s.users]
        lines += [_line(row) for row in table]
        if users:
            last = len(self.order)
            known = sorted(dict.fromkeys(users), key=lambda u: self.order.get(u, last))
            lines.append(f"Users {some(known, LISTED)}")
        return "\n".join(lines)

    def _kernel(self, composition: Composition) -> Kernel:
        evolutions, look = self.evolutions, self.look
        own = [c for c in evolutions.clusters if c.child == composition]
        table = intervals(evolutions, own) if own else []
        children = evolutions.children(composition)
        stays = next((c.probability for c in children if c.composition == composition), 0.0)
        return Kernel(
            identifier=self.address(composition),
            composition=composition,
            label=look.label(composition),
            colour=look.colour(composition),
            sentence=sentence(composition, look.features, evolutions.target, medians(table)),
            datasets=datasets_of(evolutions).get(evolutions.label(composition), 0.0),
            stays=stays,
            new=evolutions.probability_of_new(composition),
            table=table,
            steps=self._steps(composition),
            children=[
                (look.label(c.composition), self._link(composition, c.composition), c)
                for place, c in enumerate(children[:NEXT])
                if place < 3 or c.probability >= LEAST
            ],
        )

    def _link(self, parent: Composition, child: Composition) -> str:
        """Return the identifier of an evolution, else of its child; empty if not described."""
        if child not in self.number:
            return ""
        return self.address((parent, child) if (parent, child) in self.edges else child)

    def _steps(self, composition: Composition) -> list[Step]:
        steps = []
        for parent in self.evolutions.parents:
            if parent not in self.number:
                continue
            for child in self.evolutions.children(parent):
                drawn = (parent, composition) in self.edges or parent == composition
                if child.composition == composition and drawn:
                    steps.append(self._step(parent, child))
        steps.sort(key=lambda s: -s.found.count)
        return [_shown_before(step, steps[:i]) for i, step in enumerate(steps)]

    def _step(self, parent: Composition, child: Child) -> Step:
        edge = parent, child.composition
        groups = self.groups.get(edge, [])
        places = [(str(u), t) for group in groups for u, t in group.members]
        by_user = _by_user(places)
        holders = [] if child.composition in self.held else self._holders(child.composition)
        total = sum(len(g.members) for g in groups)
        return Step(
            identifier=self.address(edge),
            parent=parent,
            child=child.composition,
            label=self.look.label(parent),
            found=child,
            table=intervals(self.evolutions, self.clusters[edge]),
            members=[
                f"user {u} at time step {', '.join(str(s + 1) for s in t)}"
                for u, t in by_user.items()
            ],
            holders=[f"user {u} at time step {t + 1} ({share:.2f})" for u, t, share in holders],
            users=list(by_user) or [f"{u} ({share:.2f})" for u, _, share in holders],
            pictures=self._pictures(by_user or _by_user([(u, t) for u, t, _ in holders])),
            certainty=sum(g.certainty * len(g.members) for g in groups) / total if total else None,
        )

    def _holders(self, composition: Composition) -> list[tuple[str, int, float]]:
        """Return the users most likely to have a composition, with time step and probability."""
        found: dict[str, tuple[float, int]] = {}
        for (user, t), moment in self.moments.items():
            share = dict(moment.likely).get(composition, 0.0)
            if share > found.get(user, (0.0, 0))[0]:
                found[user] = share, t
        ranked = sorted(found.items(), key=lambda item: -item[1][0])[:HOLDERS]
        return [(user, t, share) for user, (share, t) in ranked]

    def _pictures(self, by_user: dict[str, list[int]]) -> list[tuple[Markup, str]]:
        """Return plots of some members: the last time step of each user, then earlier ones."""
        ranked = sorted(
            (-i, number, user, t)
            for number, (user, steps) in enumerate(by_user.items())
            for i, t in enumerate(steps, start=1 - len(steps))
        )
        pictures: list[tuple[Markup, str]] = []
        for *_, user, t in ranked:
            moment = self.moments.get((user, t))
            if moment and moment.picture and len(pictures) < PICTURES:
                caption = f"User {user}, time step {t + 1}"
                pictures.append((charts.again(moment.identifier, moment.alt), caption))
        return pictures


def _shown_before(step: Step, before: Sequence[Step]) -> Step:
    """Return a step without its holders if an earlier step already lists them."""
    if step.holders and any(step.holders == other.holders for other in before):
        return replace(step, holders=[], pictures=[])
    return step


def _by_user(places: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    """Return the time steps of each user, in order."""
    found: dict[str, list[int]] = {}
    for user, t in sorted(places, key=lambda place: place[1]):
        found.setdefault(user, []).append(t)
    return found


def _line(row: Interval) -> str:
    low, middle, high = map(charts.number, (row.low, row.middle, row.high))
    what = f"{row.candidate} {row.what}".strip()
    known = np.isfinite(row.low)
    return f"{what}: {middle} ({f'{low} to {high}' if known else 'too few draws'})"
