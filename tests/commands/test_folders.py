import pytest

from kem_pymc.commands.folders import EVOLUTIONS, result, results
from kem_pymc.errors import InputError


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
    with pytest.raises(InputError, match="can't be made"), results(tmp_path / "r" / "deep"):
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
