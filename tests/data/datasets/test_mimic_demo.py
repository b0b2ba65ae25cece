import numpy as np
import pandas as pd
import pytest

from kem_pymc.data.datasets import Counts, DataFileNotFoundError, candidates, data_home, mimic_demo
from kem_pymc.data.datasets.mimic import ITEMS, MIMIC_DEMO, TARGET
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from tests.data.datasets.test_mimic import VITAL, two_sentences

real_data = pytest.mark.skipif(
    not (data_home() / "mimic_demo").is_dir(),
    reason="no folder mimic_demo in the data home: set KEM_DATA to the folder that has it",
)


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

    def test_hypotension(self, tmp_path):
        demo(tmp_path)
        study = mimic_demo(tmp_path, minimum=1)
        low = np.concatenate([x for cohort in study for x in cohort.inputs])
        assert low[:, -1].sum() == 1
        assert low[low[:, -1] == 1, MIMIC_DEMO.index("arterial_pressure")] == [60]

    def test_tasks_by_stay_or_admission(self, tmp_path):
        demo(tmp_path)
        study = mimic_demo(tmp_path, by="stay", minimum=4)
        assert {*study.pilot.users, *study.test.users} == {1, 2, 3, 4, 5, 6}
        with pytest.raises(InputError, match="more: 1") as caught:
            mimic_demo(tmp_path, by="admission", minimum=5)
        assert two_sentences(caught)

    @pytest.mark.parametrize("options", [{"by": "age"}, {"batch": 0, "minimum": 4}])
    def test_wrong_options_are_refused(self, tmp_path, options):
        demo(tmp_path)
        with pytest.raises(InputError) as caught:
            mimic_demo(tmp_path, **options)
        assert two_sentences(caught)

    @pytest.mark.parametrize("fault", ["column", "text", "unit"])
    def test_a_wrong_file_is_refused(self, tmp_path, fault):
        demo(tmp_path)
        name = "mimic3_demo_icustays.csv" if fault == "unit" else "mimic3_demo_plateau_matched.csv"
        table = pd.read_csv(tmp_path / "mimic_demo" / name)
        if fault == "text":
            table["spo2_pct"] = "high"
        else:
            table = table.drop(columns="first_careunit" if fault == "unit" else "spo2_pct")
        table.to_csv(tmp_path / "mimic_demo" / name, index=False)
        with pytest.raises(InputError, match=r"first_careunit|spo2_pct") as caught:
            mimic_demo(tmp_path)
        assert two_sentences(caught)

    def test_missing_files_are_reported(self, tmp_path):
        with pytest.raises(DataFileNotFoundError, match="mimic_demo"):
            mimic_demo(tmp_path)

    @real_data
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
        assert len(CandidatePool(candidates("mimic_demo"), study.pilot.dimension)) == 50

    @real_data
    def test_real_admissions_are_one_task(self):
        with pytest.raises(InputError, match="more: 1"):
            mimic_demo(by="admission")
