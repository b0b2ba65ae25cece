"""Updaters that are killed while others read: every selection is made once."""

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from kem_pymc.trial import Trial
from tests.selection.pilots import user

USERS, WEEKS, KILLED = 6, 5, 6

UPDATE = "import sys; from kem_pymc.trial import Trial; Trial.open(sys.argv[1]).update()"


@pytest.mark.faults
def test_killed_updaters_lose_nothing(url, evolutions, monkeypatch):
    """Two processes update, of which one is killed again and again, while this one predicts."""
    parts = [
        pd.DataFrame({"id": f"p{n}", "week": np.arange(float(WEEKS)), "steps": user(WEEKS, n)[1]})
        for n in range(USERS)
    ]
    rows = pd.concat(parts, ignore_index=True)
    monkeypatch.setattr("kem_pymc.trial.updating.LEASE", 1.0)
    with Trial.create(url, evolutions, user="id", time="week") as trial:
        trial.add(rows[rows["week"] == 0], register=True)
        assert len(trial.update()) == USERS
        trial.add(rows)
        start = [sys.executable, "-c", UPDATE, url]
        other, waits, rng = subprocess.Popen(start), [], np.random.default_rng(0)
        for _ in range(KILLED):
            killed = subprocess.Popen(start)
            until = time.monotonic() + rng.uniform(1.5, 3.5)
            while time.monotonic() < until:
                before = time.monotonic()
                trial.predict(f"p{rng.integers(USERS)}", [[7.0]])
                waits.append(time.monotonic() - before)
            killed.kill()
            killed.wait()
        other.wait()
        deadline = time.monotonic() + 120
        while len(trial.selections()) < USERS * WEEKS and time.monotonic() < deadline:
            trial.update()  # once the leases of killed updaters have ended
            time.sleep(0.2)
        found = trial.selections()
        assert len(found) == USERS * WEEKS
        assert not found.duplicated(["participant", "time_step"]).any()
        assert set(found["severity"]) == {"green"}
        assert trial.replay() is None
        assert max(waits) < 5
