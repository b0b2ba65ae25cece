"""Schemas of files: what passes, and that the entry at fault is named."""

import pytest

from kem_pymc._system.files import place
from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.schema import check_settings, is_deep
from tests.refusals import refused

SETTINGS = {
    **{"pool": ["LIN0"], "dimension": 1, "features": ["week"], "target": "steps"},
    **{"scaling": Scaling.identity(1).to_dict(), "priors": {}, "concentration": 1.0},
    **{"versions": {"kem-pymc": "1"}, "of a later version": [1]},
}


def test_what_is_valid_passes():
    """Settings may have entries of later versions."""
    check_settings(SETTINGS, "s")
    check_settings(SETTINGS | {"concentration": {"shape": 2.0, "rate": 1.0}}, "s")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pool": []}, "its entry pool"),
        ({"concentration": -1.0}, "its entry concentration:"),
        ({"dimension": "1"}, "its entry dimension"),
        ({"levels": {"week": ["only one"]}}, "its entry levels.week"),
        ({"priors": {"enter": {}}}, "its entry priors: has to contain stay"),
        ({"priors": {"stay": 1.5}}, "its entry priors.stay"),
        ({"likelihood_power": float("nan")}, "its entry likelihood_power"),
    ],
)
def test_the_entry_of_settings_is_named(change, words):
    refused(lambda: check_settings(SETTINGS | change, "here"), "The settings in here", words)


def test_places_and_depths():
    assert place(("clusters", 3, "list", "count")) == "clusters[3].count"
    assert len(place(("x" * 1000,))) == 200
    nested = [[1, {"a": 2}]]
    assert is_deep(nested, 2)
    assert not is_deep(nested, 3)
    assert not is_deep("text", 0)
