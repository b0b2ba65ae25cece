"""Loaders of the MIMIC-III study (section 10.2.1): plateau pressure of ventilated patients.

The pressure is predicted from other vital signs. :func:`mimic` reads the files of a credentialed
user. :func:`mimic_demo` reads a table made from the open demo of 100 patients, which allows trying
the study on a small scale but isn't the paper's data. Values are in raw units;
:meth:`kem_pymc.data.scaling.Scaling.unit` of the pilot cohort scales them.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from kem_pymc.data.datasets import Split
from kem_pymc.data.datasets.files import Folder, read_csv
from kem_pymc.errors import InputError

from .mimic_files import STAY, find_mimic, read_chart, read_diagnoses, read_infusions
from .split import Seed, split_table


class Item(NamedTuple):
    """A variable of CHARTEVENTS.

    Attributes
    ----------
    ids : tuple of int
        ITEMIDs in the two record systems, CareVue and MetaVision.
    low, high : float
        Valid range, ends included. The paper's ranges were set by a medical expert and aren't
        published; these are plausibility limits from public code for MIMIC-III.
    ventilator : bool
        Whether it is charted for ventilated patients only.
    column : str
        Name of the column in the demo's table.
    """

    ids: tuple[int, ...]
    low: float
    high: float
    ventilator: bool
    column: str


TARGET = "plateau_pressure"
#: The target and 13 features: cmH2O, mL, per minute, per cent, L/min, mmHg, degrees C.
ITEMS = {
    TARGET: Item((543, 224696), 1, 80, True, "plateau_pressure_cmh2o"),
    "peak_insp_pressure": Item((535, 224695), 1, 90, True, "peak_insp_pressure_cmh2o"),
    "peep": Item((506, 220339), 0, 50, True, "peep_set_cmh2o"),
    "tidal_volume_set": Item((683, 224684), 1, 2000, True, "tidal_volume_set_ml"),
    "tidal_volume": Item((682, 224685), 1, 2000, True, "tidal_volume_obs_ml"),
    "resp_rate": Item((618, 220210), 1, 70, False, "resp_rate"),
    "resp_rate_set": Item((619, 224688), 0, 70, True, "resp_rate_set"),
    "fio2": Item((190, 3420, 223835), 20, 100, False, "fio2_pct"),
    "minute_volume": Item((445, 448, 450, 224687), 0, 40, True, "minute_volume_lpm"),
    "mean_airway_pressure": Item((444, 224697), 1, 60, True, "mean_airway_pressure_cmh2o"),
    "heart_rate": Item((211, 220045), 1, 300, False, "heart_rate"),
    "spo2": Item((646, 220277), 1, 100, False, "spo2_pct"),
    "arterial_pressure": Item((52, 456, 220052, 220181), 1, 300, False, "map"),
    "temperature": Item((676, 678, 223761, 223762), 25, 45, False, "temp_c"),
}
VITALS = tuple(name for name in ITEMS if name != TARGET)
#: The paper has 14 features and names 5: peak inspiratory pressure, inspired oxygen, respiratory
#: rate, heart rate and whether the patient is on vasopressors.
MIMIC = (*VITALS, "vasopressors")
#: The demo's table has no drugs. In place of vasopressors, a feature states whether the mean
#: arterial pressure is below 65 mmHg, the limit at which vasopressors are given.
MIMIC_DEMO = (*VITALS, "hypotension")
HYPOTENSION = 65.0

#: Norepinephrine, epinephrine, phenylephrine, vasopressin, dopamine, dobutamine and milrinone.
VASOPRESSORS_CAREVUE = (
    *(30047, 30120, 30044, 30119, 30309, 30127, 30128),
    *(30051, 30043, 30307, 30042, 30306, 30125),
)
VASOPRESSORS_METAVISION = (221906, 221289, 221749, 222315, 221662, 221653, 221986)

#: Columns by which the demo's points can be grouped into users, by value of the argument `by`.
GROUPS = {"unit": "first_careunit", "admission": "admission_type", "stay": "icustay_id"}


class Counts(NamedTuple):
    """Numbers of points left after each of the paper's filters."""

    original: int
    ventilated: int
    valid: int
    with_target: int
    grouped: int


#: The paper's counts. Its selection of patients, its definition of a point (a minute or an hour?)
#: and its valid ranges aren't published, so the counts of a loader may differ.
PAPER_COUNTS = Counts(331532, 39125, 22046, 3321, 975)

type Callback = Callable[[Counts], object] | None


def mimic(
    data_home: Folder = None,
    seed: Seed = 0,
    *,
    batch: int = 10,
    minimum: int = 30,
    chunk: int = 5_000_000,
    callback: Callback = None,
) -> Split:
    """Load the MIMIC-III study: users are diagnoses upon admission, 16 in the paper.

    The target is ``plateau_pressure`` (cmH2O), from the 14 features of ``MIMIC``. A point is a
    minute of an ICU stay in which any variable of ``ITEMS`` was charted; the value of each feature
    is its last one in the 8 hours up to that minute. The paper's filters, as interpreted here:

    1. original points;
    2. on ventilation: a variable of the ventilator was charted in the 8 hours up to that minute
       (extubation and oxygen masks, which are charted as text, are not considered);
    3. within a valid range: every feature is known and in its range, and so is the target if it was
       charted. There is no imputation;
    4. with the target: plateau pressure was charted in that minute;
    5. grouped by diagnosis: diagnoses with fewer than `minimum` points are dropped.

    A diagnosis is the text in ADMISSIONS, in capital letters. The stays of a diagnosis are in
    random order, because dates in MIMIC-III are shifted by patient; the points of each stay are in
    order of time.

    Files, from the folder ``mimic`` of the data home, each compressed (``.csv.gz``) or not:

    - CHARTEVENTS: HADM_ID, ICUSTAY_ID, ITEMID, CHARTTIME, VALUENUM, ERROR;
    - ADMISSIONS: HADM_ID, DIAGNOSIS;
    - INPUTEVENTS_CV: ICUSTAY_ID, CHARTTIME, ITEMID, RATE, STOPPED;
    - INPUTEVENTS_MV: ICUSTAY_ID, STARTTIME, ENDTIME, ITEMID, STATUSDESCRIPTION.

    Parameters
    ----------
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.
    seed : int or Generator
        Seed of the random order of stays, and of the choice of pilot users.
    batch : int
        Number of points per time step.
    minimum : int
        Number of points that a diagnosis needs.
    chunk : int
        Number of rows of a file that are read at a time. The rows of CHARTEVENTS that are kept may
        take a few GB of memory.
    callback : callable, optional
        Called with the :class:`Counts`, for example ``print``. ``PAPER_COUNTS`` are the paper's.

    Raises
    ------
    DataFileNotFoundError
        If a file isn't there.
    InputError
        If a file isn't the expected one, or fewer than 2 diagnoses are left.
    """
    find_mimic(data_home)
    # The largest file is read last, so that errors in the others are reported early.
    diagnoses = read_diagnoses(data_home)
    infusions = read_infusions(data_home, VASOPRESSORS_CAREVUE, VASOPRESSORS_METAVISION, chunk)
    items = {name: item.ids for name, item in ITEMS.items()}
    readings, admission = read_chart(data_home, items, chunk)

    points = np.unique(np.concatenate([reading.keys for reading in readings.values()]))
    original = len(points)
    ventilated = np.zeros(original, dtype=bool)
    for name, item in ITEMS.items():
        if item.ventilator:
            ventilated |= ~np.isnan(readings[name].last(points))
    points = points[ventilated]
    table = pd.DataFrame({name: readings[name].last(points) for name in VITALS})
    table[TARGET] = readings[TARGET].last(points, within=0)
    table["vasopressors"] = infusions.running(points).astype(np.float64)
    table["stay"], table["time"] = points // STAY, points % STAY
    table["task"] = table["stay"].map(admission).map(diagnoses)
    return _filtered(
        table,
        MIMIC,
        original,
        batch=batch,
        minimum=minimum,
        rng=np.random.default_rng(seed),
        callback=callback,
    )


def mimic_demo(
    data_home: Folder = None,
    seed: Seed = 0,
    *,
    by: Literal["unit", "admission", "stay"] = "unit",
    batch: int = 10,
    minimum: int = 30,
    callback: Callback = None,
) -> Split:
    """Load the open demo of MIMIC-III: 836 readings of plateau pressure of 44 ICU stays.

    This isn't the paper's study, and its table has no diagnoses. The target is ``plateau_pressure``
    (cmH2O), from the 14 features of ``MIMIC_DEMO``: those of :func:`mimic`, with ``hypotension`` in
    place of ``vasopressors``. Other variables of the table (arterial blood gases, total PEEP,
    compliance, height) are missing in 3 of 10 readings or more and aren't used. Readings with a
    missing feature are dropped by the filter for valid ranges, as in :func:`mimic`. The table only
    has ventilated patients with a target, so two of the filters remove no points.

    Files ``mimic_demo/mimic3_demo_plateau_matched.csv``, with a row per reading and the last value
    of every other variable in the 8 hours up to it, and ``mimic_demo/mimic3_demo_icustays.csv``.

    Parameters
    ----------
    data_home, seed, batch, minimum, callback
        As for :func:`mimic`.
    by : {"unit", "admission", "stay"}
        Variable by which points are grouped into users. The first care unit gives 4 users with at
        least 30 points, of 123 to 291 points each. The type of admission gives only 1, as nearly
        all were emergencies, which raises an error. The ICU stay gives 9 users of 34 to 120 points;
        each is one patient's stay, not a group of patients as in the paper.

    Raises
    ------
    DataFileNotFoundError
        If a file isn't there.
    InputError
        If a file isn't the expected one, `by` is unknown, or fewer than 2 users are left.
    """
    if by not in GROUPS:
        raise InputError(f"There are no tasks by {by!r}. Use one of {', '.join(GROUPS)}.")
    source = "https://physionet.org/content/mimiciii-demo"
    numbers = ["icustay_id", "hours", *(item.column for item in ITEMS.values())]
    file = "mimic_demo/mimic3_demo_plateau_matched.csv"
    readings = read_csv(file, data_home, source=source, columns=numbers, numbers=numbers)
    file, columns = "mimic_demo/mimic3_demo_icustays.csv", ["icustay_id", GROUPS[by]]
    stays = read_csv(file, data_home, source=source, columns=columns)
    groups = stays.drop_duplicates("icustay_id").set_index("icustay_id", drop=False)[GROUPS[by]]

    table = readings.rename(columns={item.column: name for name, item in ITEMS.items()})
    table = table.rename(columns={"icustay_id": "stay", "hours": "time"})
    table["hypotension"] = (table["arterial_pressure"] < HYPOTENSION).astype(np.float64)
    table["task"] = table["stay"].map(groups)
    original = len(table)
    ventilator = [name for name, item in ITEMS.items() if item.ventilator]
    return _filtered(
        table[table[ventilator].notna().any(axis=1)],
        MIMIC_DEMO,
        original,
        batch=batch,
        minimum=minimum,
        rng=np.random.default_rng(seed),
        callback=callback,
    )


def _filtered(
    table: pd.DataFrame,
    features: tuple[str, ...],
    original: int,
    *,
    batch: int,
    minimum: int,
    rng: np.random.Generator,
    callback: Callback,
) -> Split:
    """Apply the filters that follow the one for ventilation, and make a study of the points left.

    Parameters
    ----------
    table : DataFrame
        Points of ventilated patients, with columns stay, time and task (the user), and those of
        `ITEMS` and the features.
    features : tuple of str
    original : int
        Number of points before the filter for ventilation.
    """
    ventilated = len(table)
    within = [table[name].between(item.low, item.high) for name, item in ITEMS.items()]
    absent = table[TARGET].isna()
    table = table[np.all([*within[1:], within[0] | absent], axis=0)]
    valid = len(table)
    table = table[table[TARGET].notna()]
    with_target = len(table)
    table = table[table.groupby("task")["task"].transform("size") >= minimum]  # NaN has no size
    if callback is not None:
        callback(Counts(original, ventilated, valid, with_target, len(table)))
    stays = np.unique(table["stay"])
    place = pd.Series(rng.permutation(len(stays)), index=stays)
    table = table.assign(place=table["stay"].map(place)).sort_values(["place", "time"])
    options = {"batch": batch, "minimum": minimum, "seed": rng}
    return split_table(table, user="task", features=features, target=TARGET, **options)
