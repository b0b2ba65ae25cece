import json
import os

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.model.step import NAMES
from kem_pymc.runs.storage import ChainFiles, Chunk, encode, pack, unpack


def generator(i):
    """A state of a bit generator, with numbers as large as they come."""
    state = np.random.PCG64().state
    return state | {"state": {"state": 2**127 + i, "inc": 2**100 + 1}}


@pytest.fixture(scope="module")
def points(engine):
    """Draws from the prior, of ragged time steps, some with many clusters."""
    drawn = [engine.simulate(np.random.default_rng(seed)) for seed in range(30)]
    return {
        name: np.stack(arrays) for name, arrays in zip(NAMES, zip(*drawn, strict=True), strict=True)
    }


@pytest.fixture(scope="module")
def counts(pool):
    return np.diff(pool.layout.hyper_start)


@pytest.fixture
def files(tmp_path, counts):
    made = ChainFiles(tmp_path / "chain-0", counts)
    made.clean()
    return made


def chunk(points, first, last):
    """The draws from `first` to `last`."""
    drawn = [{name: values[i] for name, values in points.items()} for i in range(first, last)]
    statistics = [{"n_clusters": i, "acceptance_add": np.nan} for i in range(first, last)]
    return Chunk.of(first, drawn, statistics, generator(last - 1), 1.0)


def write(files, points, size=8):
    for first in range(0, len(points["noise"]), size):
        files.add(first, encode(chunk(points, first, min(first + size, len(points["noise"])))))


def test_packed_points_are_the_same_to_the_last_bit(points, counts):
    back = unpack(pack(points), counts)
    for name in NAMES:
        assert back[name].dtype == points[name].dtype
        np.testing.assert_array_equal(back[name], points[name], strict=True)


def test_packed_points_are_small(points):
    packed = pack(points)
    assert packed["structure"].dtype == np.int16
    clusters = sum(len(np.unique(s[s >= 0])) for s in points["structure"][..., 0])
    assert packed["noise"].shape == (clusters,)
    assert packed["hyperparameters"].size < points["hyperparameters"].size / 4


def test_labels_that_need_more_room_get_it():
    structure = np.zeros((1, 1, 40000, 1), dtype=np.int32)
    structure[..., 0] = np.arange(40000)
    points = {"structure": structure, "hyperparameters": np.empty((1, 1, 40000, 0))}
    points["noise"] = np.random.default_rng(0).random((1, 1, 40000))
    back = unpack(pack(points), np.array([], dtype=int))
    np.testing.assert_array_equal(back["structure"], structure)
    np.testing.assert_array_equal(back["noise"], points["noise"])


def test_files_hold_the_draws_as_the_documentation_says(files, points):
    write(files, points)
    found = list(files.chunks())
    assert [chunk.first for chunk in found] == [0, 8, 16, 24]
    assert [len(chunk) for chunk in found] == [8, 8, 8, 6]
    assert found[1].generator == generator(15)
    assert files.last().first == 24
    for name in NAMES:
        joined = np.concatenate([chunk.points[name] for chunk in found])
        np.testing.assert_array_equal(joined, points[name], strict=True)
    np.testing.assert_array_equal(found[3].statistics["n_clusters"], np.arange(24, 30))
    assert np.isnan(found[3].statistics["acceptance_add"]).all()
    with np.load(files.folder / "draws-000008.npz", allow_pickle=False) as file:
        assert set(file) == {
            *("structure", "hyperparameters", "noise", "about"),
            *("sample_stats.n_clusters", "sample_stats.acceptance_add"),
        }
        assert json.loads(str(file["about"]))["generator"] == generator(15)


def test_what_failed_to_be_written_leaves_nothing(files, points, monkeypatch):
    def full(_):
        raise OSError("full")

    encoded = encode(chunk(points, 0, 4))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="full"):
            files.add(0, encoded)
    assert not list(files.folder.iterdir())
    assert len(files.add(0, encoded)) == 4


def test_leftovers_are_ignored_and_cleaned(files, points):
    write(files, points)
    leftover = files.folder / ".draws-000030.npz.123"
    leftover.write_bytes(b"PK half")
    assert len(list(files.chunks())) == 4
    files.clean()
    assert not leftover.exists()
    assert len(list(files.chunks())) == 4


def shortened(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)


def unequal(path):
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **arrays | {"noise": arrays["noise"][:3]})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        *((lambda path: path.write_bytes(b""), "draws-000008.npz can't be read"),),
        *((own, "draws-000008.npz can't be read") for own in (shortened, flipped, unequal)),
        (lambda path: path.unlink(), "draws-000016.npz doesn't follow"),
    ],
)
def test_a_damaged_or_missing_file_is_reported(files, points, damage, words):
    write(files, points)
    damage(files.folder / "draws-000008.npz")
    with pytest.raises(InputError, match=words):
        list(files.chunks())
