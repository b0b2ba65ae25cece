"""Registries: outcomes of people who enter over the years, in windows that overlap.

Sequences of data sets of such windows are the subject of Zhang et al. (2019, section 3.2).
Their registry (UNOS) isn't public. A simulated one stands in for it, in which both who enters
and what their outcome depends on drift from year to year; a table of one's own can be read.
"""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from kem_pymc.errors import InputError

#: Smallest width of a window in years.
WIDTH = 4

#: Years of a simulated registry, and number of people who enter in each of them.
YEARS, PER_YEAR = range(1985, 2005), 150

#: Numbers of binary features, of continuous ones, and of counts of a simulated registry.
BINARY, CONTINUOUS, COUNTS = 6, 4, 2

#: Standard deviation of coefficients, and of what is added to them every year; the same for the
#: logits of the frequencies of binary features.
COEFFICIENTS, DRIFT = 0.7, 0.15

#: Share of people with the outcome in the first year, about.
SHARE = 0.3

#: Largest number of values of a column of text, each of which becomes a feature.
VALUES = 20


@dataclass(frozen=True, eq=False)
class Registry:
    """People with features, a binary outcome, and the year in which they entered.

    Attributes
    ----------
    features : DataFrame
        A row for each person; columns are numbers.
    outcome : ndarray, shape (n,)
        0 or 1.
    year : ndarray, shape (n,)
        Integers.
    """

    features: pd.DataFrame
    outcome: np.ndarray
    year: np.ndarray

    def windows(self, overlap: int, count: int = 5) -> dict[str, tuple[pd.DataFrame, np.ndarray]]:
        """Return data sets that overlap by a number of years, from the first year on.

        Windows have four years, or one more than the overlap (tables 1 to 3).

        Parameters
        ----------
        overlap : int
        count : int
            Number of data sets.

        Returns
        -------
        dict of str to (DataFrame, ndarray)
            Features and outcomes by the years, such as "1985-1988".

        Raises
        ------
        InputError
            If the overlap is negative, there are too few years, or all outcomes of a window are
            the same.
        """
        if overlap < 0 or count < 1:
            raise InputError(
                f"{count} windows can't overlap by {overlap} years. Give a positive number of "
                "windows, and 0 years or more."
            )
        width = max(WIDTH, overlap + 1)
        first, last = int(self.year.min()), int(self.year.max())
        starts = [first + i * (width - overlap) for i in range(count)]
        if starts[-1] + width - 1 > last:
            raise InputError(
                f"{count} windows of {width} years that overlap by {overlap} end in "
                f"{starts[-1] + width - 1}, but the registry ends in {last}. Use fewer windows or "
                "a larger overlap."
            )
        windows = {}
        for start in starts:
            inside = (self.year >= start) & (self.year < start + width)
            name = f"{start}-{start + width - 1}"
            if len(np.unique(self.outcome[inside])) < 2:
                raise InputError(
                    f"The outcomes of {name} are all the same. Use a longer window, or leave out "
                    "years without both outcomes."
                )
            windows[name] = self.features[inside], self.outcome[inside]
        return windows


def simulated_registry(rng: np.random.Generator, per_year: int = PER_YEAR) -> Registry:
    """Return a registry in which features and their effects drift.

    The log odds of the outcome are linear in the features, but for the square of the first
    continuous one and for an interaction. Coefficients and frequencies of binary features follow
    random walks over the years.

    Parameters
    ----------
    rng : numpy.random.Generator
    per_year : int
        Number of people who enter in a year.
    """
    total = BINARY + CONTINUOUS + COUNTS
    effects = rng.normal(0, COEFFICIENTS, total + 2)
    frequencies = rng.normal(-0.5, 1.0, BINARY)
    parts, outcomes, intercept = [], [], 0.0
    for year in YEARS:
        if year > YEARS[0]:
            effects = effects + rng.normal(0, DRIFT, len(effects))
            frequencies = frequencies + rng.normal(0, DRIFT, BINARY)
        x = np.column_stack(
            [
                rng.random((per_year, BINARY)) < expit(frequencies),
                rng.normal(size=(per_year, CONTINUOUS)),
                rng.poisson(1.0, (per_year, COUNTS)),
            ]
        ).astype(float)
        curved = np.column_stack([x[:, BINARY] ** 2 - 1, x[:, 0] * x[:, BINARY + 1]])
        log_odds = np.column_stack([x, curved]) @ effects
        if year == YEARS[0]:
            intercept = logit(SHARE) - float(np.median(log_odds))
        outcomes.append(rng.random(per_year) < expit(intercept + log_odds))
        parts.append(x)
    names = [
        *(f"history_{i + 1}" for i in range(BINARY)),
        *(f"measure_{i + 1}" for i in range(CONTINUOUS)),
        *(f"count_{i + 1}" for i in range(COUNTS)),
    ]
    return Registry(
        pd.DataFrame(np.concatenate(parts), columns=names),
        np.concatenate(outcomes).astype(int),
        np.repeat(YEARS, per_year),
    )


def read_registry(path: str | PathLike[str], outcome: str, year: str) -> Registry:
    """Return a registry from a CSV or Parquet file; the other columns are the features.

    Rows with missing values are left out, as in the paper. A column of text or of categories
    becomes a feature of zeros and ones for each of its values.

    Parameters
    ----------
    path : path
    outcome : str
        Column of the outcome, which has two values; the larger one counts as the outcome.
    year : str
        Column of the year in which a person entered, or of the date.

    Raises
    ------
    InputError
        If the file can't be read, a column is missing or has values of another kind, or no row is
        complete.
    """
    table = _table(Path(path))
    missing = [name for name in (outcome, year) if name not in table]
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(missing)}. It has {', '.join(map(str, table))}."
        )
    table = table.dropna()
    values = np.sort(table[outcome].unique())
    if len(values) != 2:
        raise InputError(
            f"The outcome {outcome} in {path} has {len(values)} different values in complete rows. "
            "Give a column with two."
        )
    features = table.drop(columns=[outcome, year])
    texts = [name for name in features if not pd.api.types.is_numeric_dtype(features[name])]
    many = [name for name in texts if features[name].nunique() > VALUES]
    if many:
        raise InputError(
            f"{', '.join(map(str, many))} in {path} have more than {VALUES} values that aren't "
            "numbers. Leave these columns out, or group their values."
        )
    features = pd.get_dummies(features, columns=texts).astype(float)
    if features.empty or not np.isfinite(features.to_numpy()).all():
        raise InputError(f"{path} has no features, or infinite ones. Give finite numbers.")
    return Registry(
        features.reset_index(drop=True),
        (table[outcome] == values[1]).to_numpy().astype(int),
        _years(table[year], f"{year} in {path}"),
    )


def _table(path: Path) -> pd.DataFrame:
    reader = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
    try:
        return reader(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {error}. Give a CSV or Parquet file.") from None


def _years(column: pd.Series, name: str) -> np.ndarray:
    """Return years of integers or dates."""
    if not pd.api.types.is_numeric_dtype(column):
        try:
            return pd.to_datetime(column, format="ISO8601").dt.year.to_numpy()
        except (ValueError, TypeError):
            raise InputError(
                f"{name} has values that aren't dates. Give years, or dates such as 2004-03-31."
            ) from None
    numbers = column.to_numpy().astype(float)
    if not (np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()):
        raise InputError(
            f"{name} has values that aren't years. Give years, or dates such as 2004-03-31."
        )
    return numbers.astype(int)
