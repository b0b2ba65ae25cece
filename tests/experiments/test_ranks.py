"""Friedman's test and comparisons of pairs, against published results."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.evocov import published, ranks


def test_the_metrics_of_the_paper():
    """The published table has the published p-value, and the groups of its figure 2."""
    found = ranks.compare(published.METRICS)
    assert found.p == pytest.approx(8.454e-5, rel=1e-4)
    assert list(found.means.index)[-2:] == ["posterior LML", "LOOCV"]
    assert ranks.groups(found) == [(0, 3), (3, 4)]
    table = ranks.table(found)
    assert table.loc["SoPL", "p, LOOCV"] == table.loc["LOOCV", "p, SoPL"]
    assert float(table.loc["SoPL", "p, LOOCV"]) < 0.05
    ax = Figure().add_subplot()
    ranks.draw(found, ax)
    assert [text.get_text() for text in ax.texts][:5] == ["1", "2", "3", "4", "5"]
    thick = [line for line in ax.lines if line.get_linewidth() == 3]
    assert len(thick) == 2


def test_adjusted_p_values_of_a_worked_example():
    """Five classifiers on 30 data sets (García and Herrera 2008), with the factors of Shaffer."""
    p = [4.487e-8, 1.736e-7, 2.9e-3, 4.8e-3, 8.0e-3, 0.0101, 0.0128, 0.0247, 0.744, 0.8065]
    expected = [4.487e-7, 6 * 1.736e-7, 0.0174, 0.0288, 0.048, 0.048, 0.0512, 0.0741, 1.0, 1.0]
    order = np.random.default_rng(0).permutation(10)
    found = ranks.shaffer(np.array(p)[order], 5)
    np.testing.assert_allclose(found, np.array(expected)[order], rtol=1e-10)
    assert ranks.true_hypotheses(5) == {0, 1, 2, 3, 4, 6, 10}


def test_infinite_errors_are_last_and_missing_rows_are_left_out():
    rows = [[1.0, 2.0, np.inf], [1.0, 3.0, 9.0], [1.0, 2.0, np.inf], [np.nan, 1.0, 2.0]]
    found = ranks.compare(pd.DataFrame(rows, columns=["a", "b", "c"]))
    assert found.means.to_dict() == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert ranks.compare(pd.DataFrame(rows)[[0, 1]]) is None
