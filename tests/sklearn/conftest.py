"""Rows of simulated users, and the evolutions made by hand that the tests of selection have."""

import numpy as np
import pandas as pd
import pytest

from tests.selection.conftest import learned  # noqa: F401
from tests.selection.pilots import user


@pytest.fixture(scope="session")
def rows():
    """Twelve rows of each of three users, in two weeks' steps of three rows each."""
    parts = []
    for number, label in enumerate(("ann", "bob", "cid")):
        x, y = user(12, seed=number)
        step = np.repeat(np.arange(4.0), 3)
        parts.append(pd.DataFrame({"id": label, "step": step, "week": x[:, 0], "steps": y}))
    return pd.concat(parts, ignore_index=True)
