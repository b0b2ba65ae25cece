"""Measure the memory of `kem fit`, with all its processes, for a study as large as HeartSteps.

The study has 18 users with 23 features and 4 to 12 batches of 5 points, 150 datasets in total; 95
candidates; and 4 chains of 500 draws (paper, table 1 and 10.2.3). Memory is the peak of the sum
over processes, with shared pages counted once; disk is the size of the posterior written.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from measure import Row, at_most

USERS, DATASETS, FEATURES, CANDIDATES = 18, 150, 23, 95

CHAINS, DRAWS, TUNE = 4, 500, 20

MIB = 2**20


def table() -> pd.DataFrame:
    """Simulate users with different numbers of days, one row per day."""
    rng = np.random.default_rng(0)
    lengths = 4 + rng.multinomial(DATASETS - 4 * USERS, np.full(USERS, 1 / USERS))
    frames = []
    for user, length in enumerate(lengths):
        x = rng.uniform(size=(5 * length, FEATURES))
        y = x[:, user % 3] + np.sin(6 * x[:, 3]) + 0.5 * rng.normal(size=len(x))
        frame = pd.DataFrame(x, columns=[f"x{d}" for d in range(FEATURES)])
        frames.append(frame.assign(user=user, day=range(len(x)), y=y))
    return pd.concat(frames)


def candidates() -> list[str]:
    """Return linear and smooth effects of every feature, and interactions with three features."""
    single = [f"{base}{d}" for base in ("LIN", "SE") for d in range(FEATURES)]
    products = [f"LIN{flag} x SE{d}" for flag in range(3) for d in range(3, FEATURES)]
    return [*single, *products][:CANDIDATES]


def held(process: int) -> int:
    """Return the memory in bytes of a process and its descendants; 0 if they have ended."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    family = [process]
    for one in family:
        family += children.get(one, [])
    total = 0
    for one in family:
        try:
            rolled = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(1024 * int(s.split()[1]) for s in rolled.splitlines() if s.startswith("Pss:"))
    return total


def rows() -> list[Row]:
    """Measure the peak memory of a fit in a separate process, and the size of its posterior."""
    with TemporaryDirectory() as folder:
        data, out = Path(folder, "pilot.csv"), Path(folder, "fit")
        table().to_csv(data, index=False)
        program = str(Path(sys.executable).with_name("kem"))
        command = [program, "fit", "--data", str(data), "--out", str(out), "--seed", "0"]
        command += ["--user", "user", "--time", "day", "--batch", "5", "--target", "y"]
        command += ["--candidates", ",".join(candidates())]
        command += ["--chains", str(CHAINS), "--draws", str(DRAWS), "--tune", str(TUNE)]
        began, worst = time.perf_counter(), 0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as fit:
            while fit.poll() is None:
                worst = max(worst, held(fit.pid))
                time.sleep(0.1)
        if fit.returncode != 0:
            raise RuntimeError("kem fit failed. See its message above.")
        seconds = time.perf_counter() - began
        posterior = out / "posterior.zarr"
        disk = sum(path.stat().st_size for path in posterior.rglob("*") if path.is_file())
    what = f"{USERS} users, {DATASETS} datasets, {CANDIDATES} candidates, {CHAINS} x {DRAWS}"
    return [
        at_most(f"memory of a fit, {what} ({seconds:.0f} s)", worst / MIB, 2048.0, " MiB"),
        at_most("  size of its posterior on disk", disk / MIB, 500.0, " MiB"),
    ]
