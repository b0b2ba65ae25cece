import numpy as np
import pandas as pd
import pytest

from experiments.data.series import (
    COLUMNS,
    HOURLY,
    PUBLISHED,
    TSDL,
    VALUES,
    published_errors,
    series,
)
from kem_pymc.data.datasets import DataFileNotFoundError
from tests.data_home import needs
from tests.refusals import refused

#: Numbers of training and test points (PROVENANCE of the files).
SIZES = {"01-airline": (129, 15), "06-internet": (909, 91), "13-wages": (661, 74)}


@needs(VALUES)
def test_thirteen_series_are_split_by_range():
    for name in TSDL:
        own = series(name)
        low, high = own.x.min(), own.x_test.max()
        assert own.x.max() <= low + 0.9 * (high - low) + 1e-6 < own.x_test.min() + 1e-3
        if name in SIZES:
            assert (len(own.y), len(own.y_test)) == SIZES[name]
    known = published_errors()
    assert list(known.index) == list(TSDL)
    assert known.loc["01-airline", "denom"] == pytest.approx(12.455)
    assert (known.drop(columns="denom").ge(known["denom"] * (1 - 1e-3), axis=0)).all(axis=None)


@pytest.mark.parametrize("name", HOURLY)
def test_counts_are_the_same_in_every_call(name):
    own, again = series(name), series(name)
    np.testing.assert_array_equal(own.y, again.y)
    assert own.x_test[0] == own.x[-1] + 1
    assert (own.y % 1 == 0).all()
    assert own.y.min() >= 0 < own.y.max()


def test_spikes_are_where_they_should_be():
    """Fails where a period or the hour of a spike is wrong."""
    mornings, shows = series("mornings"), series("shows")
    by_hour = mornings.y.reshape(-1, 24).mean(axis=0)
    assert by_hour.argmax() in (7, 8, 9)
    assert by_hour.max() > 10 * by_hour.min()
    assert set(np.flatnonzero(shows.y > 40) % 168) <= {*range(18, 25)}


def test_refusals(tmp_path):
    refused(lambda: series("14-boats"), "'14-boats'", "01-airline")
    with pytest.raises(DataFileNotFoundError, match=r"tsdl13_all\.csv"):
        series("01-airline", tmp_path)
    (tmp_path / "tsdl13").mkdir()
    rows = {"series": ["01-airline"], "x": ["a"], "y": [1], "split_extrap_9010": ["test"]}
    pd.DataFrame(rows).to_csv(tmp_path / VALUES, index=False)
    refused(lambda: series("01-airline", tmp_path), "tsdl13_all.csv")
    pd.DataFrame(rows | {"x": [1.0]}).to_csv(tmp_path / VALUES, index=False)
    refused(lambda: series("01-airline", tmp_path), "no training or no test part")
    pd.DataFrame(1.0, range(12), COLUMNS).to_csv(tmp_path / PUBLISHED, index=False)
    refused(lambda: published_errors(tmp_path), "published_rmse.csv")
