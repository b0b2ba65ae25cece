import pickle
import re
from pathlib import Path

import numba
import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.link.numba.cache import NUMBA_CACHE_PATH

from kem_pymc._system.jit.decorators import (
    GENERATOR,
    Compiled,
    FunctionPointer,
    graph_function,
    pointer,
    scalar_function,
    types,
)
from kem_pymc.errors import InputError
from tests.refusals import refused

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


def least(x, limit=1.0):
    return min(x, limit)


least = Compiled(least)


@Compiled
def least_of_two(x, y):
    return least(x) + least(y, 10.0)


@Compiled
def inside(x):
    return 2 * x


@Compiled
def outside(x):
    return inside(x) + 1


@Compiled
def positive(x):
    if x <= 0:
        raise ValueError("x isn't positive")
    return x


@Compiled
def square(x):
    return positive(x) ** 2


class TestCompiled:
    def test_called_from_python_and_from_compiled_code(self):
        assert least(3.0) == 1.0
        assert least(3.0, 2.0) == 2.0
        assert least_of_two(3.0, 7.0) == 8.0

    def test_only_what_python_calls_gets_an_entry_point(self):
        assert outside(4) == 9
        assert len(outside.entry.overloads) == 1
        assert not outside.inner.overloads
        assert not inside.entry.overloads

    def test_inner_code_is_machine_code_in_its_callers_only(self):
        # Otherwise, callers that don't inline it run code that wasn't optimised.
        inside.inner.compile((numba.float32,))
        made = inside.inner.overloads[numba.float32,]
        engine = made.library._codegen._engine
        assert made.fndesc.mangled_name in [f.name for f in made.library.get_defined_functions()]
        assert not engine.is_symbol_defined(made.fndesc.mangled_name)

    def test_inner_code_from_the_cache_is_the_same(self):
        inside.inner.compile((numba.float32,))
        made = inside.inner.overloads[numba.float32,]
        impl = inside.inner._cache._impl
        payload = pickle.loads(pickle.dumps(impl.reduce(made)))
        loaded = impl.rebuild(made.target_context, payload)
        bitcode, expected = (f.library._final_module.as_bitcode() for f in (loaded, made))
        assert bitcode == expected
        assert loaded.signature == made.signature

    def test_inner_code_raises_errors(self):
        assert square(3.0) == 9.0
        with pytest.raises(ValueError, match="isn't positive"):
            square(-1.0)

    def test_is_pickled_by_name(self):
        assert pickle.loads(pickle.dumps(least)) is least


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
        signature = types.float64(GENERATOR)
        f = pointer("def f(r):\n    return g(r)[0].item()", "f", signature, {"g": lowered}, key)
        rng, same = np.random.default_rng(1), np.random.default_rng(1)
        got = [f(rng) for _ in range(3)]
        np.testing.assert_allclose(got, same.normal(size=3), rtol=1e-14)


def test_without_compilation_the_remedy_is_said(monkeypatch):
    """Numba would return the Python function, which has no address for compiled callers."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    refused(lambda: Compiled(np.sin), "NUMBA_DISABLE_JIT")
