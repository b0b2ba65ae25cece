"""MIMIC-III and its demo: counts after each filter, values, and files that are refused."""

import gzip

import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import DataFileNotFoundError
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from models.loaders import Counts, mimic, mimic_demo
from models.loaders.mimic import ITEMS, MIMIC, MIMIC_DEMO, TARGET, VITALS
from models.loaders.mimic_files import HOLDS, STAY, Infusions, Readings
from tests.data_home import needs

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
    def test_counts_after_each_filter_and_values(self, home):
        study, counts = load(home)
        assert counts == COUNTS
        assert {*study.pilot.users, *study.test.users} == {"SEPSIS", "PNEUMONIA"}
        assert len(study.pilot) == len(study.test) == 1
        found = points(study)
        assert found.index.tolist() == [20, 21, 22, 23, 31, 33]
        assert tuple(found.columns[2:]) == MIMIC
        expected = VITAL | {"fio2": 50}
        for name in VITALS:
            assert found.loc[22, name] == expected[name], name
        assert found["heart_rate"].tolist() == [80, 80, 80, 80, 90, 90]
        assert found["vasopressors"].tolist() == [0, 1, 0, 0, 1, 0]

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

    @pytest.mark.parametrize("chunk", [7, 1000])
    def test_packed_in_chunks_and_with_small_letters(self, home, tmp_path_factory, chunk):
        packed = tmp_path_factory.mktemp("packed")
        small = {name: table.rename(columns=str.lower) for name, table in tables().items()}
        write(packed, small, packed=True)
        study, counts = load(packed, chunk=chunk)
        assert counts == COUNTS
        pd.testing.assert_frame_equal(points(study), points(load(home)[0]))

    def test_other_items_units_and_several_readings_of_one_minute(self, home):
        chart = tables()["CHARTEVENTS"]
        chart.loc[chart["ITEMID"] == 190, ["ITEMID", "VALUENUM"]] = (223835, 50)
        chart.loc[chart["ITEMID"] == 676, ["ITEMID", "VALUENUM"]] = (678, 98.6)
        extra = chart.query("ICUSTAY_ID == 1 and ITEMID == 52").assign(ITEMID=456, VALUENUM=85)
        write(home, {"CHARTEVENTS": pd.concat([chart, extra])})
        row = points(load(home)[0]).loc[21]
        assert row["fio2"] == 50
        assert row["temperature"] == pytest.approx(37)
        assert row["arterial_pressure"] == 80  # the mean

    @pytest.mark.parametrize("name", tables())
    def test_missing_files_are_reported_before_any_is_read(self, home, name):
        (home / "mimic/ADMISSIONS.csv").write_bytes(b"no table")
        (home / "mimic" / f"{name}.csv").unlink()
        with pytest.raises(DataFileNotFoundError, match=name):
            mimic(home)

    def test_missing_columns_wrong_values_and_damaged_files_are_refused(self, home):
        for name, column in (
            *(("CHARTEVENTS", "VALUENUM"), ("ADMISSIONS", "DIAGNOSIS")),
            *(("INPUTEVENTS_CV", "RATE"), ("INPUTEVENTS_MV", "ENDTIME")),
        ):
            write(home, tables() | {name: tables()[name].drop(columns=column)})
            with pytest.raises(InputError, match=f"{name}.* has no column {column}"):
                mimic(home)
        for column in ("CHARTTIME", "VALUENUM"):
            chart = tables()["CHARTEVENTS"].assign(**{column: "noon"})
            write(home, tables() | {"CHARTEVENTS": chart})
            with pytest.raises(InputError, match=f"{column} of CHARTEVENTS"):
                mimic(home)
        file = home / "mimic" / "CHARTEVENTS.csv"
        whole = gzip.compress(file.read_bytes())
        file.unlink()
        file.with_suffix(".csv.gz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="isn't a CSV file"):
            mimic(home)


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


def demo(home, gap=False):
    """Write tables like the demo's: 5 units, stays of 12 readings each, one unit with too few."""
    folder = home / "mimic_demo"
    folder.mkdir()
    units = {1: "MICU", 2: "MICU", 3: "SICU", 4: "CCU", 5: "TSICU", 6: "CSRU"}
    rows = [
        {"icustay_id": stay, "hours": 1.5 * i, "gender": "M", ITEMS[TARGET].column: 20 + stay}
        | {ITEMS[name].column: value + i for name, value in (VITAL | {"fio2": 50}).items()}
        for stay in units
        for i in range(12 if stay < 6 else 5)
    ]
    table = pd.DataFrame(rows)
    table = table.astype({"map": float, "spo2_pct": float})
    table.loc[0, "map"] = 60
    if gap:
        table.loc[[1, 2], "spo2_pct"] = [np.nan, 101]
    table.to_csv(folder / "mimic3_demo_plateau_matched.csv", index=False)
    stays = pd.DataFrame({"icustay_id": units.keys(), "first_careunit": units.values()})
    stays["admission_type"] = ["EMERGENCY"] * 5 + ["URGENT"]
    stays.to_csv(folder / "mimic3_demo_icustays.csv", index=False)


class TestDemo:
    def test_tasks_by_unit(self, tmp_path):
        demo(tmp_path, gap=True)
        counts = []
        # SpO2 passes 100 from the fifth reading of a stay on, and twice before.
        study = mimic_demo(tmp_path, minimum=4, batch=3, callback=counts.append)
        assert counts == [Counts(65, 65, 22, 22, 22)]
        assert {*study.pilot.users, *study.test.users} == {"MICU", "SICU", "CCU", "TSICU", "CSRU"}
        for cohort in study:
            assert cohort.features == MIMIC_DEMO
            for user, ends in zip(cohort.users, cohort.ends, strict=True):
                assert ends.tolist() == ([3, 6] if user == "MICU" else [3, 4])

    def test_tasks_by_stay_or_admission(self, tmp_path):
        demo(tmp_path)
        study = mimic_demo(tmp_path, by="stay", minimum=4)
        assert {*study.pilot.users, *study.test.users} == {1, 2, 3, 4, 5, 6}
        with pytest.raises(InputError, match="more: 1"):
            mimic_demo(tmp_path, by="admission", minimum=5)
        # Blood pressure is low in one reading.
        low = np.concatenate([x for cohort in study for x in cohort.inputs])
        assert low[low[:, -1] == 1, MIMIC_DEMO.index("arterial_pressure")].tolist() == [60]

    def test_wrong_and_missing_files_are_refused(self, tmp_path):
        with pytest.raises(DataFileNotFoundError, match="mimic_demo"):
            mimic_demo(tmp_path)
        demo(tmp_path)
        with pytest.raises(InputError, match="by 'age'"):
            mimic_demo(tmp_path, by="age")
        for name, column, change in (
            ("mimic3_demo_plateau_matched.csv", "spo2_pct", {"spo2_pct": "high"}),
            ("mimic3_demo_plateau_matched.csv", "spo2_pct", None),
            ("mimic3_demo_icustays.csv", "first_careunit", None),
        ):
            path = tmp_path / "mimic_demo" / name
            whole = pd.read_csv(path)
            wrong = whole.assign(**change) if change else whole.drop(columns=column)
            wrong.to_csv(path, index=False)
            with pytest.raises(InputError, match=column):
                mimic_demo(tmp_path)
            whole.to_csv(path, index=False)

    @needs("mimic_demo")
    @pytest.mark.parametrize("by", ["unit", "stay"])
    def test_real_tables(self, by):
        counts = []
        study = mimic_demo(by=by, callback=counts.append)
        assert counts[0].original == counts[0].ventilated == 836
        assert counts[0].valid == counts[0].with_target
        users = len(study.pilot) + len(study.test)
        assert users == (4 if by == "unit" else 9)
        sizes = [len(y) for cohort in study for y in cohort.targets]
        assert min(sizes) >= 30
        assert sum(sizes) == counts[0].grouped
        for cohort in study:
            Scaling.unit(study.pilot).apply(cohort)
