"""Files of evolutions: readable, checked, whole or not there."""

import json

import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.files import content_hash, readable
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from tests.evolutions.by_hand import (
    WHITE,
    evolutions,
)


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


def test_ard_keeps_its_name_in_files(tmp_path):
    pool = CandidatePool(["LIN0", "ARD"], dimension=2)
    ard = Composition.parse("ARD", 2)
    learned = evolutions(
        (Cluster(0, WHITE, ard, 1, (0.0,) * 4),),
        pool=pool,
        features=("a", "b"),
        scaling=Scaling.identity(2),
    )
    learned.save(tmp_path / "e.json")
    assert '"child": "ARD"' in (tmp_path / "e.json").read_text()
    assert Evolutions.load(tmp_path / "e.json").children("WHITE")[0].composition == ard


def test_levels_are_in_files_under_their_name(tmp_path):
    pool = CandidatePool(["CONST", "LIN0"])
    both = Composition.parse("CONST + LIN0")
    learned = evolutions((Cluster(0, WHITE, both, 1, (0.1, 0.2, 0.3, 0.4)),), pool=pool)
    learned.save(tmp_path / "e.json")
    data = json.loads((tmp_path / "e.json").read_text())
    assert data["coordinates"]["CONST + LIN0"][0] == "log CONST.amplitude"
    loaded = Evolutions.load(tmp_path / "e.json")
    assert (loaded.pool, loaded.clusters) == (pool, learned.clusters)


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


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(
        InputError, match=r"can't be written .*\. Give a file in an existing folder"
    ):
        evolutions().save(tmp_path / "nowhere" / "e.json")


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
        (lambda d: d.update(schema_version=3), r"written by a newer version of .*\. Update"),
        (lambda d: d.pop("sha256"), r"doesn't contain evolutions\. Give"),
        (lambda d: d.pop("schema_version"), r"doesn't contain evolutions\. Give"),
        (lambda d: d.update(schema_version="1"), r"doesn't contain evolutions\. Give"),
        (rehashed(pool=["FOO0"]), r"'FOO0' is not a base kernel"),
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


def test_files_keep_the_alpha_of_every_draw(tmp_path):
    learned = evolutions(concentration=(2.0, 0.1 + 0.2))
    learned.save(tmp_path / "kem.json")
    loaded = Evolutions.load(tmp_path / "kem.json")
    assert loaded == learned
    assert loaded.concentration == learned.concentration


def test_missing_files_are_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match=r"can't be read .*\. Give the file"):
            Evolutions.load(path)


def test_readable_json_reads_back():
    data = {"a": [{"b": 1}, {"b": [1.5]}], "c": {"d": "e"}, "f": [], "g": [1, 2]}
    assert json.loads(readable(data)) == data
