"""Files of evolutions: readable, checked, whole or not there."""

import json

import numpy as np
import pytest

from kem_pymc._system.files import place
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.feature_distribution import FeatureDistribution
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.files import check_settings, content_hash, is_deep
from kem_pymc.evolutions.novelty import Novelty
from kem_pymc.gp.calibration import Calibration, Outcome
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from tests.evolutions.by_hand import WHITE, evolutions
from tests.refusals import refused


def test_a_saved_file_loads_as_equal(tmp_path):
    learned = evolutions()
    path = tmp_path / "evolutions.json"
    learned.save(path)
    loaded = Evolutions.load(path)
    assert loaded == learned
    assert loaded.clusters == learned.clusters  # to the last bit
    assert loaded.scaling.to_dict() == learned.scaling.to_dict()
    assert (loaded.pool, loaded.settings) == (learned.pool, learned.settings)
    assert loaded.content_hash == json.loads(path.read_text())["sha256"]
    assert [p.name for p in tmp_path.iterdir()] == ["evolutions.json"]
    assert loaded != evolutions(concentration=1.0)


def test_files_can_be_read_by_people(tmp_path):
    path = tmp_path / "evolutions.json"
    evolutions().save(path)
    text = path.read_text()
    assert '    {"draw": 0, "parent": "LIN0", "child": "LIN0 + PER0", "count": 2,' in text
    assert json.loads(text)["coordinates"]["LIN0"] == [
        "log LIN0.amplitude",
        "LIN0.shift",
        "log noise",
    ]


ARD = Composition.parse("ARD", 2)
WITH_CATEGORY = Cohort(
    (0,), (np.array([[0.1, 0.0], [0.7, 1.0], [0.2, 1.0]]),), (np.ones(3),), ([3],), ("a", "b"),
    levels={"b": ("no", "yes")}, time="a",
)  # fmt: skip
CONST = Composition.parse("CONST + LIN0")


@pytest.mark.parametrize(
    "learned",
    [
        evolutions(concentration=(2.0, 0.1 + 0.2)),
        # Whole numbers stay whole numbers, or the hash would be another.
        evolutions(concentration=1, priors={"stay": 1}, settings={"likelihood_power": 1, "z": [1]}),
        evolutions(
            (Cluster(0, WHITE, ARD, 1, (0.0,) * 4),),
            pool=CandidatePool(["LIN0", "ARD"], dimension=2),
            features=("a", "b"),
            scaling=Scaling.identity(2),
        ),
        evolutions(
            (Cluster(0, WHITE, CONST, 1, (0.1, 0.2, 0.3, 0.4)),),
            pool=CandidatePool(["CONST", "LIN0"]),
            levels={"week": ("first", "last")},
        ),
        evolutions(
            (Cluster(0, WHITE, ARD, 1, (0.0,) * 4),),
            pool=CandidatePool(["LIN0", "ARD"], dimension=2),
            features=("a", "b"),
            scaling=Scaling.identity(2),
            levels={"b": ("no", "yes")},
            distribution=FeatureDistribution.learn(WITH_CATEGORY),
        ),
        evolutions(calibration=Calibration((0, 0.1 + 0.2, 1.5), 30)),
        evolutions(novelty=Novelty((1, 4), (1.0, 0.1 + 0.2))),
        evolutions(held_out=(Outcome(3, 1, 5, 2, 4, 4, -12.3, 0.1 + 0.2, 4.0),) * 2),
    ],
    ids=["alpha", "whole", "ARD", "levels", "distribution", "calibration", "novelty", "held out"],
)
def test_what_is_special_is_read_as_it_was(tmp_path, learned):
    learned.save(tmp_path / "e.json")
    loaded = Evolutions.load(tmp_path / "e.json")
    assert loaded == learned
    fields = "clusters", "concentration", "levels", "pool", "settings", "priors", "calibration"
    fields += "novelty", "held_out"
    assert all(getattr(loaded, name) == getattr(learned, name) for name in fields)
    assert {learned.label(c.child) for c in learned.clusters} == set(
        json.loads((tmp_path / "e.json").read_text())["coordinates"]
    )


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "e.json"
    evolutions().save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(InputError, match=r"No space left on device\)\. Give"):
        evolutions(concentration=1.0).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]
    with pytest.raises(InputError, match=r"can't be written .*\. Give a file in an existing"):
        evolutions().save(tmp_path / "nowhere" / "e.json")


KEPT = Outcome(3, 1, 5, 2, 4, 4, -12.3, 0.3, 4.0)._asdict()

CHILDREN = ("LIN0", "SE0", "LIN0 + PER0")


def tampered(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def rehashed(**entries):
    def change(data):
        data.update(entries)
        data.pop("sha256")
        data["sha256"] = content_hash(data)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["clusters"][0].update(count=4), r"was changed after .*\. Save"),
        (lambda d: d.update(concentration=1.0), r"was changed after"),
        (lambda d: d.update(schema_version=4), r"written by a newer version of .*\. Update"),
        (lambda d: d.pop("sha256"), r"doesn't contain evolutions\. Give"),
        (lambda d: d.pop("schema_version"), r"doesn't contain evolutions\. Give"),
        (lambda d: d.update(schema_version="1"), r"doesn't contain evolutions\. Give"),
        (rehashed(pool=["FOO0"]), r"'FOO0' is not a base kernel"),
        (rehashed(novelty={"points": [4, 1], "weights": [1, 0]}), r"novelty.*a weight for each"),
        (rehashed(novelty={"points": [], "weights": []}), r"novelty.*a weight for each"),
        (rehashed(novelty={"points": [1], "weights": [1.5]}), r"novelty.*weights"),
        (rehashed(held_out=[{**KEPT, "within80": 1}]), r"held_out.*no more points in a narrower"),
        (rehashed(held_out=[{**KEPT, "probit": 5.0}]), r"held_out.*between the probit and"),
        (rehashed(pool=["SE0"]), r"not in the candidate pool\. Add"),
        (
            rehashed(coordinates={child: ["slope"] for child in CHILDREN}),
            r"aren't those with which .*\. Register",
        ),
    ],
)
def test_files_that_were_changed_are_refused(tmp_path, change, message):
    path = tmp_path / "e.json"
    evolutions().save(path)
    tampered(path, change)
    with pytest.raises(InputError, match=message):
        Evolutions.load(path)


@pytest.mark.parametrize("text", ["not JSON", "[1, 2]", "", "\xff"])
def test_files_of_something_else_are_refused(tmp_path, text):
    path = tmp_path / "e.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"e\.json (is not a JSON file|doesn't contain).*\. Give"):
        Evolutions.load(path)


def test_missing_files_are_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match=r"can't be read .*\. Give the file"):
            Evolutions.load(path)


SETTINGS = {
    **{"pool": ["LIN0"], "dimension": 1, "features": ["week"], "target": "steps"},
    **{"scaling": Scaling.identity(1).to_dict(), "priors": {}, "concentration": 1.0},
    **{"versions": {"kem-pymc": "1"}, "of a later version": [1]},
}


def test_what_is_valid_passes():
    """Settings may have entries of later versions."""
    check_settings(SETTINGS)
    check_settings(SETTINGS | {"concentration": {"shape": 2.0, "rate": 1.0}})


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
    refused(lambda: check_settings(SETTINGS | change), "The settings in the posterior", words)


def test_places_and_depths():
    assert place(("clusters", 3, "list", "count")) == "clusters[3].count"
    assert len(place(("x" * 1000,))) == 200
    nested = [[1, {"a": 2}]]
    assert is_deep(nested, 2)
    assert not is_deep(nested, 3)
    assert not is_deep("text", 0)
