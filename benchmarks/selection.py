"""A selection for one user at one time step, against the authors' program.

Three compositions are considered for 30 points, from the values of pilot users' clusters, with
gradients: children of the last composition, of which that composition itself is one.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import warnings

from measure import Row, at_least, at_most

import kem_pymc as kem
from kem_pymc.errors import SelectionWarning

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


def rows() -> list[Row]:
    """Learn from a few draws, then select for new users; the median over users."""
    test = kem.datasets.synthetic(users=USERS, seed=1)
    selector = kem.KEMSelector(learned(), max_candidates=COMPOSITIONS)
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
    ]
