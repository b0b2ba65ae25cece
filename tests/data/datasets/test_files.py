import re
from pathlib import Path

import pytest

from kem_pymc.data.datasets import DataFileNotFoundError, data_home, find_file
from kem_pymc.errors import InputError


def test_argument_comes_before_environment_before_default(monkeypatch, tmp_path):
    monkeypatch.setenv("KEM_DATA", str(tmp_path / "environment"))
    assert data_home(tmp_path / "argument") == tmp_path / "argument"
    assert data_home() == tmp_path / "environment"
    monkeypatch.delenv("KEM_DATA")
    assert data_home() == Path.home() / "kem_data"


def test_home_is_expanded(monkeypatch):
    monkeypatch.setenv("KEM_DATA", "~/somewhere")
    assert data_home() == Path.home() / "somewhere"
    assert data_home("~/else") == Path.home() / "else"


def test_find(tmp_path):
    (tmp_path / "uci").mkdir()
    file = tmp_path / "uci" / "a.csv"
    file.touch()
    assert find_file("uci/a.csv", tmp_path, source="the library") == file


@pytest.mark.parametrize("kind", [DataFileNotFoundError, FileNotFoundError, InputError])
def test_a_missing_file_says_where_to_get_it(tmp_path, kind):
    with pytest.raises(kind) as caught:
        find_file("uci/a.csv", tmp_path, source="the library")
    message = str(caught.value)
    assert len(re.findall(r"[.!?](?=\s|$)", message)) == 2
    for word in ("a.csv", "the library", "data_home", "KEM_DATA"):
        assert word in message


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataFileNotFoundError):
        find_file("a.csv", tmp_path, source="the library")
