"""``kem doctor`` finds each of the usual problems, and never fails itself."""

import json
import os
import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace

import numba
import pytensor
import pytest

from kem_pymc._jit import cache as code_cache
from kem_pymc._system import resources
from kem_pymc.cli import doctor
from kem_pymc.cli.checkup import engine, files, hardware, software
from kem_pymc.cli.checkup.finding import Finding, examined, size
from tests.cli.conftest import run


def found(check):
    """Return what a check finds, and its problems as one text."""
    finding = examined("A check", check)
    return finding, " ".join(f"{p.what} {p.remedy}" for p in finding.problems)


def fails(finding):
    return any(problem.fails for problem in finding.problems)


@pytest.fixture
def healthy(monkeypatch):
    """Checks that find nothing, in the place of all."""
    good = {"Good": lambda finding: finding.facts.update(sense="[bold]all[/] of it")}
    monkeypatch.setattr(doctor, "checks", lambda *_: dict(good))
    return good


@pytest.mark.usefixtures("healthy")
def test_no_problems():
    result = run("doctor")
    assert result.exit_code == 0
    assert "[bold]all[/] of it" in result.output
    assert "No problems found." in result.output


@pytest.mark.parametrize(("grave", "code"), [(True, 1), (False, 0)])
def test_problems_are_reported_and_grave_ones_decide(monkeypatch, grave, code):
    check = {"Bad": lambda finding: finding.doubt("It's broken.", "Mend it.", grave)}
    monkeypatch.setattr(doctor, "checks", lambda *_: check)
    result = run("doctor")
    assert result.exit_code == code
    assert "! It's broken. Mend it." in result.output
    assert "1 problem found" in result.output
    result = run("doctor", "--json")
    assert result.exit_code == code
    shown = json.loads(result.output)
    problem = {"what": "It's broken.", "remedy": "Mend it.", "fails": grave}
    assert shown == {
        "fine": not grave,
        "findings": [{"title": "Bad", "facts": {}, "problems": [problem]}],
    }


def test_a_check_that_fails_is_a_problem_and_no_traceback(monkeypatch, healthy):
    def broken(finding):
        finding.facts["half"] = "a fact"
        raise ZeroDivisionError("by [zero]")

    monkeypatch.setattr(doctor, "checks", lambda *_: {"Broken": broken, **healthy})
    result = run("doctor")
    assert result.exit_code == 0
    assert "Traceback" not in result.output
    assert "a fact" in result.output
    assert "This check failed (ZeroDivisionError: by [zero])." in result.output
    assert "all" in result.output  # the next one is done nevertheless


def test_every_check_works_here():
    shown = json.loads(run("doctor", "--no-engine", "--json").output)
    assert {finding["title"] for finding in shown["findings"]} == set(doctor.checks(False))
    assert all(finding["facts"] for finding in shown["findings"])
    text = json.dumps(shown)
    assert "This check failed" not in text
    assert metadata.version("pymc") in text


def test_it_starts_without_the_engine():
    program = (
        "import sys; from kem_pymc.cli import doctor; doctor.checks(True);"
        "sys.exit(bool({'pymc', 'pytensor', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


class TestVersions:
    @pytest.fixture
    def needs(self, monkeypatch):
        def set_needs(*lines):
            monkeypatch.setattr(metadata, "requires", lambda *_: list(lines))

        return set_needs

    def test_out_of_range(self, needs):
        needs("numpy<2", "rich>=1")
        finding, text = found(software.versions)
        version = metadata.version("numpy")
        assert finding.facts["numpy"] == version
        assert f"numpy {version} is out of range (<2)." in text
        assert 'pip install "numpy<2"' in text
        assert len(finding.problems) == 1
        assert fails(finding)

    def test_missing(self, needs):
        needs("no-such-distribution>=1")
        finding, text = found(software.versions)
        assert "no-such-distribution isn't installed" in text
        assert fails(finding)

    def test_extras_may_be_missing_but_not_out_of_range(self, needs):
        needs('no-such-distribution; extra == "cluster"', 'rich<1; extra == "cluster"')
        finding, text = found(software.versions)
        assert "no-such" not in text
        assert "rich" in text
        assert not fails(finding)

    def test_python_out_of_range(self, needs, monkeypatch):
        needs()
        monkeypatch.setattr(metadata, "metadata", lambda *_: {"Requires-Python": ">=99"})
        finding, text = found(software.versions)
        assert "out of range (>=99)" in text
        assert fails(finding)


class TestInstallation:
    def test_of_this_one(self):
        finding, text = found(software.installation)
        assert text == ""
        assert finding.facts["imported from"] == str(software.PACKAGE)

    def test_a_source_tree_before_the_installed_one(self, monkeypatch, tmp_path):
        monkeypatch.setattr(software, "PACKAGE", tmp_path / "tree/kem_pymc")
        finding, text = found(software.installation)
        assert f"comes from {tmp_path / 'tree'}, but the installed one is at" in text
        assert not fails(finding)

    def test_an_installation_that_isnt_editable(self, monkeypatch, tmp_path):
        place = SimpleNamespace(read_text=lambda *_: None, locate_file=lambda *_: tmp_path)
        monkeypatch.setattr(metadata, "distribution", lambda *_: place)
        monkeypatch.setattr(software, "PACKAGE", tmp_path / "kem_pymc")
        finding, _ = found(software.installation)
        assert finding.facts["installed"] == f"in {tmp_path}"
        assert "installed one" not in str(finding.problems)

    def test_two_copies(self, monkeypatch, tmp_path):
        (tmp_path / "kem_pymc").mkdir()
        (tmp_path / "kem_pymc/__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        _, text = found(software.installation)
        assert f"Other copies of kem_pymc are on Python's path, in {tmp_path}." in text


def test_numba_that_doesnt_compile(monkeypatch):
    assert found(software.numba)[1] == ""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    finding, text = found(software.numba)
    assert "Unset NUMBA_DISABLE_JIT" in text
    assert fails(finding)


class TestPyTensor:
    def test_slow_linkers(self, monkeypatch):
        assert found(software.pytensor)[1] == ""
        with pytensor.config.change_flags(linker="py", mode="Mode"):
            finding, text = found(software.pytensor)
        assert "runs its graphs in Python" in text or "no C++ compiler" in text
        assert not fails(finding)

    def test_without_compiler(self):
        with pytensor.config.change_flags(linker="vm", mode="Mode", cxx=""):
            _, text = found(software.pytensor)
        assert "no C++ compiler" in text

    def test_a_folder_it_cant_write_to(self, monkeypatch):
        monkeypatch.setattr(os, "access", lambda *_: False)
        finding, text = found(software.pytensor)
        assert "PyTensor can't write to" in text
        assert fails(finding)


class TestMachine:
    def test_cores_and_memory(self, monkeypatch):
        monkeypatch.setattr("loky.cpu_count", lambda: 3)
        memory = SimpleNamespace(available=4_000_000_000, total=8_000_000_000)
        monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
        finding, text = found(hardware.cores)
        assert finding.facts["cores"].startswith("3 of ")
        assert finding.facts["memory"] == "4.0 GB of 8.0 GB available"
        assert text == ""

    def test_low_memory(self, monkeypatch):
        memory = SimpleNamespace(available=200_000_000, total=8_000_000_000)
        monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
        finding, text = found(hardware.cores)
        assert "Only 200.0 MB of memory" in text
        assert not fails(finding)

    def test_threads_of_linear_algebra(self, monkeypatch):
        pool = {"internal_api": "openblas", "filepath": "/lib/x.libs/x.so", "num_threads": 4}
        monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: [pool])
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        finding, text = found(hardware.threads)
        assert finding.facts["openblas x.libs"].startswith("4 threads")
        assert finding.facts["OMP_NUM_THREADS"] == "3"
        assert text == ""

    @pytest.mark.parametrize(
        ("free", "shown", "grave"), [(5e8, 3, False), (1e6, 3, True), (5e9, 0, False)]
    )
    def test_little_room(self, monkeypatch, free, shown, grave):
        monkeypatch.setattr(hardware.shutil, "disk_usage", lambda *_: SimpleNamespace(free=free))
        finding, _ = found(hardware.disk)
        assert len(finding.problems) == shown
        assert fails(finding) == grave

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "no such encoding"])
    def test_terminal_without_unicode(self, monkeypatch, encoding):
        monkeypatch.setattr(sys, "__stdout__", SimpleNamespace(encoding=encoding))
        finding, text = found(hardware.terminal)
        assert "PYTHONUTF8=1" in text
        assert not fails(finding)

    def test_terminal_with_unicode(self, monkeypatch):
        monkeypatch.setattr(sys, "__stdout__", SimpleNamespace(encoding="utf-8"))
        assert found(hardware.terminal)[1] == ""


class TestCompiledCode:
    @pytest.fixture
    def folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("KEM_CACHE", str(tmp_path / "cache"))
        return tmp_path / "cache"

    def test_of_other_versions_is_counted(self, folder):
        folder.mkdir()
        for name, stamp in {"a": "old", "b": code_cache.source_stamp()}.items():
            written = code_cache.IndexDataCacheFile(str(folder), name, stamp)
            written._save_index({})
        (folder / "c.nbi").write_bytes(b"half")
        finding, text = found(files.code_cache)
        assert finding.facts["functions"] == "1 compiled, 2 of other versions"
        assert "3 files" in finding.facts["size"]
        assert "KEM_CACHE" in finding.facts["folder"]
        assert text == ""

    def test_nothing_compiled_yet(self, folder):
        assert "the first run takes minutes" in found(files.code_cache)[0].facts["functions"]

    def test_a_folder_that_isnt_writable(self, folder):
        folder.write_text("a file in its place")
        finding, text = found(files.code_cache)
        assert f"can't be saved in {folder}" in text
        assert fails(finding)

    @pytest.mark.usefixtures("folder")
    def test_a_network_file_system(self, monkeypatch):
        monkeypatch.setattr(resources, "file_system", lambda *_: "nfs4")
        finding, text = found(files.code_cache)
        assert "network file system (nfs4)" in text
        assert not fails(finding)


class TestData:
    @pytest.fixture
    def home(self, monkeypatch, tmp_path):
        monkeypatch.setenv("KEM_DATA", str(tmp_path))
        return tmp_path

    def test_what_is_missing_is_reported_by_the_loaders(self, home):
        finding, text = found(files.data)
        assert set(finding.facts) - {"folder"} == set(files.loaders())
        for name, place in {"energy": "uci/energy_efficiency.csv", "mimic": "mimic/"}.items():
            assert f"There is no file {home / place}" in finding.facts[name]
        assert text == ""

    def test_a_file_that_cant_be_read(self, home):
        (home / "uci").mkdir()
        (home / "uci/energy_efficiency.csv").write_text("a,b\n1,2\n")
        finding, text = found(files.data)
        assert finding.facts["energy"] == "can't be read"
        assert text.startswith("energy: ")
        assert not fails(finding)

    def test_all_files_of_mimic_are_looked_for(self, home):
        (home / "mimic").mkdir()
        for name in ("ADMISSIONS.csv", "INPUTEVENTS_MV.csv.gz", "INPUTEVENTS_CV.csv"):
            (home / "mimic" / name).touch()
        assert "CHARTEVENTS" in found(files.data)[0].facts["mimic"]
        (home / "mimic/CHARTEVENTS.csv.gz").touch()
        assert found(files.data)[0].facts["mimic"] == "available"

    def test_no_folder(self, home, monkeypatch):
        monkeypatch.setenv("KEM_DATA", str(home / "none"))
        assert "KEM_DATA names" in found(files.data)[1]
        monkeypatch.delenv("KEM_DATA")
        monkeypatch.setenv("HOME", str(home))
        finding, text = found(files.data)
        assert finding.facts["folder"] == f"{home / 'kem_data'} (the default)"
        assert text == ""


class TestEngine:
    def test_it_agrees_with_the_formula(self):
        assert engine.difference() < engine.CLOSE

    @pytest.mark.integration
    def test_in_its_own_process(self):
        finding, text = found(engine.engine)
        assert text == ""
        assert "differs from the formula by" in finding.facts["likelihood"]

    @pytest.mark.parametrize(
        ("done", "words"),
        [
            ({"returncode": 0, "stdout": "0.5"}, "likelihood is wrong"),
            ({"returncode": 0, "stdout": "nan"}, "likelihood is wrong"),
            ({"returncode": 1, "stderr": "Traceback\nOSError: no room."}, "(OSError: no room)"),
            ({"returncode": 1}, "no error message"),
            ({"returncode": -11}, "crashed with signal 11"),
        ],
    )
    def test_what_goes_wrong(self, monkeypatch, done, words):
        outcome = SimpleNamespace(**{"stdout": "", "stderr": ""} | done)
        monkeypatch.setattr(engine.subprocess, "run", lambda *_, **__: outcome)
        finding, text = found(engine.engine)
        assert words in text
        assert fails(finding)

    def test_patience_ends(self, monkeypatch):
        def late(*_, **__):
            raise subprocess.TimeoutExpired("python", 1)

        monkeypatch.setattr(engine.subprocess, "run", late)
        finding, text = found(engine.engine)
        assert "wasn't compiled within" in text
        assert fails(finding)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1500, "2 KB"), (2.5e9, "2.5 GB"), (3e12, "3.0 TB")]
)
def test_sizes(count, text):
    assert size(count) == text


def test_findings_begin_empty():
    Finding("a").doubt("What.", "Remedy.")
    assert Finding("b").problems == []
