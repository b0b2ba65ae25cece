"""Candidates for categorical features, and which candidates suit which features."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.categories import (
    category_features,
    check_categories,
    number_features,
    over_time,
    smooth_function,
    suits,
)
from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.composition import Candidate
from tests.refusals import refused


@pytest.fixture(scope="module")
def cohort():
    """Features week (the time), arm (two levels), site (three levels) and dose."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": np.repeat([1, 2, 3], 3),
            "week": np.tile([0, 1, 2], 3),
            "steps": rng.normal(size=9),
            "arm": ["a", "b", "a"] * 3,
            "site": np.repeat(["x", "y", "z"], 3),
            "dose": rng.normal(size=9),
        }
    )
    features = ["week", "arm", "site", "dose"]
    return Cohort.from_frame(frame, user="id", time="week", target="steps", features=features)


def test_categories_and_numbers_are_apart(cohort):
    assert category_features(cohort) == {1, 2}
    assert number_features(cohort) == [0, 3]
    assert str(*smooth_function([0, 3])) == "SE0 x SE3"
    assert smooth_function([]) == []
    # Levels change over time where the time is a feature.
    assert list(map(str, over_time(cohort, {2, 1}))) == ["CAT1 x SE0", "CAT2 x SE0"]
    assert over_time(replace(cohort, time=None), {1, 2}) == []


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        *((name, None) for name in ("SE0", "CAT2", "CAT1", "LIN1", "CAT2 x SE3", "SE7")),
        ("CAT0", "treats week as categories, but it has numbers. Use LIN0 or SE0"),
        ("CAT2 x CAT3", "treats dose as categories"),
        ("LIN2", "treats the 3 categories of site as numbers. Use CAT2"),
        ("SE0 x SE2", "treats the 3 categories of site as numbers"),
    ],
)
def test_candidates_suit_features(cohort, candidate, words):
    """Two levels may be numbers, three may not; features that aren't there are left alone."""
    found = Candidate.parse(candidate, 8)
    if "7" not in candidate:
        assert suits(found, cohort) == (words is None)
    if words is None:
        check_categories([found], cohort)
    else:
        refused(lambda: check_categories([found], cohort), f"Candidate {candidate}", words)
