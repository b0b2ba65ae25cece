"""Time a sweep for `cut` with the paper's schedule, and compare with the authors' program.

The study is the paper's synthetic study: 10 users, 6 time steps of 5 points, 8 candidates. An
iteration consists of 10 sweeps of cluster assignments and 100 Metropolis-Hastings steps per cluster
(paper, 10.2.4 and 10.3.3).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np
from measure import Row, at_least, at_most

import kem_pymc as kem
from kem_pymc.sampler.moves.sweep import PAPER, start, sweep

#: CPU seconds of one Gibbs iteration of the authors' program (TensorFlow, GPflow; one thread, this
#: study, a comparable machine): the mean of measurements from 83 to 125.
AUTHORS = 98.0

SETTLING, BLOCKS, BLOCK = 200, 15, 20


def rows() -> list[Row]:
    """Measure the CPU time of an iteration after warm-up, as the median over blocks."""
    cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    engine = kem.EvolutionModel(cohort, pool, priors=kem.priors.synthetic()).engine
    rng = np.random.default_rng(0)
    state = start(engine.model, PAPER, rng)
    for _ in range(SETTLING):
        sweep(engine.model, state, PAPER, rng)
    seconds = []
    made = state.factorisations[0]
    for _ in range(BLOCKS):
        began = time.process_time()
        for _ in range(BLOCK):
            sweep(engine.model, state, PAPER, rng)
        seconds.append((time.process_time() - began) / BLOCK)
    factorisations = (state.factorisations[0] - made) / (BLOCKS * BLOCK)
    typical = float(np.median(seconds))
    figure = f"cut, the paper's schedule, one iteration ({factorisations:.0f} factorisations)"
    return [
        at_most(figure, 1e3 * typical, 25.0, " ms"),
        at_least("  speed-up over the authors' program (98 s)", AUTHORS / typical, 4000.0),
    ]
