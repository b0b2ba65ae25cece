"""Folders that are continued: the log, the settings, the lock."""

import json

import pytest

from kem_pymc._system.folder import Log, RunFolder
from tests.refusals import refused


def number(event):
    """An event is an object with a number."""
    return int(event["n"])


def made(path, **options):
    return RunFolder(path, "game", "game.json", options)


def test_events_are_kept_and_a_torn_last_line_is_removed(tmp_path):
    log = Log(tmp_path / "log", number)
    log.add([{"n": 1}, {"n": 2}])
    log.add([])
    log.add([{"n": 3}])
    whole = (tmp_path / "log").read_bytes()
    (tmp_path / "log").write_bytes(whole + b'{"n": 4')
    again = Log(tmp_path / "log", number)
    assert again.events == [1, 2, 3]
    assert (tmp_path / "log").read_bytes() == whole
    again.add([{"n": 4}])
    assert Log(tmp_path / "log", number).events == [1, 2, 3, 4]
    refused(lambda: log.add([{"n": 9}]), "Something else has written")


def test_a_part_of_a_line_is_taken_back(tmp_path, monkeypatch):
    """If it stayed, the next line would be damaged, and the size of the file another."""
    log = Log(tmp_path / "log", number)
    log.add([{"n": 1}])

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)  # once all is in the file
        refused(lambda: log.add([{"n": 2}]), "No space left on device", "is as it was")
    log.add([{"n": 3}])
    assert Log(tmp_path / "log", number).events == [1, 3]
    (tmp_path / "folder").mkdir()
    refused(lambda: Log(tmp_path / "folder", number), "can't be read")


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"n": "x"}', "[" * 100_000])
def test_a_damaged_line_is_named(tmp_path, line):
    (tmp_path / "log").write_text('{"n": 1}\n' + line + '\n{"n": 3}\n')
    refused(lambda: Log(tmp_path / "log", number), f"Line 2 of {tmp_path / 'log'} is damaged")


def test_without_a_folder_nothing_is_written():
    with made(None).locked() as folder:
        log = folder.log("log", number)
        log.add([{"n": 1}])
        assert log.events == []


def test_only_the_same_is_continued(tmp_path):
    made(tmp_path / "a" / "b", seed=1)
    file = tmp_path / "a" / "b" / "game.json"
    file.write_text(file.read_text().replace('"kem_pymc": "', '"kem_pymc": "7'))
    assert made(tmp_path / "a" / "b", seed=1).version.startswith("7")
    refused(lambda: made(tmp_path / "a" / "b", seed=2), "game in", "different seed")
    for text in ("no", "[1]", json.dumps("x"), "[" * 100_000):
        file.write_text(text)
        refused(lambda: made(tmp_path / "a" / "b", seed=1), "game.json is damaged")
    refused(lambda: made(tmp_path / "a"), "isn't empty and doesn't contain a game")
    refused(lambda: made(file), "can't be written to")


def test_one_process_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    with made(tmp_path).locked():
        refused(lambda: made(tmp_path), "Another process writes to")
    made(tmp_path)
