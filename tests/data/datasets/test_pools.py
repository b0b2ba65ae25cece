import re

import pytest

from kem_pymc.data.datasets import candidates
from kem_pymc.data.datasets.heartsteps import HEARTSTEPS
from kem_pymc.data.datasets.heartsteps_daily import HEARTSTEPS_DAILY, HEARTSTEPS_FORECAST
from kem_pymc.data.datasets.mimic import MIMIC, MIMIC_DEMO
from kem_pymc.data.datasets.uci import CONCRETE, ENERGY, FIRES, HOUSING
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Candidate

FEATURES = {"synthetic": ("x",), "energy": ENERGY, "housing": HOUSING}
FEATURES |= {"fires": FIRES, "concrete": CONCRETE, "mimic": MIMIC, "mimic_demo": MIMIC_DEMO}
FEATURES |= {"heartsteps": HEARTSTEPS, "heartsteps_daily": HEARTSTEPS_DAILY}
FEATURES |= {"heartsteps_forecast": HEARTSTEPS_FORECAST}
SIZES = {"synthetic": 8, "energy": 16, "housing": 38, "fires": 35, "concrete": 39}
SIZES |= {"mimic": 50, "mimic_demo": 50, "heartsteps": 95, "heartsteps_daily": 73}
SIZES |= {"heartsteps_forecast": 68}


@pytest.mark.parametrize("name", SIZES)
def test_has_the_papers_size_and_no_repeats(name):
    pool = candidates(name)
    assert len(pool) == len(set(pool)) == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
def test_reads_as_the_kernels_print(name):
    dimension = len(FEATURES[name])
    for text in candidates(name):
        assert Candidate.parse(text, dimension).label(dimension) == text


@pytest.mark.parametrize("name", [name for name in SIZES if name != "synthetic"])
def test_every_feature_is_a_candidate_and_so_is_ard(name):
    pool = candidates(name)
    assert "ARD" in pool
    for d in range(len(FEATURES[name])):
        assert f"LIN{d}" in pool


@pytest.mark.parametrize(("name", "binary"), [("energy", "overall_height"), ("housing", "CHAS")])
def test_a_binary_feature_is_linear_only(name, binary):
    d = FEATURES[name].index(binary)
    assert [text for text in candidates(name) if re.search(rf"[A-Z]{d}\b", text)] == [f"LIN{d}"]


@pytest.mark.parametrize(
    ("name", "features", "interactions"),
    [("fires", ["Ws"], 8), ("concrete", ["cement", "age_days"], 14)],
)
def test_interactions_are_on_the_papers_features(name, features, interactions):
    products = [text for text in candidates(name) if " x " in text]
    linear = {f"LIN{FEATURES[name].index(feature)}" for feature in features}
    assert len(products) == interactions
    assert {text.split(" x ")[0] for text in products} == linear


@pytest.mark.parametrize(
    ("name", "flag"), [("mimic", "vasopressors"), ("mimic_demo", "hypotension")]
)
def test_a_vital_interacts_with_the_binary_feature(name, flag):
    d = FEATURES[name].index(flag)
    assert [text for text in candidates(name) if re.search(rf"[A-Z]{d}\b", text)] == [
        f"LIN{d}",
        *(f"LIN{d} x SE{other}" for other in range(13)),
    ]


@pytest.mark.parametrize(("name", "binary"), [("heartsteps", 9), ("heartsteps_daily", 5)])
def test_days_interact_with_travel_and_weekend(name, binary):
    features, products = FEATURES[name], [text for text in candidates(name) if " x " in text]
    assert features[-binary:][:2] == ("travel", "weekend")
    travel, weekend = features.index("travel"), features.index("weekend")
    for flag in (travel, weekend):
        with_flag = [text for text in products if re.search(rf"LIN{flag}\b", text)]
        assert len(with_flag) == len(features) - 1
    assert len(products) == 2 * (len(features) - 2) + 1
    for d in range(travel, len(features)):  # binary features are linear only
        assert not [text for text in candidates(name) if re.search(rf"(PER|SE){d}\b", text)]


def test_the_synthetic_pool_is_the_papers():
    assert candidates("synthetic")[:3] == ["LIN0", "PER0", "SE0"]
    assert "SE0 x SE0" not in candidates("synthetic")


def test_a_caller_may_change_its_list():
    candidates("energy").clear()
    assert candidates("energy")


def test_an_unknown_name_is_refused():
    with pytest.raises(InputError, match=r"'wine'. Use one of synthetic, energy"):
        candidates("wine")
