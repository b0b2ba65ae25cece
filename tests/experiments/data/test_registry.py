"""Registries: windows as in the paper's tables, drift, and tables of users."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from experiments.data.registry import YEARS, Registry, read_registry, simulated_registry
from kem_pymc.errors import InputError


@pytest.fixture(scope="module")
def registry():
    return simulated_registry(np.random.default_rng(0), per_year=100)


@pytest.mark.parametrize(
    ("overlap", "names"),
    [
        (1, "1985-1988 1988-1991 1991-1994 1994-1997 1997-2000"),
        (2, "1985-1988 1987-1990 1989-1992 1991-1994 1993-1996"),
        (3, "1985-1988 1986-1989 1987-1990 1988-1991 1989-1992"),
        (4, "1985-1989 1986-1990 1987-1991 1988-1992 1989-1993"),
        (5, "1985-1990 1986-1991 1987-1992 1988-1993 1989-1994"),
    ],
)
def test_windows_of_table_1(registry, overlap, names):
    windows = registry.windows(overlap)
    assert list(windows) == names.split()
    for name, (features, outcome) in windows.items():
        first, last = map(int, name.split("-"))
        assert len(features) == len(outcome) == 100 * (last - first + 1)


def test_effects_drift(registry):
    """A logistic regression of the first years is worse on the last ones than one of these."""
    assert 0.15 < registry.outcome.mean() < 0.6
    assert set(registry.year) == set(YEARS)
    big = simulated_registry(np.random.default_rng(1), per_year=2000)

    def fitted(years):
        own = np.isin(big.year, years)
        x = np.column_stack([np.ones(own.sum()), big.features[own]])
        beta = np.zeros(x.shape[1])
        for _ in range(25):
            p = expit(x @ beta)
            hessian = x.T @ (x * (p * (1 - p))[:, None])
            beta += np.linalg.solve(hessian, x.T @ (big.outcome[own] - p))
        return beta, np.sqrt(np.diag(np.linalg.inv(hessian)))

    first, sd = fitted([1985])
    again, _ = fitted([1986])
    last, _ = fitted([2004])
    assert np.abs((last - first) / sd).max() > 5
    assert np.abs(last - first).mean() > 1.5 * np.abs(again - first).mean()


def test_no_window_without_both_outcomes_or_beyond_the_end():
    year = np.repeat(np.arange(2000, 2010), 3)
    features = pd.DataFrame({"a": np.arange(30.0)})
    same = Registry(features, (year > 2005).astype(int), year)
    with pytest.raises(InputError, match="2000-2003 are all the same"):
        same.windows(3)
    with pytest.raises(InputError, match="end in 2015, but the registry ends in 2009"):
        same.windows(1)
    with pytest.raises(InputError, match="0 years or more"):
        same.windows(-1)


TABLE = pd.DataFrame(
    {
        "died": ["yes", "no", "no", "yes", "no"],
        "entered": ["2001-03-01", "2002-01-01", "2003-12-31", "2001-05-05", "2004-02-02"],
        "age": [61.0, 45.0, np.nan, 70.0, 52.0],
        "group": ["a", "b", "b", "a", "c"],
    }
)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_reads_a_users_table(tmp_path, kind):
    path = tmp_path / f"registry.{kind}"
    TABLE.to_csv(path, index=False) if kind == "csv" else TABLE.to_parquet(path)
    found = read_registry(path, outcome="died", year="entered")
    assert found.outcome.tolist() == [1, 0, 1, 0]
    assert found.year.tolist() == [2001, 2002, 2001, 2004]
    assert list(found.features) == ["age", "group_a", "group_b", "group_c"]
    assert found.features["group_a"].tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"died": "lived"}, "has no column died. It has lived"),
        ({"entered": ["x", "y", "z", "u", "v"]}, "aren't dates"),
        ({"entered": [2001.5, 2002, 2003, 2001, 2004]}, "aren't years"),
        ({"died": [1, 2, 3, 4, 5]}, "4 different values"),
        ({"age": [np.nan] * 5}, "0 different values"),
        ({"age": [np.inf, 1, 2, 3, 4]}, "infinite"),
    ],
)
def test_refuses_other_tables(tmp_path, change, message):
    table = TABLE.copy()
    for name, values in change.items():
        table = table.rename(columns={name: values}) if isinstance(values, str) else table
        table = table if isinstance(values, str) else table.assign(**{name: values})
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=message):
        read_registry(tmp_path / "t.csv", "died", "entered")


def test_refuses_a_missing_file_and_text_with_many_values(tmp_path):
    with pytest.raises(InputError, match=r"none.csv can't be read"):
        read_registry(tmp_path / "none.csv", "died", "entered")
    table = pd.DataFrame({"died": [0, 1] * 15, "year": 2001, "id": [f"u{i}" for i in range(30)]})
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"id in .* more than 20 values"):
        read_registry(tmp_path / "t.csv", "died", "year")
