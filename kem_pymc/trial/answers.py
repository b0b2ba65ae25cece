"""What answers for a participant at a time step, whatever fails.

In this order, the first that succeeds:

==========  ========  ==========================================================================
answer      severity  what it is
==========  ========  ==========================================================================
selected    green     KEM's selection
refitted    yellow    the last selection's kernel, with values fitted again
conditioned yellow    the last selection, conditioned on the data: no fit
shared      red       what pilot users share, with noise
pilots      red       the pilot users' mean and spread
==========  ========  ==========================================================================
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.posterior import PopulationFunction
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.scorer import Proposal
from kem_pymc.selection.selection import LEAST_WEIGHT, Selection
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints, as_composition

SEVERITY = {
    "selected": "green",
    "refitted": "yellow",
    "conditioned": "yellow",
    "shared": "red",
    "pilots": "red",
}


class Answer(NamedTuple):
    """A selection, what kind of answer it is, and why it isn't a better one."""

    selection: Selection
    name: str
    reason: str

    @property
    def severity(self) -> str:
        """How far the answer is from what was asked for: green, yellow or red."""
        return SEVERITY[self.name]


def answers(
    selector: KEMSelector,
    x: np.ndarray,
    y: np.ndarray,
    previous: Selection | None = None,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Callable[[], Selection]]:
    """Return what can answer for data in the user's units, by name, the best first.

    Parameters
    ----------
    selector : KEMSelector
    x, y : ndarray, shapes (n, D) and (n,)
    previous : Selection, optional
        Selection at the time step before.
    given : mapping, optional
        ``noise`` and ``sizes``, as for :meth:`KEMSelector.select`.
    """
    known = dict(given or {})
    ways: dict[str, Callable[[], Selection]] = {
        "selected": lambda: selector.select(x, y, previous, **known)
    }
    if previous is not None:
        ways["refitted"] = lambda: _Refit(selector).select(x, y, previous, **known)
        ways["conditioned"] = lambda: conditioned(previous, x, y, known)
    if selector.shared is not None:
        ways["shared"] = lambda: _noise_only(selector, selector.shared, x, y, known)
    ways["pilots"] = lambda: _noise_only(selector, None, x, y, known)
    return ways


def answer(selector: KEMSelector, x: np.ndarray, *others: Any) -> Answer:
    """Return the best answer that there is; the arguments are those of :func:`answers`."""
    failed: list[str] = []
    for name, way in answers(selector, x, *others).items():
        try:
            found = way()
            _check(found)
        except Exception as error:
            if name == "pilots":
                raise
            failed.append(f"{name} failed: {type(error).__name__}: {error}")
        else:
            return Answer(found, name, "; ".join(failed))
    raise AssertionError("unreachable: the last way returns or raises")


class _Refit(PoolSelector):
    """Selector that keeps the previous composition, and fits its values again."""

    def __init__(self, selector: KEMSelector) -> None:
        self.selector = selector
        self.pool, self.scaling = selector.pool, selector.scaling
        self.shared, self.distribution = selector.shared, selector.distribution

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        kept = as_composition(previous, self.pool.dimension)
        typical = self.selector.typical(kept, previous)
        proposal = Proposal(kept, "current", 1.0, typical)
        return self.selector.scorer.consider([proposal], kept, previous, points)


def _check(selection: Selection) -> None:
    """Check that the selected kernel, conditioned on the data, predicts.

    Of others and of draws the likelihood is known, which is minus infinity where they can't.
    """
    conditional = selection.conditioned.conditional
    if not (np.isfinite(conditional.white).all() and (np.diag(conditional.root) > 0).all()):
        raise ArithmeticError("predictions aren't finite")


def conditioned(
    selection: Selection, x: np.ndarray, y: np.ndarray, given: Mapping[str, Any]
) -> Selection:
    """Return a selection given other data, with the same kernels, values and weights."""
    points = ScaledPoints.of(selection.scaling, x, y, selection.shared, **given)
    rows = []
    for place, row in enumerate(selection.considered):
        if points.recorded is not None and (place == 0 or row.weight >= LEAST_WEIGHT):
            coordinates = Coordinates(selection.pool, row.composition)
            values = coordinates.from_named(row.hyperparameters, row.noise)
            (objective,) = points.objective(coordinates).around(values[None])
            sites = objective.sites
            row = replace(row, sites=sites, draws=tuple(d._replace(sites=None) for d in row.draws))
        rows.append(row)
    unshared = None
    if selection.unshared is not None:
        unshared = conditioned(selection.unshared, x, y, given)
    return replace(
        selection,
        considered=tuple(rows),
        x=points.x,
        y=points.y,
        known_noise=points.noise,
        recorded=points.recorded,
        unshared=unshared,
    )


def _noise_only(
    selector: KEMSelector,
    shared: PopulationFunction | None,
    x: np.ndarray,
    y: np.ndarray,
    given: Mapping[str, Any],
) -> Selection:
    """Return noise around what users share; without that, of the pilot users' variance."""
    points = ScaledPoints.of(selector.scaling, x, y, shared, **given)
    noise, typical = 1.0, selector.evolutions.typical(Composition())
    if shared is not None and typical is not None:
        noise = float(np.exp(typical.centre[-1]))
    objective = points.objective(Coordinates(selector.pool, Composition()))
    values = np.array([np.log(noise)])
    if points.recorded is not None:
        (objective,) = objective.around(values[None])
    likelihood = float(objective.terms(values)[0] + objective.log_constant)
    row = ScoredKernel(
        composition=Composition(),
        status="fixed",
        hyperparameters={},
        noise=noise,
        log_likelihood=likelihood,
        n_parameters=1,
        bic=np.log(len(y)) - 2 * likelihood,
        criterion=likelihood,
        score=likelihood,
        weight=1.0,
        probability=1.0,
        evaluations=1,
        converged=True,
        sites=objective.sites,
    )
    return Selection(
        (row,),
        selector.pool,
        selector.scaling,
        points.x,
        points.y,
        0.0,
        shared=shared,
        distribution=selector.distribution,
        known_noise=points.noise,
        recorded=points.recorded,
    )
