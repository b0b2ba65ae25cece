"""``kem fit`` killed at random moments of every phase: it goes on as if nothing had happened."""

import ctypes
import errno
import json
import multiprocessing
import os
import shutil
import signal
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kem_pymc.cli import folders, job, learning
from kem_pymc.runs import models
from kem_pymc.runs.storage import ChainFiles
from tests.cli.conftest import COLUMNS, fine, refused, run, table
from tests.cli.test_resume import same_results

pytestmark = pytest.mark.faults

PHASES = ("compiling", "tuning", "sampling", "final", "unshared", "writing results")

TUNE, DRAWS = 10, 15

#: What is shared is given, so that users have a model in which they share nothing.
MODEL = ("--candidates", "LIN0, SE0", "--shared", "linear")

SIZE = ("--draws", str(DRAWS), "--tune", str(TUNE), "--chains", "2")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The command without its folder, the results where nothing happens, and when phases begin."""
    folder = tmp_path_factory.mktemp("whole")
    table().to_csv(folder / "trial.csv", index=False)
    command = ("fit", "--data", folder / "trial.csv", *COLUMNS, *MODEL, *SIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "CHUNK", 4)
        fine(*command, "--cores", 1, "--out", folder / "warm")  # everything is compiled now
        file = folder / "phase"
        watch(patch, file)
        times = Counter()
        process = started(lambda: fine(*command, "--cores", 1, "--out", folder / "r"))
        last, since = "", time.monotonic()
        while process.is_alive():
            now = phase_in(file)
            if now != last:
                times[last] += time.monotonic() - since
                last, since = now, time.monotonic()
            time.sleep(0.001)
        times[last] += time.monotonic() - since
        process.join()
    assert process.exitcode == 0
    assert set(PHASES) <= set(times)
    return command, folder / "r", times


def phase_in(file):
    return file.read_text() if file.exists() else ""


def watch(patch, file):
    """Write the phase that a fit is in to a file whenever it changes."""
    state = {"run": "", "phase": ""}

    def enter(phase):
        if phase != state["phase"]:
            state["phase"] = phase
            draft = file.with_name(f"{file.name}.{os.getpid()}")
            draft.write_text(phase)
            os.replace(draft, file)

    def before(owner, name, callback):
        function = getattr(owner, name)

        def shown(*arguments, **options):
            callback(*arguments)
            return function(*arguments, **options)

        patch.setattr(owner, name, shown)

    def begins(*arguments):
        path = arguments[3]
        state["run"] = path.name if path.name in ("final", "unshared") else "main"
        enter("tuning" if state["run"] == "main" else state["run"])

    def adds(_files, first, _encoded):
        if state["run"] == "main" and first >= TUNE:
            enter("sampling")

    def compiles(*_):
        state["run"] = "compiling"
        enter("compiling")

    before(models, "ready", compiles)
    before(models, "sample", begins)
    before(ChainFiles, "add", adds)
    before(learning, "write", lambda *_: enter("writing results"))
    before(job, "remove_run", lambda *_: enter("writing results"))


def started(function):
    """Start a function in a copy of this process."""
    process = multiprocessing.get_context("fork").Process(target=function)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded")
        process.start()
    return process


def killed(command, file, phase, delay):
    """Kill a command some time after it has entered a phase; return in which phase it was then."""
    process = started(lambda: run(*command))
    while process.is_alive() and phase_in(file) != phase:
        time.sleep(0.0005)
    time.sleep(delay)
    found = phase_in(file) if process.is_alive() else "after its end"
    process.kill()
    process.join()
    return found if process.exitcode == -signal.SIGKILL else "after its end"


def kill_and_resume(number, phase, whole, place: Path, counts):
    """Kill a fit, and let it go on; once in seven times the one that goes on is killed too."""
    command, expected, times = whole
    rng = np.random.default_rng(number)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    own = (*command, "--cores", 1 + number % 2, "--out", place / "r")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "CHUNK", 4)
        watch(patch, place / "phase")
        # A phase that comes several times, as compiling does, is killed the first time.
        delay = rng.uniform(0, 0.6) * times[phase] / (3 if phase == "compiling" else 1)
        counts[killed(own, place / "phase", phase, delay)] += 1
        (place / "phase").unlink(missing_ok=True)
        again = ("fit", "--resume", place / "r.run", "--cores", 1)
        if number % 7 == 6 and (place / "r.run" / "fit.json").is_file():
            killed(again, place / "phase", PHASES[rng.integers(len(PHASES))], 0.05)
        if (place / "r.run" / "fit.json").is_file():
            fine(*again)
    same_results(place / "r", expected, own=("command", "seconds", "sampler"))
    left = {path.name for path in place.iterdir() if not path.name.startswith("phase")}
    assert left <= {"r", "r.run"}
    if "r.run" in left:  # killed while it was deleted, with its results in their place
        assert not (place / "r.run" / "fit.json").exists()


@pytest.mark.slow
def test_killed_a_few_times(whole, tmp_path):
    for number, phase in enumerate(("tuning", "final", "unshared", "writing results")):
        kill_and_resume(number, phase, whole, tmp_path / "place", Counter())


@pytest.mark.slow
def test_killed_fifty_times(whole, tmp_path):
    counts = Counter()
    for number in range(100, 150):
        phase = min(PHASES, key=lambda name: counts[name])  # on a busy machine some are missed
        kill_and_resume(number, phase, whole, tmp_path / "place", counts)
    assert min(counts[phase] for phase in PHASES) >= 5


def test_what_is_left_of_a_killed_deletion_is_no_obstacle(whole, tmp_path):
    """A run that was killed before its job was written, or while it was deleted."""
    command, expected, _ = whole
    (tmp_path / "r.run" / "chain-0").mkdir(parents=True)
    (tmp_path / "r.run" / "chain-0" / "draws-000000.npz").write_bytes(b"half a file")
    (tmp_path / "r.run" / "run.json").write_text("{}")
    (tmp_path / "r.run" / folders.LOCK).touch()
    fine(*command, "--cores", 1, "--out", tmp_path / "r")
    same_results(tmp_path / "r", expected)
    assert not (tmp_path / "r.run").exists()


# What else may happen to a run.


def obey_modes():
    """Take from this process, which is root's, the right to write where modes forbid it (Linux)."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    words = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice
    assert libc.capget(header, words) == 0
    words[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, words) == 0


def changed(file, **entries):
    """Replace entries of a JSON file; return what it was."""
    text = file.read_text()
    file.write_text(json.dumps(json.loads(text) | entries))
    return text


def test_full_disk_other_versions_no_permission_and_a_clock_that_jumps(
    whole, tmp_path, monkeypatch
):
    command, expected, _ = whole
    monkeypatch.setattr(models, "CHUNK", 4)
    place, folder = tmp_path / "place", tmp_path / "place" / "r.run"
    place.mkdir()
    again = ("fit", "--resume", folder, "--cores", 1)

    def full(_):
        if len(list(folder.rglob("draws-*.npz"))) >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        result = run(*command, "--cores", 1, "--out", place / "r")
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert f"To resume, run: kem fit --resume {folder}" in result.stderr
    assert len(list(folder.rglob("draws-*.npz"))) == 4
    assert not list(folder.rglob(".draws-*"))

    for name, number in (("run.json", 1), ("fit.json", 2)):
        before = changed(folder / name, schema_version=7)
        message = refused(run(*again))
        assert f"format 7, not {number}" in message
        assert "the version of kem_pymc that began it" in message
        (folder / name).write_text(before)

    def without_permission():
        if os.geteuid() == 0:
            obey_modes()
        for arguments in (again, (*command, "--out", folder / "new")):
            assert "can't be written to (Permission denied)" in refused(run(*arguments))

    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    process = started(without_permission)
    process.join()
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert process.exitcode == 0

    now, jumps = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: now() + (-1) ** next(jumps) * 1e6)
    fine(*again)
    same_results(place / "r", expected)
    assert {path.name for path in place.iterdir()} == {"r"}
