"""Cohorts by hand, and what a refusal looks like."""

from dataclasses import replace

import numpy as np
import pandas as pd

from kem_pymc.data.cohort import Cohort
from tests.refusals import refused

ROLES = {"user": "id", "time": "week", "target": "y"}


def frame(**columns):
    """Users b and a, rows interleaved; a has two points in week 1, b three weeks."""
    table = {
        "id": ["b", "a", "b", "a", "a", "b"],
        "week": [0, 1, 1, 1, 2, 2],
        "x": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
        "z": [6.0, 5.0, 4.0, 3.0, 2.0, 0.0],
        "y": [1.0, 2.0, 3.0, 5.0, 8.0, 13.0],
    }
    return pd.DataFrame(table | columns)


def cohort(**changes):
    return replace(Cohort.from_frame(frame(), **ROLES, features=["x", "z"]), **changes)


def assert_same(one, other):
    assert one.users == other.users
    assert one.features == other.features
    assert one.target == other.target
    for name in ("inputs", "targets", "ends"):
        for a, b in zip(getattr(one, name), getattr(other, name), strict=True):
            np.testing.assert_array_equal(a, b)


def refused_frame(df, *words, **options):
    return refused(lambda: Cohort.from_frame(df, **ROLES | options), *words)


class Recorder:
    """A truth that remembers which users it was asked for."""

    def __init__(self, indices=None):
        self.indices = indices

    def take(self, indices):
        return Recorder([int(i) for i in indices])


def numbered(n):
    """A cohort of users 0 .. n - 1, whose one target is the user's number."""
    numbers = [np.array([float(u)]) for u in range(n)]
    inputs = tuple(y[:, None] for y in numbers)
    return Cohort(tuple(range(n)), inputs, tuple(numbers), ([1],) * n, ("x",), truth=Recorder())
