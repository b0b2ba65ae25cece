"""Candidate pools: the sizes and interactions that the paper states."""

import re

import pytest

from kem_pymc import Candidate, CandidatePool
from kem_pymc.errors import InputError
from models.loaders import candidates
from models.loaders.heartsteps import HEARTSTEPS
from models.loaders.heartsteps_daily import HEARTSTEPS_DAILY, HEARTSTEPS_FORECAST
from models.loaders.mimic import MIMIC, MIMIC_DEMO
from models.loaders.uci import CONCRETE, ENERGY, FIRES, HOUSING

#: Features and number of candidates of each pool.
POOLS = {"synthetic": (("x",), 8), "energy": (ENERGY, 16), "housing": (HOUSING, 38)}
POOLS |= {"fires": (FIRES, 35), "concrete": (CONCRETE, 39), "mimic": (MIMIC, 50)}
POOLS |= {"mimic_demo": (MIMIC_DEMO, 50), "heartsteps": (HEARTSTEPS, 95)}
POOLS |= {"heartsteps_daily": (HEARTSTEPS_DAILY, 73)}
POOLS |= {"heartsteps_forecast": (HEARTSTEPS_FORECAST, 68)}


@pytest.mark.parametrize("name", POOLS)
def test_has_the_papers_size_and_no_repeats(name):
    pool, (features, size) = candidates(name), POOLS[name]
    assert len(pool) == len(set(pool)) == size
    assert [Candidate.parse(text, len(features)).label(len(features)) for text in pool] == pool
    if name != "synthetic":
        assert {"ARD", *(f"LIN{d}" for d in range(len(features)))} <= set(pool)


def test_the_synthetic_pool_is_the_papers():
    usual = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    assert CandidatePool(candidates("synthetic")) == usual


@pytest.mark.parametrize(
    ("name", "features", "interactions"),
    [
        *(("energy", ["overall_height"], 0), ("housing", ["CHAS"], 0)),
        *(("fires", ["Ws"], 8), ("concrete", ["cement", "age_days"], 14)),
        *(("mimic", ["vasopressors"], 13), ("mimic_demo", ["hypotension"], 13)),
        *(
            ("heartsteps", ["travel", "weekend"], 43),
            ("heartsteps_daily", ["travel", "weekend"], 31),
        ),
    ],
)
def test_interactions_are_on_the_papers_features(name, features, interactions):
    places = [POOLS[name][0].index(feature) for feature in features]
    products = [text for text in candidates(name) if " x " in text]
    assert len(products) == interactions
    assert {text.split(" x ")[0] for text in products} <= {f"LIN{d}" for d in places}
    if name not in ("fires", "concrete"):  # binary features are linear only
        assert not [t for d in places for t in candidates(name) if re.search(rf"(PER|SE){d}\b", t)]


def test_an_unknown_name_is_refused():
    with pytest.raises(InputError, match=r"'wine'. Use one of synthetic, energy"):
        candidates("wine")
