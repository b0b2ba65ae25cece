"""The study files of the papers, as far as they run without data files."""

from pathlib import Path

import pytest

from kem_pymc import CandidatePool, datasets
from kem_pymc.commands.study import load_study
from kem_pymc.errors import InputError

MODELS = Path(__file__).parents[1] / "models"

#: Pilot users, test users, time steps, dimension (table 1; fires have 9 usable features). The
#: studies of MIMIC and HeartSteps are of open data, not the paper's.
SIZES = {
    "synthetic": (10, 50, 6, 1),
    "energy": (7, 8, 10, 8),
    "housing": (5, 5, 10, 13),
    "fires": (4, 4, 10, 9),
    "concrete": (10, 10, 10, 8),
    "mimic": (4, 5, 7, 14),
    "heartsteps": (9, 9, 10, 17),
}
#: The folder of the data home, and the candidate pool, where they aren't "uci" and the name.
FOLDERS = {"mimic": "mimic_demo", "heartsteps": "heartsteps"}
POOLS = {"mimic": "mimic_demo", "heartsteps": "heartsteps_daily"}


def test_every_study_is_tested():
    assert {path.stem for path in MODELS.glob("*.py")} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_study_is_the_papers(name):
    folder = FOLDERS.get(name, "uci")
    if name != "synthetic" and not datasets.data_home().joinpath(folder).is_dir():
        with pytest.raises(InputError, match="KEM_DATA"):
            load_study(MODELS / f"{name}.py")
        pytest.skip(f"KEM_DATA doesn't hold the files of {folder}")
    study = load_study(MODELS / f"{name}.py")
    pilot, test = study.model.cohort, study.test
    sizes = (pilot.n_users, test.n_users, pilot.max_steps, pilot.dimension)
    assert sizes == SIZES[name]
    assert study.model.pool == CandidatePool(
        datasets.candidates(POOLS.get(name, name)), pilot.dimension
    )
    assert study.model.concentration == 1
    assert study.model.feedback == "cut"
    assert study.model.priors.scaling == ("none" if name == "synthetic" else "unit")
    assert set(study.sampler) == {"draws", "tune", "chains", "random_seed"}


@pytest.mark.parametrize("name", SIZES)
def test_study_is_short(name):
    lines = (MODELS / f"{name}.py").read_text().splitlines()
    assert 20 <= len(lines) <= 50
    assert f"kem fit models/{name}.py" in "\n".join(lines)
