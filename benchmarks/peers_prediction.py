"""Score predictions of other packages on the experiments' splits, in the same way as KEM's.

uv run --extra peers python benchmarks/peers_prediction.py --out FOLDER [--study NAME] [--peer NAME]

Pilot and test users of a trial are those of the experiments with the same seed, in the same scaled
units, and scores are those of `kem_pymc.selection.scores`. The results of every study and model
are a CSV file with a row per trial, user and time step; existing files aren't computed again.
"""

import os

# Matrices are small, so several threads would only slow each other down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from peer_models import PEERS, Fitted, Rows, given
from rich.console import Console
from rich.table import Table

from experiments.kem.trials import settings
from experiments.results import slug
from kem_pymc.data.cohort import Cohort, Split
from kem_pymc.data.scaling import Scaling
from kem_pymc.gp.prediction import Prediction
from kem_pymc.selection.scores import predictive_scores
from kem_pymc.selection.selection import Selection

STUDIES = (
    *("sleepstudy", "orthodont", "theoph", "chickweight"),
    *("fires", "housing", "mimic-demo", "energy"),
    *("heartsteps-daily", "heartsteps-forecast", "concrete"),
)
SCORES = ("log_likelihood", "crps", "rmse", "cover95")


@dataclass(frozen=True)
class Forecast:
    """Substitute for a Selection in `predictive_scores`: a scaling and a fixed prediction."""

    scaling: Scaling
    mean: np.ndarray
    sd: np.ndarray

    def predict(self, x: np.ndarray, include_noise: bool = True) -> Prediction:
        """Return the mean and sd of new observations, in the users' units."""
        assert include_noise
        assert len(x) == len(self.mean)
        return Prediction.of(self.scaling.mean_back(self.mean), self.scaling.sd_back(self.sd))


def users_of(study: str, trial: int, seed: int) -> Split:
    """Return the pilot and test users of a trial, split as in `python -m experiments`."""
    return settings().studies[study].deal(trial, seed)


def pilot_rows(users: Split, scaling: Scaling) -> Rows:
    """Return the pilot users' rows in scaled units."""
    pilot = scaling.apply(users.pilot)
    counts = [len(y) for y in pilot.targets]
    number = np.repeat(np.arange(pilot.n_users), counts)
    return Rows(np.concatenate(pilot.inputs), np.concatenate(pilot.targets), number)


def scored(fitted: Fitted, test: Cohort, scaling: Scaling) -> Iterator[dict[str, Any]]:
    """Yield scores for the next batch, of every test user and time step but the last."""
    for user, x, y, ends in zip(test.users, test.inputs, test.targets, test.ends, strict=True):
        joint = fitted(scaling.inputs(x))
        earlier = scaling.targets(y)
        for step, (now, then) in enumerate(pairwise(ends)):
            found = given(joint, earlier[:now], slice(now, then))
            forecast = Forecast(scaling, found.mean, found.sd)
            values = predictive_scores(cast(Selection, forecast), x[now:then], y[now:then])
            yield {"user": user, "time_step": step} | {name: values[name] for name in SCORES}


def one_trial(peer: str, study: str, trial: int, seed: int) -> pd.DataFrame:
    """Fit a model to the pilot users of a trial and score it on the test users."""
    users = users_of(study, trial, seed)
    scaling = Scaling.unit(users.pilot)
    began = time.perf_counter()
    fitted = PEERS[peer](pilot_rows(users, scaling), seed)
    seconds = time.perf_counter() - began
    named = {"study": study, "trial": trial, "method": peer}
    rows = [named | row | {"fit_seconds": seconds} for row in scored(fitted, users.test, scaling)]
    return pd.DataFrame(rows)


def by_step(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean log-likelihoods by study and method: all, first, middle and last time step.

    Values are averaged over trials within each user, then over users.
    """
    rows = []
    for (study, method), own in table.groupby(["study", "method"], sort=False):
        users = own.groupby(["time_step", "user"])["log_likelihood"].mean()
        steps = users.groupby("time_step").mean().to_numpy()
        rows.append(
            {
                "study": study,
                "method": method,
                "all": users.groupby("user").mean().mean(),
                "first": steps[0],
                "middle": steps[len(steps) // 2],
                "last": steps[-1],
                "trials": own["trial"].nunique(),
                "users": own["user"].nunique(),
            }
        )
    return pd.DataFrame(rows)


def show(table: pd.DataFrame) -> Table:
    """Return the summary as a formatted table."""
    summary = by_step(table)
    out = Table(*summary.columns, title="Log-likelihood of the next batch, nats per point")
    for row in summary.itertuples(index=False):
        out.add_row(*(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row))
    return out


def main() -> None:
    """Compute the requested results that don't exist yet, then show all requested results."""
    parser = argparse.ArgumentParser(description="Score predictions of other packages.")
    parser.add_argument("--study", choices=STUDIES, action="append", help="study (repeatable)")
    parser.add_argument("--peer", choices=list(PEERS), action="append", help="model (repeatable)")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("kem-out-peers"))
    asked = parser.parse_args()
    console = Console()
    asked.out.mkdir(parents=True, exist_ok=True)
    tables = []
    for study in asked.study or STUDIES:
        for peer in asked.peer or PEERS:
            file = asked.out / f"{study}-{slug(peer)}-seed{asked.seed}-{asked.trials}.csv"
            try:
                if not file.is_file():
                    trials = range(asked.trials)
                    found = [one_trial(peer, study, trial, asked.seed) for trial in trials]
                    pd.concat(found, ignore_index=True).to_csv(file, index=False)
            except ImportError as error:
                console.print(f"{peer} is skipped: {error}.")
                continue
            tables.append(pd.read_csv(file, dtype={"user": str}))
            console.print(f"{study}: {peer}")
    if tables:
        console.print(show(pd.concat(tables, ignore_index=True)))


if __name__ == "__main__":
    main()
