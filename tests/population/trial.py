"""A simulated trial of three arms, as a table."""

import numpy as np
import pandas as pd

import kem_pymc as kem

ARMS = ("placebo",) * 5 + ("low",) * 3 + ("high",) * 4
EFFECTS = {"placebo": 0.0, "low": 0.4, "high": 0.9}


def trial() -> pd.DataFrame:
    """Return twelve users' visits in weeks 0 to 5, of which some are missing."""
    rng = np.random.default_rng(3)
    rows = []
    for u, arm in enumerate(ARMS):
        base = round(rng.normal(50, 8), 1)
        level, line = rng.normal(0, [3.0, 0.6])
        for week in range(6):
            if rng.random() < 0.2 and week not in (0, 5):
                continue
            mean = 20 + 0.2 * base - 1.1 * week - EFFECTS[arm] * week
            y = mean + level + line * (week - 2.5) + rng.normal(0, 1.2)
            rows.append((f"u{u:02d}", float(week), arm, base, round(y, 2)))
    return pd.DataFrame(rows, columns=["user", "week", "arm", "base", "y"])


def cohort_of(table: pd.DataFrame, **options: object) -> kem.Cohort:
    """Return the cohort of a trial's table."""
    return kem.Cohort.from_frame(
        table, user="user", time="week", target="y", gaps="skip", scope="population", **options
    )
