"""Time selections for many users on a Dask cluster of one worker and of two workers.

Times are wall-clock seconds; both clusters are warm (code compiled, connections open).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from contextlib import closing

from distributed import LocalCluster
from measure import Row, at_least
from selection import learned

import kem_pymc as kem
from kem_pymc._system.executors import make_executor
from kem_pymc.selection.online import select_online

USERS = 1000


def rows() -> list[Row]:
    """Measure selections for 1,000 users at six time steps each."""
    test = kem.datasets.synthetic(users=USERS, seed=1)
    selector = kem.KEMSelector(learned())
    seconds = []
    chosen = []
    for size in (1, 2):
        with (
            LocalCluster(n_workers=size, threads_per_worker=1, dashboard_address=":0") as cluster,
            closing(make_executor(cluster=cluster.scheduler_address)) as executor,
        ):
            select_online(selector, test.subset(test.users[:20]), executor)
            began = time.perf_counter()
            trajectories = select_online(selector, test, executor)
            seconds.append(time.perf_counter() - began)
            chosen.append([[s.composition for s in trajectories[user]] for user in test.users])
    assert chosen[0] == chosen[1]
    figure = (
        f"{USERS} users, speed-up with 2 workers (1: {seconds[0]:.1f} s, 2: {seconds[1]:.1f} s)"
    )
    return [at_least(figure, seconds[0] / seconds[1], 1.7)]
