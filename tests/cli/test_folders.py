import os
import shutil
from pathlib import Path

import pytest

from kem_pymc.cli.folders import EVOLUTIONS, locked, result, results
from tests.refusals import refused
from tests.runs.runs import in_child


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def there(tmp_path):
    """Earlier results in a folder, and in a file."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / EVOLUTIONS).write_text("old")
    (tmp_path / "s.csv").write_text("old")


def test_results_appear_at_the_end(tmp_path):
    """Also in an empty folder; and what a killed process left in the draft doesn't."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "old.txt").touch()
    for path, draft in (("deep/r", None), ("empty", None), ("r", tmp_path / "draft")):
        with results(tmp_path / path, draft=draft) as folder:
            (folder / "a.txt").touch()
            assert not (tmp_path / path / "a.txt").exists()
        assert names(tmp_path / path) == {"a.txt"}
    with result(tmp_path / "s.csv") as file:
        file.write_text("new")
        assert not (tmp_path / "s.csv").exists()
    assert (tmp_path / "s.csv").read_text() == "new"
    assert names(tmp_path) == {"deep", "empty", "r", "s.csv"}
    assert names(tmp_path / "deep") == {"r"}


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_failure_leaves_everything_as_it_was(tmp_path, failure):
    def fail(make, path, name):
        with make(path, overwrite=True) as draft:
            (draft / name).write_text("new")
            raise failure

    for make, path, name in ((results, "r", EVOLUTIONS), (result, "s.csv", "")):
        with pytest.raises(failure):
            fail(make, tmp_path / path, name)
        assert (tmp_path / path / name).read_text() == "old"
    assert names(tmp_path) == {"r", "s.csv"}


@pytest.mark.usefixtures("there")
def test_what_is_in_the_way(tmp_path):
    for make, path, words in (
        (results, "s.csv", "is a file"),
        (results, "s.csv/deep", "can't be written"),
        (results, "r", "isn't empty. Choose another"),
        (result, "no/s.csv", "can't be written"),
        (result, "r", "is a folder"),
        (result, "s.csv", "exists. Choose another"),
    ):
        refused(make(tmp_path / path).__enter__, words)


# What came to the place meanwhile.


@pytest.mark.parametrize("there", ["nothing", "empty"])
@pytest.mark.parametrize("came", ["notes.txt", EVOLUTIONS, "file"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_came_meanwhile_stays(tmp_path, there, came, overwrite):
    """Other results, or files that are none; only results may be overwritten."""
    if overwrite and came == EVOLUTIONS:
        pytest.skip("may be overwritten")
    place = tmp_path / "r"
    if there == "empty":
        place.mkdir()

    def make():
        with results(place, overwrite) as folder:
            (folder / EVOLUTIONS).write_text("new")
            if came == "file":
                shutil.rmtree(place, ignore_errors=True)
                place.write_text("theirs")
            else:
                place.mkdir(exist_ok=True)
                (place / came).write_text("theirs")

    refused(make, "was left unchanged", str(tmp_path / "r-2"))
    assert (place if came == "file" else place / came).read_text() == "theirs"
    assert (tmp_path / "r-2" / EVOLUTIONS).read_text() == "new"
    assert names(tmp_path) == {"r", "r-2"}
    place.rename(tmp_path / "put away")
    with results(place) as folder:  # the kept results aren't in the way, nor what was put away
        (folder / EVOLUTIONS).write_text("newer")
    assert names(tmp_path) == {"r", "r-2", "put away"}


def test_a_file_that_came_meanwhile_stays(tmp_path):
    place = tmp_path / "s.csv"
    (tmp_path / "s-2.csv").write_text("of an earlier time")

    def make():
        with result(place) as file:
            file.write_text("new")
            place.write_text("theirs")

    refused(make, "was left unchanged", str(tmp_path / "s-3.csv"))
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts == {"s.csv": "theirs", "s-2.csv": "of an earlier time", "s-3.csv": "new"}


def test_earlier_results_stay_where_new_ones_cannot_be_moved(tmp_path, monkeypatch):
    """Fails where earlier results were put aside, and aren't put back."""
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / EVOLUTIONS).write_text("old")
    rename = Path.rename

    def fails(path, target):
        if path.name == f".r.{os.getpid()}" and target.name == "r":
            raise OSError(13, "Permission denied")
        return rename(path, target)

    def make():
        with results(tmp_path / "r", overwrite=True) as folder:
            (folder / EVOLUTIONS).write_text("new")
            monkeypatch.setattr(Path, "rename", fails)

    refused(make, "was left unchanged", str(tmp_path / "r-2"))
    assert names(tmp_path) == {"r", "r-2"}
    assert (tmp_path / "r" / EVOLUTIONS).read_text() == "old"


@pytest.mark.usefixtures("there")
def test_results_are_replaced_and_what_people_put_beside_them_stays(tmp_path):
    (tmp_path / "r" / "posterior.zarr").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("theirs")
    (tmp_path / "r" / "selected").mkdir()
    (tmp_path / "r" / "selected" / "s.csv").write_text("theirs")
    with results(tmp_path / "r", overwrite=True) as folder:
        (folder / "a.txt").touch()
    with result(tmp_path / "s.csv", overwrite=True) as file:
        file.write_text("new")
    assert names(tmp_path) == {"r", "s.csv"}
    assert names(tmp_path / "r") == {"a.txt", "notes.txt", "selected"}
    assert (tmp_path / "r" / "selected" / "s.csv").read_text() == "theirs"
    assert (tmp_path / "s.csv").read_text() == "new"


def test_one_command_at_a_time(tmp_path):
    pytest.importorskip("fcntl")

    def other():
        refused(lambda: locked(tmp_path / "r").__enter__(), "is using the folder", "--out")

    with locked(tmp_path / "r"):
        assert in_child(other) == 0
    with locked(tmp_path / "r"):
        pass
