import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.link.numba.cache import NUMBA_CACHE_PATH

from kem_pymc import compiled as module
from kem_pymc.compiled import (
    PACKAGE,
    FunctionPointer,
    cache_folder,
    graph_function,
    pointer,
    scalar_function,
    source_stamp,
    types,
)
from kem_pymc.errors import InputError

UNARY = types.float64(types.float64)


def function(inputs, outputs):
    """A lowered expression as a pointer: of its inputs, and of an array for several outputs."""
    lowered, key = scalar_function(inputs, outputs, "expression")
    arguments = ", ".join(f"a{i}" for i in range(len(inputs)))
    if len(outputs) == 1:
        source = f"def f({arguments}):\n    return g({arguments})"
        signature = types.float64(*[types.float64] * len(inputs))
    else:
        source = f"def f({arguments}, out):\n    for i, v in enumerate(g({arguments})): out[i] = v"
        signature = types.void(*[types.float64] * len(inputs), types.float64[::1])
    return pointer(source, "f", signature, {"g": lowered}, key)


@numba.njit
def twice(f, x):
    return f(f(x))


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
        assert len(stamps) == 4

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
        return module._PackageCacheLocator.from_function

    def test_keeps_the_packages_functions_in_the_folder(self, locate, tmp_path):
        locator = locate(source_stamp.__wrapped__, str(PACKAGE / "compiled.py"))
        assert locator.get_cache_path() == str(tmp_path / "cache")
        assert (tmp_path / "cache").is_dir()
        assert locator.get_source_stamp() == source_stamp()

    def test_tells_functions_apart(self, locate):
        file = str(PACKAGE / "compiled.py")
        one, again, other = (locate(f, file) for f in (pointer, pointer, scalar_function))
        assert one.get_disambiguator() == again.get_disambiguator() != other.get_disambiguator()
        elsewhere = locate(pointer, str(PACKAGE / "cohort.py"))
        assert one.get_disambiguator() != elsewhere.get_disambiguator()

    def test_leaves_others_functions_alone(self, locate):
        assert locate(np.linalg.solve, np.linalg.__file__) is None

    def test_leaves_the_place_to_numba_where_it_cannot_write(self, locate, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("KEM_CACHE", str(tmp_path / "file" / "cache"))
        assert locate(pointer, str(PACKAGE / "compiled.py")) is None


class TestPointer:
    def test_called_from_python_and_from_compiled_code(self):
        x = pt.dscalar("x")
        f = function([x], [pt.exp(-x)])
        assert isinstance(f, FunctionPointer)
        assert f(0.5) == pytest.approx(np.exp(-0.5), rel=1e-15)
        assert twice(f, 0.5) == pytest.approx(np.exp(-np.exp(-0.5)), rel=1e-15)

    def test_callers_are_compiled_once_for_all_pointers_of_a_signature(self):
        x = pt.dscalar("x")
        assert twice(function([x], [x + 1]), 1.0) == 3.0
        before = twice.signatures
        assert twice(function([x], [3 * x]), 1.0) == 9.0
        assert twice.signatures == before

    @pytest.mark.parametrize(("key", "kept"), [("some key", True), ("", False)])
    def test_is_kept_on_disk_under_a_key(self, key, kept, tmp_path):
        # The folder's name is a new one each time, and so is the function's.
        name = "f_" + re.sub(r"\W", "", tmp_path.parent.name + tmp_path.name)
        f = pointer(f"def {name}(x):\n    return x + 1.0", name, UNARY, {}, key and f"{key} {name}")
        assert f(1.0) == 2.0
        files = list(Path(NUMBA_CACHE_PATH).glob(f"*{name}*"))
        assert bool(files) == kept
        for file in files:
            file.unlink()

    def test_sources_do_not_share_code_under_one_key(self):
        made = [
            pointer(f"def f(x):\n    return x + {n}", "f", UNARY, {}, "one key") for n in (1.0, 2.0)
        ]
        assert [f(0.0) for f in made] == [1.0, 2.0]


class TestScalarFunction:
    def test_several_outputs(self):
        x, y = pt.dscalars("x", "y")
        out = np.empty(3)
        function([x, y], [x * y, pt.sin(x), x])(2.0, 3.0, out)
        np.testing.assert_allclose(out, [6.0, np.sin(2.0), 2.0], rtol=1e-15)

    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            (lambda _: pt.constant(3), 3.0),
            (lambda x: x, 2.5),
            (lambda x: pt.gt(x, 2), 1.0),
            (lambda x: pt.switch(x > 3, x, 7), 7.0),
            (lambda x: pt.cast(x, "int8"), 2.0),
            (lambda x: pt.sum(x * np.array([2.0])), 5.0),
        ],
    )
    def test_results_are_floats(self, expression, value):
        # Only results of one type can be looped over, as `function` does.
        x, out = pt.dscalar("x"), np.empty(2)
        function([x], [expression(x), pt.exp(x)])(2.5, out)
        np.testing.assert_allclose(out, [value, np.exp(2.5)], rtol=1e-15)
        assert function([x], [expression(x)])(2.5) == value

    def test_key_identifies_the_expression(self):
        def key(expression):
            x, y = pt.dscalars("x", "y")
            return scalar_function([x, y], [expression(x, y)], "expression")[1]

        assert key(lambda x, y: x - 2 * y) == key(lambda x, y: x - 2 * y) != ""
        different = [
            lambda x, y: x - 2 * y,
            lambda x, y: y - 2 * x,
            lambda x, y: x - 3 * y,
            lambda x, y: x - y**2,
        ]
        assert len({key(expression) for expression in different}) == len(different)

    def test_what_only_python_can_evaluate_has_no_key(self):
        x = pt.dscalar("x")
        with pytest.warns(UserWarning, match="object mode"):
            _, key = scalar_function([x], [pt.tri_gamma(x)], "expression")
        assert key == ""

    @pytest.mark.parametrize(
        "expression",
        [
            lambda x: pt.stack([x, x]),
            lambda x: pt.max(pt.stack([x, x**2])),
            lambda x: pt.max(x * np.array([1.0, 2.0])),
        ],
    )
    def test_not_elementwise(self, expression):
        x = pt.dscalar("x")
        message = r"^COS is not elementwise, because .*\. Write it with [^.]*\.$"
        with pytest.raises(InputError, match=message):
            scalar_function([x], [expression(x)], "COS")


class TestGraphFunction:
    def test_any_graph_of_arrays(self):
        x = pt.dvector("x")
        lowered, key = graph_function([x], [pt.cumsum(x), pt.max(x)])
        source = "def f(x, out):\n    sums, largest = g(x)\n    out[:] = sums + largest.item()"
        signature = types.void(types.float64[::1], types.float64[::1])
        out = np.empty(3)
        pointer(source, "f", signature, {"g": lowered}, key)(np.array([1.0, 4.0, 2.0]), out)
        assert out.tolist() == [5.0, 9.0, 11.0]

    def test_generator_advances_in_place(self):
        generator = pt.random.type.random_generator_type("generator")
        _, draw = pt.random.normal(rng=generator, return_next_rng=True)
        lowered, key = graph_function([generator], [draw])
        signature = types.float64(module.GENERATOR)
        f = pointer("def f(r):\n    return g(r)[0].item()", "f", signature, {"g": lowered}, key)
        rng, same = np.random.default_rng(1), np.random.default_rng(1)
        got = [f(rng) for _ in range(3)]
        np.testing.assert_allclose(got, same.normal(size=3), rtol=1e-14)


GRADIENTS = """
import numpy as np
from kem_pymc import CandidatePool, Composition
from kem_pymc.gp.objective import Coordinates, Objective

pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
rng = np.random.default_rng(0)
coordinates = Coordinates(pool, Composition.parse("LIN0 + PER0 + SE0"))
objective = Objective(coordinates, rng.uniform(0, 30, (30, 1)), rng.normal(size=30))
for values in rng.normal(size=(20, len(coordinates))):
    print(*objective.terms(values), *objective.gradient(values))
"""


def test_code_from_the_cache_is_the_code_that_was_compiled(tmp_path):
    """To the last bit: a run that was killed goes on in another process."""
    environment = {**os.environ, "KEM_CACHE": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", GRADIENTS], env=environment, check=True, stdout=subprocess.PIPE
        ).stdout
        for _ in range(2)
    )
    assert len(first.split()) == 20 * (2 + 8)
    assert first == second
