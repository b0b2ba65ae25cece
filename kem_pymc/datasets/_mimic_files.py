"""Reading MIMIC-III: the few items that are wanted, out of tables that don't fit into memory.

Times are whole minutes since 1970, and a (stay, time) pair is one whole number, its *key*: stays
lie further apart than any two times, so keys of one stay are neighbours.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.datasets._home import find
from kem_pymc.datasets._study import UNREADABLE, Folder, check_header, not_csv
from kem_pymc.errors import InputError

SOURCE = "https://physionet.org/content/mimiciii (credentialed users)"
#: More minutes than from 1970 to the last of the shifted dates, after the year 2200.
STAY = 2**28
#: A value holds until this many minutes after it was charted; mimic-code ends ventilation by it.
HOLDS = 8 * 60

CHART = ("HADM_ID", "ICUSTAY_ID", "ITEMID", "CHARTTIME", "VALUENUM", "ERROR")
CAREVUE = ("ICUSTAY_ID", "CHARTTIME", "ITEMID", "RATE", "STOPPED")
METAVISION = ("ICUSTAY_ID", "STARTTIME", "ENDTIME", "ITEMID", "STATUSDESCRIPTION")
ADMISSIONS = ("HADM_ID", "DIAGNOSIS")

FILES = ("ADMISSIONS", "INPUTEVENTS_MV", "INPUTEVENTS_CV", "CHARTEVENTS")


class Readings(NamedTuple):
    """What was charted of one variable; keys increase strictly.

    Attributes
    ----------
    keys : ndarray of int64, shape (n,)
    values : ndarray, shape (n,)
    """

    keys: np.ndarray
    values: np.ndarray

    def last(self, at: np.ndarray, within: int = HOLDS) -> np.ndarray:
        """Return the last value up to each key, NaN if it is older than `within` minutes.

        Parameters
        ----------
        at : ndarray of int64, shape (m,)
        within : int
            0 asks for values at the very minute.
        """
        if not len(self.keys):
            return np.full(len(at), np.nan)
        position = np.searchsorted(self.keys, at, side="right") - 1
        known = (position >= 0) & (at - self.keys[position] <= within)
        return np.where(known, self.values[position], np.nan)


class Infusions(NamedTuple):
    """When drugs ran: keys of starts and ends, each sorted; an end is of the same stay."""

    starts: np.ndarray
    ends: np.ndarray

    def running(self, at: np.ndarray) -> np.ndarray:
        """Return whether any ran at each key, ends included."""
        begun = np.searchsorted(self.starts, at, side="right")
        over = np.searchsorted(self.ends, at, side="left")
        return begun > over


def read_chart(
    data_home: Folder, items: Mapping[str, Collection[int]], chunk: int
) -> tuple[dict[str, Readings], pd.Series]:
    """Read CHARTEVENTS.

    Rows marked as errors and rows without a number or an ICU stay are skipped. FiO2 becomes per
    cent and temperature degrees C; what was charted several times in a minute is averaged.

    Parameters
    ----------
    data_home : path, optional
    items : mapping of str to ITEMIDs
    chunk : int
        Rows read at a time.

    Returns
    -------
    dict of Readings
        By name of the variable.
    Series
        Admission (HADM_ID) by ICU stay.
    """
    kept: dict[str, list[pd.DataFrame]] = {name: [] for name in items}
    admissions = []
    wanted = {item for ids in items.values() for item in ids}
    for rows in _chunks("CHARTEVENTS", data_home, CHART, wanted, chunk):
        value = _number(rows["VALUENUM"], "CHARTEVENTS")
        good = value.notna() & (_number(rows["ERROR"], "CHARTEVENTS") != 1)
        item = rows.loc[good, "ITEMID"].to_numpy()
        found = pd.DataFrame(
            {
                "key": _keys(rows.loc[good], "CHARTTIME", "CHARTEVENTS"),
                "value": _in_one_unit(item, value[good].to_numpy(np.float64)),
            }
        )
        for name, ids in items.items():
            kept[name].append(found[np.isin(item, list(ids))])
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
    """Read ADMISSIONS: the diagnosis upon admission, in capitals, by admission (HADM_ID)."""
    chunks = [*_chunks("ADMISSIONS", data_home, ADMISSIONS, None, 1_000_000)]
    table = pd.concat(chunks or [pd.DataFrame(columns=list(ADMISSIONS))])
    text = table["DIAGNOSIS"].dropna().astype(str).str.strip().str.upper()
    return text[text != ""].groupby(table["HADM_ID"].astype("int64")).first()


def read_infusions(
    data_home: Folder, carevue: Collection[int], metavision: Collection[int], chunk: int
) -> Infusions:
    """Read INPUTEVENTS_CV and INPUTEVENTS_MV: when any of these drugs ran.

    MetaVision has starts and ends. CareVue has rates: a positive one that isn't marked as stopped
    runs until the drug's next record in that stay, at most 8 hours.
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
    """Yield rows of these items with an ICU stay, columns in capitals, packed file or not."""
    file = _find(name, data_home)
    spelling: dict[str, str] = {}
    try:
        header = pd.read_csv(file, nrows=0).columns
        # The open demo has its columns in small letters.
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
    """Return the study's files.

    Raises
    ------
    DataFileNotFoundError
        If one isn't there.
    """
    return [_find(name, data_home) for name in FILES]


def _find(name: str, data_home: Folder) -> Path:
    for ending in ("csv", "csv.gz"):
        try:
            return find(f"mimic/{name}.{ending}", data_home, source=SOURCE)
        except FileNotFoundError as missing:
            error = missing
    raise error


def _keys(rows: pd.DataFrame, time: str, name: str) -> np.ndarray:
    try:
        minutes = pd.to_datetime(rows[time], format="%Y-%m-%d %H:%M:%S").to_numpy("datetime64[m]")
    except ValueError as error:
        raise InputError(
            f"Column {time} of {name} isn't all times like 2101-10-20 19:08:00. "
            "Give the file as MIMIC-III has it."
        ) from error
    if np.isnat(minutes).any():
        raise InputError(
            f"Column {time} of {name} has a missing time. Give the file as MIMIC-III has it."
        )
    return rows["ICUSTAY_ID"].to_numpy(np.int64) * STAY + minutes.astype(np.int64)


def _number(column: pd.Series, name: str) -> pd.Series:
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Column {column.name} of {name} isn't all numbers. Give the file as MIMIC-III has it."
        ) from error


def _in_one_unit(item: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return FiO2 in per cent, whose item 190 is a fraction, and temperature in degrees C."""
    fraction = np.isin(item, (190, 223835)) & (value <= 1)
    fahrenheit = np.isin(item, (678, 223761))
    value = np.where(fraction, 100 * value, value)
    return np.where(fahrenheit, (value - 32) / 1.8, value)
