import os

import pytest

from kem_pymc._system.files import write_atomically


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    """Catches a file that is written in its place, and temporary files that are left behind."""

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    path = tmp_path / "a"
    for before in (None, b"earlier"):
        if before is not None:
            write_atomically(path, before)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                write_atomically(path, b"new")
        assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["a"])
    assert path.read_bytes() == b"earlier"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
