import gzip
import re

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import PAPER_COUNTS, Counts, DataFileNotFoundError, mimic
from kem_pymc.data.datasets._mimic_files import HOLDS, STAY, Infusions, Readings
from kem_pymc.data.datasets.mimic import ITEMS, MIMIC, TARGET, VITALS
from kem_pymc.errors import InputError

#: A patient's vitals, in the unit of the first ITEMID of each.
VITAL = {
    "peak_insp_pressure": 25,
    "peep": 5,
    "tidal_volume_set": 500,
    "tidal_volume": 480,
    "resp_rate": 18,
    "resp_rate_set": 14,
    "fio2": 0.5,
    "minute_volume": 8,
    "mean_airway_pressure": 10,
    "heart_rate": 80,
    "spo2": 97,
    "arterial_pressure": 75,
    "temperature": 37,
}
#: Hours of each ICU stay at which these were charted.
STAYS = {
    # The first point has no target; the others' vitals are its.
    1: {0: VITAL, 1: {TARGET: 21}, 2: {TARGET: 22}, 3: {TARGET: 23}},
    # At 9 hours vitals are too old, at 10 as well; at 30 nobody knows of a ventilator.
    2: {0: VITAL | {TARGET: 20}, 9: {TARGET: 24}, 10: {"heart_rate": 85}, 30: {"heart_rate": 70}},
    # Outside the valid range: the heart rate at first, then the target.
    3: {
        0: VITAL | {"heart_rate": 999, TARGET: 30},
        1: {"heart_rate": 90, TARGET: 31},
        2: {TARGET: 500},
        3: {TARGET: 33},
    },
    # Alone with its diagnosis.
    4: {0: VITAL | {TARGET: 40}},
}
COUNTS = Counts(original=13, ventilated=12, valid=8, with_target=7, grouped=6)
DIAGNOSES = {1: "SEPSIS", 2: " Sepsis ", 3: "PNEUMONIA", 4: "TUMOR"}


def when(hours):
    return (pd.Timestamp("2101-10-20 19:08:30") + pd.Timedelta(hours=hours)).strftime(
        "%Y-%m-%d %H:%M:%S"
    )


def tables():
    chart = [
        {
            "ROW_ID": 1,
            "HADM_ID": 10 * stay,
            "ICUSTAY_ID": stay,
            "ITEMID": ITEMS[name].ids[0],
            "CHARTTIME": when(hour),
            "VALUE": str(value),
            "VALUENUM": value,
            "ERROR": None,
        }
        for stay, hours in STAYS.items()
        for hour, values in hours.items()
        for name, value in values.items()
    ]
    good = chart[0] | {"CHARTTIME": when(50)}
    chart += [
        good | {"ERROR": 1},
        good | {"VALUENUM": None},
        good | {"ICUSTAY_ID": None},
        good | {"ITEMID": 12345},
    ]
    return {
        "CHARTEVENTS": pd.DataFrame(chart),
        "ADMISSIONS": pd.DataFrame(
            {"HADM_ID": [10, 20, 30, 40], "DIAGNOSIS": list(DIAGNOSES.values()), "AGE": 50}
        ),
        "INPUTEVENTS_CV": pd.DataFrame(
            [
                (1, when(0.5), 30047, 0.1, ""),
                (1, when(1.5), 30047, 0.0, ""),
                (2, when(-1), 30120, 0.2, "D/C'd"),
                (1, when(2), 999, 0.1, ""),
            ],
            columns=["ICUSTAY_ID", "CHARTTIME", "ITEMID", "RATE", "STOPPED"],
        ),
        "INPUTEVENTS_MV": pd.DataFrame(
            [
                (3, when(0.5), when(1.5), 221906, "FinishedRunning"),
                (3, when(2.5), when(4), 221906, "Rewritten"),
            ],
            columns=["ICUSTAY_ID", "STARTTIME", "ENDTIME", "ITEMID", "STATUSDESCRIPTION"],
        ),
    }


def write(home, found, packed=False):
    (home / "mimic").mkdir(exist_ok=True)
    for name, table in found.items():
        table.to_csv(home / "mimic" / f"{name}.csv{'.gz' if packed else ''}", index=False)


@pytest.fixture
def home(tmp_path):
    write(tmp_path, tables())
    return tmp_path


def load(home, **options):
    counts = []
    study = mimic(home, batch=2, minimum=2, callback=counts.append, **options)
    return study, counts[0]


def points(study):
    """Rows by target: targets are distinct."""
    return pd.concat([cohort.to_frame() for cohort in study]).set_index(TARGET).sort_index()


class TestOfficialFiles:
    def test_counts_after_each_filter(self, home):
        study, counts = load(home)
        assert counts == COUNTS
        assert {*study.pilot.users, *study.test.users} == {"SEPSIS", "PNEUMONIA"}
        assert len(study.pilot) == len(study.test) == 1
        assert points(study).index.tolist() == [20, 21, 22, 23, 31, 33]

    def test_the_papers_counts_are_at_hand(self):
        assert PAPER_COUNTS == (331532, 39125, 22046, 3321, 975)

    def test_values(self, home):
        found = points(load(home)[0])
        assert tuple(found.columns[2:]) == MIMIC
        expected = VITAL | {"fio2": 50}
        for name in VITALS:
            assert found.loc[22, name] == expected[name], name
        assert found["heart_rate"].tolist() == [80, 80, 80, 80, 90, 90]

    def test_vasopressors(self, home):
        assert points(load(home)[0])["vasopressors"].tolist() == [0, 1, 0, 0, 1, 0]

    def test_batches_and_order(self, home):
        for seed in range(4):
            study, _ = load(home, seed=seed)
            for cohort in study:
                for user, y, ends in zip(cohort.users, cohort.targets, cohort.ends, strict=True):
                    assert ends.tolist() == ([2, 4] if user == "SEPSIS" else [2])
                    # Stays stay whole, in any order; within one, time increases.
                    allowed = (
                        [[21, 22, 23, 20], [20, 21, 22, 23]] if user == "SEPSIS" else [[31, 33]]
                    )
                    assert y.tolist() in allowed

    def test_the_seed_decides(self, home):
        pilots = {load(home, seed=seed)[0].pilot.users for seed in range(8)}
        assert len(pilots) == 2
        one, same = load(home, seed=3)[0], load(home, seed=np.random.default_rng(3))[0]
        assert one.pilot.users == same.pilot.users

    @pytest.mark.parametrize("chunk", [1, 7, 1000])
    def test_packed_and_in_chunks(self, home, tmp_path_factory, chunk):
        packed = tmp_path_factory.mktemp("packed")
        write(packed, tables(), packed=True)
        study, counts = load(packed, chunk=chunk)
        assert counts == COUNTS
        pd.testing.assert_frame_equal(points(study), points(load(home)[0]))

    def test_small_letters(self, home, tmp_path_factory):
        small = tmp_path_factory.mktemp("small")
        write(small, {name: table.rename(columns=str.lower) for name, table in tables().items()})
        assert load(small)[1] == COUNTS

    def test_other_items_units(self, home):
        found = tables()
        chart = found["CHARTEVENTS"]
        chart.loc[chart["ITEMID"] == 190, ["ITEMID", "VALUENUM"]] = (223835, 50)
        chart.loc[chart["ITEMID"] == 676, ["ITEMID", "VALUENUM"]] = (678, 98.6)
        write(home, found)
        row = points(load(home)[0]).loc[21]
        assert row["fio2"] == 50
        assert row["temperature"] == pytest.approx(37)

    def test_readings_of_one_minute_are_averaged(self, home):
        found = tables()
        extra = found["CHARTEVENTS"].query("ICUSTAY_ID == 1 and ITEMID == 52")
        found["CHARTEVENTS"] = pd.concat(
            [found["CHARTEVENTS"], extra.assign(ITEMID=456, VALUENUM=85)]
        )
        write(home, found)
        assert points(load(home)[0]).loc[21, "arterial_pressure"] == 80

    def test_too_few_diagnoses_are_refused(self, home):
        with pytest.raises(InputError) as caught:
            mimic(home)
        assert two_sentences(caught)

    @pytest.mark.parametrize("name", tables())
    def test_missing_files_are_reported(self, home, name):
        (home / "mimic" / f"{name}.csv").unlink()
        with pytest.raises(DataFileNotFoundError, match=name):
            mimic(home)

    def test_missing_files_are_reported_before_any_is_read(self, home):
        (home / "mimic/CHARTEVENTS.csv").unlink()
        (home / "mimic/ADMISSIONS.csv").write_bytes(b"no table")
        with pytest.raises(DataFileNotFoundError, match="CHARTEVENTS"):
            mimic(home)

    @pytest.mark.parametrize(
        ("name", "column"),
        [
            *(("CHARTEVENTS", c) for c in ("HADM_ID", "ICUSTAY_ID", "ITEMID", "VALUENUM", "ERROR")),
            *(("ADMISSIONS", c) for c in ("HADM_ID", "DIAGNOSIS")),
            *(("INPUTEVENTS_CV", c) for c in ("RATE", "STOPPED")),
            *(("INPUTEVENTS_MV", c) for c in ("ENDTIME", "STATUSDESCRIPTION")),
        ],
    )
    def test_missing_columns_are_refused(self, home, name, column):
        found = tables()
        found[name] = found[name].drop(columns=column)
        write(home, found)
        with pytest.raises(InputError, match=f"{name}.* has no column {column}") as caught:
            mimic(home)
        assert two_sentences(caught)

    @pytest.mark.parametrize(("column", "value"), [("CHARTTIME", "noon"), ("VALUENUM", "high")])
    def test_wrong_values_are_refused(self, home, column, value):
        found = tables()
        found["CHARTEVENTS"][column] = value
        write(home, found)
        with pytest.raises(InputError, match=f"{column} of CHARTEVENTS") as caught:
            mimic(home)
        assert two_sentences(caught)

    def test_a_damaged_file_is_refused(self, home):
        file = home / "mimic" / "CHARTEVENTS.csv"
        whole = gzip.compress(file.read_bytes())
        file.unlink()
        file.with_suffix(".csv.gz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="isn't a CSV file") as caught:
            mimic(home)
        assert two_sentences(caught)


def two_sentences(caught):
    return len(re.findall(r"[.!?](?=\s|$)", str(caught.value))) == 2


def test_readings_hold_for_a_while_and_within_a_stay():
    readings = Readings(np.array([STAY + 100, 2 * STAY + 50]), np.array([1.0, 2.0]))
    at = np.array([STAY, STAY + 100, STAY + 100 + HOLDS, STAY + 101 + HOLDS, 2 * STAY, 3 * STAY])
    np.testing.assert_array_equal(readings.last(at), [np.nan, 1, 1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(readings.last(at[:3], within=0), [np.nan, 1, np.nan])


def test_infusions_may_overlap():
    starts, ends = np.array([10, 15, STAY + 5]), np.array([20, 30, STAY + 6])
    at = np.array([9, 10, 20, 25, 30, 31, STAY, STAY + 5, STAY + 7])
    assert Infusions(starts, ends).running(at).tolist() == [
        *(False, True, True, True, True, False, False, True, False)
    ]
