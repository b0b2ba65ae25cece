"""Readers of selected items of MIMIC-III from tables that don't fit into memory.

Times are whole minutes since 1970. A pair (stay, time) is represented by one integer, its *key*,
stay * `STAY` + time. `STAY` is larger than any time, so sorted keys are grouped by stay.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.data.datasets.files import UNREADABLE, Folder, check_header, find_file, not_csv
from kem_pymc.errors import InputError

SOURCE = "https://physionet.org/content/mimiciii (credentialed users)"
#: Factor of stays in keys: more minutes than from 1970 to the last shifted date, after 2200.
STAY = 2**28
#: Minutes for which a charted value is valid; mimic-code uses the same limit to end ventilation.
HOLDS = 8 * 60

CHART = ("HADM_ID", "ICUSTAY_ID", "ITEMID", "CHARTTIME", "VALUENUM", "ERROR")
CAREVUE = ("ICUSTAY_ID", "CHARTTIME", "ITEMID", "RATE", "STOPPED")
METAVISION = ("ICUSTAY_ID", "STARTTIME", "ENDTIME", "ITEMID", "STATUSDESCRIPTION")
ADMISSIONS = ("HADM_ID", "DIAGNOSIS")

FILES = ("ADMISSIONS", "INPUTEVENTS_MV", "INPUTEVENTS_CV", "CHARTEVENTS")


class Readings(NamedTuple):
    """The charted values of one variable.

    Attributes
    ----------
    keys : ndarray of int64, shape (n,)
        Keys of stays and times, strictly increasing.
    values : ndarray, shape (n,)
    """

    keys: np.ndarray
    values: np.ndarray

    def last(self, at: np.ndarray, within: int = HOLDS) -> np.ndarray:
        """Return the last value up to each key, NaN if it is older than `within` minutes.

        Parameters
        ----------
        at : ndarray of int64, shape (m,)
            Keys.
        within : int
            Largest age of a value, in minutes; 0 only returns values charted in the same minute.

        Returns
        -------
        ndarray, shape (m,)
        """
        if not len(self.keys):
            return np.full(len(at), np.nan)
        position = np.searchsorted(self.keys, at, side="right") - 1
        recent = (position >= 0) & (at - self.keys[position] <= within)
        return np.where(recent, self.values[position], np.nan)


class Infusions(NamedTuple):
    """Times at which drugs were infused.

    Attributes
    ----------
    starts, ends : ndarray of int64, shape (n,)
        Keys of the starts and of the ends of infusions, each sorted. An infusion starts and ends in
        the same stay.
    """

    starts: np.ndarray
    ends: np.ndarray

    def running(self, at: np.ndarray) -> np.ndarray:
        """Return whether any infusion was running at each key, starts and ends included."""
        begun = np.searchsorted(self.starts, at, side="right")
        over = np.searchsorted(self.ends, at, side="left")
        return begun > over


def read_chart(
    data_home: Folder, items: Mapping[str, Collection[int]], chunk: int
) -> tuple[dict[str, Readings], pd.Series]:
    """Read the values of some variables from CHARTEVENTS.

    Rows marked as errors and rows without a number or an ICU stay are skipped. FiO2 is converted to
    per cent and temperature to degrees C. Values charted in the same minute are averaged.

    Parameters
    ----------
    data_home : path, optional
    items : mapping of str to ITEMIDs
        ITEMIDs of each variable, by its name.
    chunk : int
        Number of rows read at a time.

    Returns
    -------
    dict of Readings
        Values, by name of the variable.
    Series
        Admission (HADM_ID), by ICU stay.
    """
    kept: dict[str, list[pd.DataFrame]] = {name: [] for name in items}
    admissions = []
    wanted = {item for ids in items.values() for item in ids}
    for rows in _chunks("CHARTEVENTS", data_home, CHART, wanted, chunk):
        value = _number(rows["VALUENUM"], "CHARTEVENTS")
        good = value.notna() & (_number(rows["ERROR"], "CHARTEVENTS") != 1)
        item = rows.loc[good, "ITEMID"].to_numpy()
        measured = pd.DataFrame(
            {
                "key": _keys(rows.loc[good], "CHARTTIME", "CHARTEVENTS"),
                "value": _in_one_unit(item, value[good].to_numpy(np.float64)),
            }
        )
        for name, ids in items.items():
            kept[name].append(measured[np.isin(item, list(ids))])
        stays = rows.loc[good, ["ICUSTAY_ID", "HADM_ID"]].dropna()
        admissions.append(stays.drop_duplicates("ICUSTAY_ID"))
    readings = {}
    for name in items:
        if not kept[name]:
            readings[name] = Readings(np.zeros(0, np.int64), np.zeros(0))
            continue
        mean = pd.concat(kept.pop(name)).groupby("key")["value"].mean()
        readings[name] = Readings(mean.index.to_numpy(np.int64), mean.to_numpy(np.float64))
    if not admissions:
        return readings, pd.Series(dtype="int64")
    of = pd.concat(admissions).drop_duplicates("ICUSTAY_ID").astype("int64")
    return readings, of.set_index("ICUSTAY_ID")["HADM_ID"]


def read_diagnoses(data_home: Folder) -> pd.Series:
    """Read the diagnosis upon admission from ADMISSIONS, in capital letters, by HADM_ID."""
    chunks = [*_chunks("ADMISSIONS", data_home, ADMISSIONS, None, 1_000_000)]
    table = pd.concat(chunks or [pd.DataFrame(columns=list(ADMISSIONS))])
    text = table["DIAGNOSIS"].dropna().astype(str).str.strip().str.upper()
    return text[text != ""].groupby(table["HADM_ID"].astype("int64")).first()


def read_infusions(
    data_home: Folder, carevue: Collection[int], metavision: Collection[int], chunk: int
) -> Infusions:
    """Read the times of infusions of some drugs from INPUTEVENTS_CV and INPUTEVENTS_MV.

    MetaVision has starts and ends. CareVue has rates: an infusion with a positive rate that isn't
    marked as stopped lasts until the drug's next record in that stay, at most 8 hours.

    Parameters
    ----------
    data_home : path, optional
    carevue, metavision : collection of int
        ITEMIDs of the drugs in each record system.
    chunk : int
        Number of rows read at a time.
    """
    starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    name = "INPUTEVENTS_MV"
    for rows in _chunks(name, data_home, METAVISION, metavision, chunk):
        valid = rows[rows["STATUSDESCRIPTION"] != "Rewritten"]
        begin, end = _keys(valid, "STARTTIME", name), _keys(valid, "ENDTIME", name)
        starts.append(begin[end >= begin])
        ends.append(end[end >= begin])
    name = "INPUTEVENTS_CV"
    table = pd.concat([*_chunks(name, data_home, CAREVUE, carevue, chunk)] or [pd.DataFrame()])
    if len(table):
        table = table.assign(key=_keys(table, "CHARTTIME", name)).sort_values(["ITEMID", "key"])
        following = table.groupby(["ITEMID", "ICUSTAY_ID"])["key"].shift(-1)
        stopped = table["STOPPED"].fillna("").astype(str)
        runs = (_number(table["RATE"], name) > 0) & ~stopped.str.startswith(("Stopped", "D/C"))
        latest = table["key"] + HOLDS
        until = following.fillna(latest).clip(upper=latest).astype("int64")
        starts.append(table.loc[runs, "key"].to_numpy())
        ends.append(until[runs].to_numpy())
    return Infusions(np.sort(np.concatenate(starts)), np.sort(np.concatenate(ends)))


def _chunks(
    name: str, data_home: Folder, columns: Sequence[str], items: Collection[int] | None, chunk: int
) -> Iterator[pd.DataFrame]:
    """Yield a table's rows in chunks, with the names of columns in capital letters.

    If `items` are given, only rows of these items that have an ICU stay are included.
    """
    file = _find(name, data_home)
    spelling: dict[str, str] = {}
    try:
        header = pd.read_csv(file, nrows=0).columns
        # The columns of the open demo have names in lower case.
        spelling = {column: column.upper() for column in header}
        check_header(file, columns, list(spelling.values()), SOURCE)
        chosen = [column for column in header if column.upper() in columns]
        options = {"usecols": chosen, "chunksize": chunk, "low_memory": False}
        with pd.read_csv(file, **options) as reader:
            for rows in reader:
                rows = rows.rename(columns=spelling)
                if items is not None:
                    rows = rows[rows["ITEMID"].isin(items) & rows["ICUSTAY_ID"].notna()]
                if len(rows):
                    yield rows
    except InputError:
        raise
    except UNREADABLE as error:
        raise not_csv(file) from error


def find_mimic(data_home: Folder) -> list[Path]:
    """Return the paths of the study's files.

    Raises
    ------
    DataFileNotFoundError
        If a file isn't there.
    """
    return [_find(name, data_home) for name in FILES]


def _find(name: str, data_home: Folder) -> Path:
    for ending in ("csv", "csv.gz"):
        try:
            return find_file(f"mimic/{name}.{ending}", data_home, source=SOURCE)
        except FileNotFoundError as missing:
            error = missing
    raise error


def _keys(rows: pd.DataFrame, time: str, name: str) -> np.ndarray:
    try:
        minutes = pd.to_datetime(rows[time], format="%Y-%m-%d %H:%M:%S").to_numpy("datetime64[m]")
    except ValueError as error:
        raise InputError(
            f"Column {time} of {name} has values that aren't times like 2101-10-20 19:08:00. "
            "Give the original MIMIC-III file."
        ) from error
    if np.isnat(minutes).any():
        raise InputError(
            f"Column {time} of {name} has a missing time. Give the original MIMIC-III file."
        )
    return rows["ICUSTAY_ID"].to_numpy(np.int64) * STAY + minutes.astype(np.int64)


def _number(column: pd.Series, name: str) -> pd.Series:
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Column {column.name} of {name} has values that aren't numbers. "
            "Give the original MIMIC-III file."
        ) from error


def _in_one_unit(item: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return values with FiO2 converted to per cent and temperature to degrees C.

    FiO2 (items 190 and 223835) up to 1 is a fraction; temperatures of items 678 and 223761 are in
    degrees F.
    """
    fraction = np.isin(item, (190, 223835)) & (value <= 1)
    fahrenheit = np.isin(item, (678, 223761))
    value = np.where(fraction, 100 * value, value)
    return np.where(fahrenheit, (value - 32) / 1.8, value)
