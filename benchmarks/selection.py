"""A selection for one user at one time step, against the authors' program.

Three compositions are considered for 30 points, from the values of pilot users' clusters, with
gradients: children of the last composition, of which that composition itself is one.

Between selections, a user's further points are conditioned on at the same hyperparameters: the
Cholesky factor is extended, and compared with one from scratch.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import warnings

import numpy as np
from measure import Row, at_least, at_most, in_turns

import kem_pymc as kem
from kem_pymc.errors import SelectionWarning
from kem_pymc.gp.objective import Coordinates, Objective
from kem_pymc.gp.predict import Conditioned

#: Seconds of a selection by the authors' program on a machine of this kind: 0.85 to 1.69.
AUTHORS = 0.85

USERS, POINTS, COMPOSITIONS = 40, 30, 3


def learned() -> kem.Evolutions:
    """Learn evolutions from a few draws of the synthetic study."""
    pilot = kem.datasets.synthetic(users=10, seed=0)
    pool = kem.CandidatePool(kem.datasets.candidates("synthetic"), dimension=1)
    model = kem.EvolutionModel(pilot, pool, priors=kem.priors.synthetic())
    idata = kem.sample(model, draws=100, tune=100, chains=1, random_seed=0, progress=False)
    return kem.Evolutions.from_posterior(idata)


def extension(points: int = 400, further: int = 5) -> Row:
    """Condition on a few further points, by extension and from scratch."""
    rng = np.random.default_rng(0)
    composition = kem.Composition.parse("LIN0 + PER0 + SE0")
    coordinates = Coordinates(kem.CandidatePool(composition.candidates), composition)
    values = np.zeros(len(coordinates))
    x, y = rng.uniform(0, 50, (points + further, 1)), rng.normal(size=points + further)
    before = Conditioned.of(Objective(coordinates, x[:points], y[:points]), values)
    anew, extended = in_turns(
        lambda: Conditioned.of(Objective(coordinates, x, y), values),
        lambda: before.extended(x[points:], y[points:]),
    )
    figure = f"{further} further points after {points}: from scratch ({1e6 * anew:.0f} us) over"
    return at_least(f"{figure} extended ({1e6 * extended:.0f} us)", anew / extended, 1.0)


def rows() -> list[Row]:
    """Learn from a few draws, then select for new users; the median over users."""
    test = kem.datasets.synthetic(users=USERS, seed=1)
    # The composition that a user has is considered besides.
    selector = kem.KEMSelector(learned(), max_candidates=COMPOSITIONS - 1)
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        for user in range(USERS):
            x, y = test.inputs[user], test.targets[user]
            before = selector.select(x[: POINTS - 5], y[: POINTS - 5])
            selection = selector.select(x[:POINTS], y[:POINTS], previous=before)
            if len(selection.considered) == COMPOSITIONS:
                seconds.append(selection.run_time)
    typical = statistics.median(seconds)
    figure = f"selection, {COMPOSITIONS} compositions, {POINTS} points ({len(seconds)} users)"
    return [
        at_most(figure, 1e3 * typical, 10.0, " ms"),
        at_least("  the authors' 0.85 s (the fastest) over that", AUTHORS / typical, 100.0),
        extension(),
    ]
