"""Friedman's test and comparisons of pairs, on the example of Demsar (2006), table 6."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import chi2

from kem_pymc.experiments.ranks import draw_ranks, groups, holm, ranks

#: AUC of four variants of C4.5 on 14 data sets. The paper ranks the last two of the last row but
#: one as different, though both are printed as .975.
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def test_published_example():
    found = ranks(-DEMSAR)
    expected = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    for name, rank in expected.items():
        assert found.mean[name] == pytest.approx(rank, abs=5e-4)
    assert next(iter(found.mean.index)) == "C4.5+m+cf"
    # The paper's statistic, 9.28, isn't corrected for ties, as SciPy's is: one of four, and three
    # of two, of (4^3 - 4) * 14 = 840.
    assert found.p == pytest.approx(chi2.sf(9.28 / (1 - (60 + 3 * 6) / 840), 3), abs=2e-4)
    # z = (3.143 - 1.964) / 0.488 = 2.416, the largest of six: p = 0.0157, times six.
    assert found.pairs["C4.5+m+cf", "C4.5"] == pytest.approx(6 * 0.01570, abs=1e-3)


def test_holm_by_hand():
    np.testing.assert_allclose(holm(np.array([0.03, 0.01, 0.04])), [0.06, 0.03, 0.06])
    np.testing.assert_allclose(holm(np.array([0.9, 0.8])), [1.0, 1.0])


def test_groups_without_differences():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(40, 1))
    table = pd.DataFrame(
        base + [0, 0.01, 5, 5.01] + 0.1 * rng.normal(size=(40, 4)), columns=[*"abcd"]
    )
    found = ranks(table)
    assert groups(found) == [
        (found.mean.iloc[0], found.mean.iloc[1]),
        (found.mean.iloc[2], found.mean.iloc[3]),
    ]
    ax = draw_ranks(found, Figure().add_subplot())
    bars = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2]
    np.testing.assert_allclose(bars, groups(found))
    assert {text.get_text()[0] for text in ax.texts} == {*"abcd"}
