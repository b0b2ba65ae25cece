import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from types import ModuleType

import numpy as np
import pytest

from kem_pymc._system.jit import cache as module
from kem_pymc._system.jit.cache import PACKAGE, cache_folder, source_stamp
from kem_pymc._system.jit.decorators import pointer, scalar_function


class TestSourceStamp:
    @pytest.fixture
    def package(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "PACKAGE", tmp_path)
        (tmp_path / "gp").mkdir()
        (tmp_path / "plots").mkdir()
        (tmp_path / "gp" / "likelihood.py").write_text("@compiled\ndef one(): ...")
        source_stamp.cache_clear()
        yield tmp_path
        source_stamp.cache_clear()

    def stamp(self):
        source_stamp.cache_clear()
        return source_stamp()

    @pytest.mark.usefixtures("package")
    def test_stays_while_the_sources_do(self):
        assert self.stamp() == self.stamp()

    def test_changes_with_compiled_functions_and_the_types_they_take(self, package):
        stamps = {self.stamp()}
        (package / "gp" / "likelihood.py").write_text("@compiled\ndef two(): ...")
        stamps.add(self.stamp())
        (package / "plots" / "new.py").write_text("@compiled\ndef three(): ...")
        stamps.add(self.stamp())
        (package / "state.py").write_text("class State(NamedTuple): ...")
        stamps.add(self.stamp())
        (package / "inlined.py").write_text("@inlined\ndef four(): ...")
        stamps.add(self.stamp())
        assert len(stamps) == 5

    def test_covers_every_source_that_is_compiled(self):
        """An inlined function, too, is part of what its callers were compiled to."""
        for path in PACKAGE.rglob("*.py"):
            source = path.read_bytes()
            for line in source.splitlines():
                if line.startswith((b"@compiled", b"@inlined", b"@numba_njit")):
                    assert any(mark in source for mark in module.MARKS), path
        assert b"@compiled" not in (PACKAGE / "sampler/moves/local.py").read_bytes()

    @pytest.mark.parametrize("name", ["cli.py", "gp/__init__.py", "plots/notes.txt"])
    def test_does_not_change_with_what_is_never_compiled(self, name, package):
        before = self.stamp()
        (package / name).write_text("def anything(): ...")
        assert self.stamp() == before


class TestCache:
    def test_folder(self, monkeypatch, tmp_path):
        monkeypatch.setenv("KEM_CACHE", str(tmp_path / "own"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_folder() == tmp_path / "own"
        monkeypatch.delenv("KEM_CACHE")
        assert cache_folder() == tmp_path / "xdg" / "kem_pymc"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path.home() / ".cache" / "kem_pymc"

    @pytest.fixture
    def locate(self, monkeypatch, tmp_path):
        monkeypatch.setenv("KEM_CACHE", str(tmp_path / "cache"))
        return module.PackageCacheLocator.from_function

    def test_keeps_the_packages_functions_in_the_folder(self, locate, tmp_path):
        locator = locate(
            source_stamp.__wrapped__, str(PACKAGE / "_system" / "jit" / "decorators.py")
        )
        assert locator.get_cache_path() == str(tmp_path / "cache")
        assert (tmp_path / "cache").is_dir()
        assert locator.get_source_stamp() == source_stamp()

    def test_tells_functions_apart(self, locate):
        file = str(PACKAGE / "_system" / "jit" / "decorators.py")
        one, again, other = (locate(f, file) for f in (pointer, pointer, scalar_function))
        assert one.get_disambiguator() == again.get_disambiguator() != other.get_disambiguator()
        elsewhere = locate(pointer, str(PACKAGE / "data" / "cohort.py"))
        assert one.get_disambiguator() != elsewhere.get_disambiguator()

    def test_leaves_others_functions_alone(self, locate):
        assert locate(np.linalg.solve, np.linalg.__file__) is None

    def test_leaves_the_place_to_numba_where_it_cannot_write(self, locate, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("KEM_CACHE", str(tmp_path / "file" / "cache"))
        assert locate(pointer, str(PACKAGE / "_system" / "jit" / "decorators.py")) is None


class TestFiles:
    @pytest.fixture
    def files(self, tmp_path):
        return lambda: module._CacheFiles(str(tmp_path), "function", "stamp")

    def test_of_two_signatures_saved_at_the_same_time_are_two(self, files, monkeypatch):
        one, other = files(), files()
        save = one._save_data

        def interrupted(name, data):
            other.save("their signature", "their code")
            save(name, data)

        monkeypatch.setattr(one, "_save_data", interrupted)
        one.save("my signature", "my code")
        assert files().load("my signature") == "my code"
        assert files().load("their signature") == "their code"

    def test_are_there_before_the_index_tells_of_them(self, files, monkeypatch):
        one = files()
        save = one._save_data

        def looked_for(name, data):
            assert files().load("signature") is None
            assert "signature" not in files()._load_index()
            save(name, data)

        monkeypatch.setattr(one, "_save_data", looked_for)
        one.save("signature", "code")
        assert files().load("signature") == "code"

    def test_of_two_versions_at_the_same_time_are_two(self, files, monkeypatch, tmp_path):
        new = module._CacheFiles(str(tmp_path), "function", "new stamp")
        save = new._save_index

        def interrupted(overloads):
            files().save("signature", "old code")
            save(overloads)

        monkeypatch.setattr(new, "_save_index", interrupted)
        new.save("signature", "new code")
        assert module._CacheFiles(str(tmp_path), "function", "new stamp").load("signature") in (
            None,
            "new code",
        )

    def test_whose_types_no_longer_exist_are_replaced(self, files, monkeypatch):
        gone = ModuleType("gone")
        gone.Reference = type("Reference", (), {"__module__": "gone"})
        monkeypatch.setitem(sys.modules, "gone", gone)
        files().save(gone.Reference(), "code")
        monkeypatch.delitem(sys.modules, "gone")
        assert files().load("signature") is None
        files().save("signature", "new code")
        assert files().load("signature") == "new code"

    def test_are_replaced_where_the_sources_changed(self, files, tmp_path):
        files().save("signature", "code")
        module._CacheFiles(str(tmp_path), "function", "new stamp").save("signature", "new code")
        assert files().load("signature") is None
        assert len(list(tmp_path.glob("*.nbc"))) == 1


HOLDING = """
import sys
from pathlib import Path
from kem_pymc._system.jit.cache import only_here

with only_here(Path(sys.argv[1]), "function"):
    print("begun", flush=True)
    sys.stdin.read()
"""


def test_processes_wait_for_one_that_compiles_the_same(tmp_path, monkeypatch):
    """Catches code that two processes compile at once, and waits for another function's."""
    pytest.importorskip("fcntl")
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with module.only_here(tmp_path, "another function"):
            pass
        entered = Event()

        def wait():
            with module.only_here(tmp_path, "function"):
                entered.set()

        waiting = Thread(target=wait)
        waiting.start()
        assert not entered.wait(0.2)
        with monkeypatch.context() as patch:  # it may be stopped for ever
            patch.setattr(module, "WAIT", 0.1)
            with module.only_here(tmp_path, "function"):
                pass
        other.stdin.close()
        waiting.join()
    assert entered.is_set()


def test_without_locks_nobody_waits(monkeypatch, tmp_path):
    with module.only_here(tmp_path / "absent", "function"):
        pass
    monkeypatch.setattr(module, "fcntl", None)
    with module.only_here(tmp_path, "function"):
        pass


def in_new_process(cache, *script):
    """What Python prints, with a cache folder of its own."""
    return subprocess.run(
        [sys.executable, *script],
        env={**os.environ, "KEM_CACHE": str(cache)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


GRADIENTS = """
import numpy as np
from kem_pymc import CandidatePool, Composition
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective

pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
rng = np.random.default_rng(0)
coordinates = Coordinates(pool, Composition.parse("LIN0 + PER0 + SE0"))
objective = Objective(coordinates, rng.uniform(0, 30, (30, 1)), rng.normal(size=30))
for values in rng.normal(size=(20, len(coordinates))):
    print(*objective.terms(values), *objective.evaluate(values[None])[1][0])
"""


@pytest.mark.slow
@pytest.mark.integration
def test_code_from_the_cache_is_the_code_that_was_compiled(tmp_path):
    """To the last bit: a run that was killed goes on in another process."""
    first, second = (in_new_process(tmp_path, "-c", GRADIENTS) for _ in range(2))
    assert len(first.split()) == 20 * (2 + 8)
    assert first == second
