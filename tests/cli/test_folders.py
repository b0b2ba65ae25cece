import pytest

from kem_pymc.cli.folders import EVOLUTIONS, locked, result, results
from kem_pymc.errors import InputError
from tests.refusals import refused
from tests.runs.runs import in_child


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_folder_appears_at_the_end(tmp_path):
    with results(tmp_path / "deep" / "r") as folder:
        (folder / "a.txt").touch()
        assert not (tmp_path / "deep" / "r").exists()
    assert names(tmp_path / "deep") == {"r"}
    assert names(tmp_path / "deep" / "r") == {"a.txt"}


def test_empty_folder_may_be_there(tmp_path):
    (tmp_path / "r").mkdir()
    with results(tmp_path / "r") as folder:
        (folder / "a.txt").touch()
    assert names(tmp_path / "r") == {"a.txt"}


def test_draft_of_a_killed_process_is_deleted(tmp_path):
    (tmp_path / "draft").mkdir()
    (tmp_path / "draft" / "old.txt").touch()
    with results(tmp_path / "r", draft=tmp_path / "draft") as folder:
        (folder / "a.txt").touch()
    assert names(tmp_path) == {"r"}
    assert names(tmp_path / "r") == {"a.txt"}


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_failure_leaves_everything_as_it_was(tmp_path, failure):
    def fail():
        with results(tmp_path / "r", overwrite=True) as folder:
            (folder / EVOLUTIONS).write_text("new")
            raise failure

    (tmp_path / "r").mkdir()
    (tmp_path / "r" / EVOLUTIONS).write_text("old")
    with pytest.raises(failure):
        fail()
    assert names(tmp_path) == {"r"}
    assert (tmp_path / "r" / EVOLUTIONS).read_text() == "old"


def test_files_in_the_way(tmp_path):
    (tmp_path / "r").touch()
    with pytest.raises(InputError, match="is a file"), results(tmp_path / "r"):
        pass
    with pytest.raises(InputError, match="can't be created"), results(tmp_path / "r" / "deep"):
        pass


def test_file_appears_at_the_end(tmp_path):
    with result(tmp_path / "s.csv") as file:
        file.write_text("new")
        assert not (tmp_path / "s.csv").exists()
    assert (tmp_path / "s.csv").read_text() == "new"
    with result(tmp_path / "s.csv", overwrite=True) as file:
        file.write_text("newer")
    assert (tmp_path / "s.csv").read_text() == "newer"
    assert names(tmp_path) == {"s.csv"}


def test_failure_leaves_the_file_as_it_was(tmp_path):
    def fail():
        with result(tmp_path / "s.csv", overwrite=True) as file:
            file.write_text("new")
            raise ZeroDivisionError

    (tmp_path / "s.csv").write_text("old")
    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == {"s.csv"}
    assert (tmp_path / "s.csv").read_text() == "old"


def test_file_in_no_folder(tmp_path):
    with pytest.raises(InputError, match="can't be written"), result(tmp_path / "no" / "s.csv"):
        pass


# What came to the place meanwhile.


def earlier(folder):
    folder.mkdir()
    (folder / EVOLUTIONS).write_text("old")


@pytest.mark.parametrize("there", ["nothing", "empty", "results"])
@pytest.mark.parametrize("came", ["notes", "results", "file"])
def test_what_came_meanwhile_stays(tmp_path, there, came):
    place = tmp_path / "r"
    if there != "nothing":
        place.mkdir()
    if there == "results":
        (place / EVOLUTIONS).write_text("old")

    def make():
        with results(place, overwrite=True) as folder:
            (folder / EVOLUTIONS).write_text("new")
            if came == "file":
                if place.is_dir():
                    place.rename(tmp_path / "elsewhere")
                place.write_text("theirs")
            else:
                place.mkdir(exist_ok=True)
                (place / (EVOLUTIONS if came == "results" else "notes.txt")).write_text("theirs")

    refused(make, "was changed while", str(tmp_path / "r-2"))
    theirs = place if came == "file" else next(p for p in place.iterdir() if p.stat().st_size > 3)
    assert theirs.read_text() == "theirs"
    assert (tmp_path / "r-2" / EVOLUTIONS).read_text() == "new"
    assert names(tmp_path) - {"elsewhere"} == {"r", "r-2"}
    place.rename(tmp_path / "put away")
    with results(place) as folder:  # the kept results aren't in the way, nor what was put away
        (folder / EVOLUTIONS).write_text("newer")
    assert names(tmp_path) - {"elsewhere"} == {"r", "r-2", "put away"}


@pytest.mark.parametrize("there", [False, True])
def test_a_file_that_came_meanwhile_stays(tmp_path, there):
    place = tmp_path / "s.csv"
    if there:
        place.write_text("old")
    (tmp_path / "s-2.csv").write_text("of an earlier time")

    def make():
        with result(place, overwrite=True) as file:
            file.write_text("new")
            place.write_text("theirs")

    refused(make, "was changed while", str(tmp_path / "s-3.csv"))
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts == {"s.csv": "theirs", "s-2.csv": "of an earlier time", "s-3.csv": "new"}


def test_results_that_are_there_are_replaced(tmp_path):
    earlier(tmp_path / "r")
    with results(tmp_path / "r", overwrite=True) as folder:
        (folder / "a.txt").touch()
    assert names(tmp_path) == {"r"}
    assert names(tmp_path / "r") == {"a.txt"}


def test_what_people_put_beside_results_stays(tmp_path):
    earlier(tmp_path / "r")
    (tmp_path / "r" / "posterior.zarr").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("theirs")
    (tmp_path / "r" / "selected").mkdir()
    (tmp_path / "r" / "selected" / "s.csv").write_text("theirs")
    with results(tmp_path / "r", overwrite=True) as folder:
        (folder / EVOLUTIONS).write_text("new")
    assert names(tmp_path) == {"r"}
    assert names(tmp_path / "r") == {EVOLUTIONS, "notes.txt", "selected"}
    assert (tmp_path / "r" / EVOLUTIONS).read_text() == "new"
    assert (tmp_path / "r" / "selected" / "s.csv").read_text() == "theirs"


def test_one_command_at_a_time(tmp_path):
    pytest.importorskip("fcntl")

    def other():
        refused(lambda: locked(tmp_path / "r").__enter__(), "is using the folder", "--out")

    with locked(tmp_path / "r"):
        assert in_child(other) == 0
    with locked(tmp_path / "r"):
        pass
