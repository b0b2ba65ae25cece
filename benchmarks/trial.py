"""Updates and predictions of a running trial, beside the selections that they contain.

Participants of the quickstart's kind, with some points each, get one time step more. Of the update
it prints the time of a participant, as a multiple of the time of the selection alone; so it does of
conditioning the last selection on a further row without a fit, and predicting; of a prediction,
once its selection is loaded, the time beside that of the selection's own prediction.

    uv run python benchmarks/trial.py [--participants N] [--points N] [--url URL]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import kem_pymc as kem
from kem_pymc.trial import Trial
from kem_pymc.trial.answers import conditioned


def learned(seed: int = 0) -> kem.Evolutions:
    """Return evolutions of simulated pilot users, who share a line."""
    pilot = kem.datasets.synthetic(users=8, time_steps=3, seed=seed)
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], pilot.dimension)
    options: dict[str, Any] = {"draws": 100, "tune": 100, "chains": 2, "random_seed": seed}
    models = kem.EvolutionModel.from_cohort(pilot, pool), kem.final_model(pilot, pool)
    idata, final = (kem.sample(model, progress=False, **options) for model in models)
    return kem.Evolutions.from_posterior(idata, final=final)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--participants", type=int, default=100)
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--url", help="empty database; by default SQLite in a folder that is gone")
    given = parser.parse_args()
    evolutions, rng = learned(), np.random.default_rng(1)
    low, high = evolutions.scaling.feature_low, evolutions.scaling.feature_high
    parts = []
    for number in range(given.participants):
        x = np.sort(rng.uniform(low, high, (given.points, len(low))), axis=0)
        table = pd.DataFrame(x, columns=list(evolutions.features))
        table[evolutions.target] = np.sin(x[:, 0]) + 0.3 * rng.normal(size=len(x))
        parts.append(table.assign(user=f"p{number}", at=np.arange(len(x), dtype=float)))
    rows = pd.concat(parts, ignore_index=True)
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{Path(folder) / 'trial.db'}"
        roles = {"user": "user", "time": "at", "batch": given.points - 1}
        with Trial.create(url, evolutions, **roles) as trial:
            began = time.perf_counter()
            trial.add(rows[rows["at"] < given.points - 1], register=True)
            adding = time.perf_counter() - began
            trial.update()
            trial.add(rows[rows["at"] == given.points - 1])
            began = time.perf_counter()
            made = trial.update()
            updating = time.perf_counter() - began
            at, alone, served, further = x[-1:], [], [], []
            last = rows[rows["user"] == f"p{given.participants - 1}"]
            y = last[evolutions.target].to_numpy()
            data = np.vstack([x, x[-1:]]), np.append(y, y[-1])
            before = trial.selection(f"p{given.participants - 1}")
            assert before is not None
            for _ in range(50):
                selection = trial.selection("p0")
                assert selection is not None
                began = time.perf_counter()
                conditioned(before, *data, {}).predict(at, include_noise=True)
                further.append(time.perf_counter() - began)
                began = time.perf_counter()
                selection.predict(at, include_noise=True).quantile(0.9)
                alone.append(time.perf_counter() - began)
                began = time.perf_counter()
                trial.predict("p0", at)
                served.append(time.perf_counter() - began)
    table = Table("", "milliseconds", "as a multiple", title=f"{given.points} points")
    count = len(made)
    each, own = 1000 * updating / count, 1000 * made["seconds"].mean()
    table.add_row("selection and check alone", f"{own:.1f}", "")
    table.add_row("update of a participant", f"{each:.1f}", f"{each / own:.2f}")
    each = 1000 * np.median(further)
    table.add_row("further row without a fit, and a prediction", f"{each:.1f}", f"{each / own:.2f}")
    own, each = 1000 * np.median(alone), 1000 * np.median(served)
    table.add_row("prediction alone", f"{own:.2f}", "")
    table.add_row("prediction that is recorded", f"{each:.2f}", f"{each / own:.2f}")
    table.add_row("row added", f"{1000 * adding / (len(rows) - count):.2f}", "")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
