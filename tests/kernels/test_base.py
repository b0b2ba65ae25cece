import numpy as np
import pytensor.tensor as pt
import pytest

from kem_pymc.kernels.base import (
    BUILT_IN,
    KINDS,
    SE,
    BaseKernel,
    base_kernel,
    base_kernels,
    receive_kernel,
    register_kernel,
)
from tests.refusals import refused


def product(x, z):
    return x * z


def product_of_three(x, z, period):
    return x * z * period


def test_built_in_kernels_have_the_papers_hyperparameters():
    assert {k.name: k.hyperparameters for k in base_kernels()} == {
        "LIN": ("shift",),
        "PER": ("lengthscale", "period"),
        "SE": ("lengthscale",),
        "RQ": ("lengthscale", "mixture"),
        "MATERN32": ("lengthscale",),
        "MATERN52": ("lengthscale",),
        "CAT": (),
        "PS": ("lengthscale", "period"),
        "MATERN12": ("lengthscale",),
    }
    assert base_kernel("SE") is SE
    refused(lambda: base_kernel("SQ"), "'SQ'", "LIN, PER, SE")


@pytest.mark.parametrize(
    "name", ["", "se", "1SE", "S E", "SE_", "SÉ", "ARD", "WHITE", "CONST", "CONST2"]
)
def test_name_that_would_not_read_back(name):
    refused(lambda: BaseKernel(name, (), product), repr(name))


@pytest.mark.parametrize(
    ("kinds", "real", "word"),
    [
        *(((kind,), (), repr(kind)) for kind in ("amplitude", "noise", "stay", "Width", "a.b", "")),
        *((("lengthscale",), (kind,), repr(kind)) for kind in ("width", "lengthscale")),
        (("period", "shift", "period"), (), "two hyperparameters"),
    ],
)
def test_kinds_that_mean_something_else(kinds, real, word):
    """Reserved words, built-in kinds or others' that are said to be real, and one kind twice."""
    refused(lambda: BaseKernel("COS", kinds, product, real=real), "COS", word)


def test_kinds_of_ones_own_are_positive_unless_it_says_so():
    kernel = BaseKernel("GATE", ("location", "width", "shift"), product, real=("location",))
    assert [kernel.positive(kind) for kind in kernel.hyperparameters] == [False, True, False]
    assert [kind for kind, positive in KINDS.items() if not positive] == ["shift"]


class TestRegister:
    def test_new_kernel_comes_last(self, cosine):
        assert base_kernel("COS") is cosine
        assert base_kernels()[-1] is cosine

    @pytest.mark.usefixtures("registry")
    def test_registering_twice_changes_nothing(self):
        before = base_kernels()
        register_kernel(SE)
        assert base_kernels() == before

    # SE1 on dimension 0 prints as SE on dimension 10 does; MATERN3 on dimension 2 as MATERN32.
    @pytest.mark.usefixtures("registry")
    @pytest.mark.parametrize(
        ("name", "other"), [("SE", "SE"), ("SE1", "SE"), ("MATERN3", "MATERN32")]
    )
    def test_name_that_reads_as_another(self, name, other):
        before = base_kernels()
        refused(lambda: register_kernel(BaseKernel(name, (), product)), f"{name} ", f"{other}.")
        assert base_kernels() == before

    @pytest.mark.usefixtures("registry")
    @pytest.mark.parametrize("name", ["SEA", "LI", "PER2X"])
    def test_name_that_only_looks_alike(self, name):
        kernel = register_kernel(BaseKernel(name, (), product))
        assert base_kernel(name) is kernel

    def test_the_same_lines_run_twice_change_nothing(self, cosine):
        same = BaseKernel("COS", ("period",), lambda x, z, p: pt.cos(2 * np.pi * (x - z) / p))
        assert register_kernel(same) is cosine
        assert base_kernel("COS") is cosine

    @pytest.mark.parametrize(
        ("hyperparameters", "expression"),
        [
            (("period",), lambda x, z, p: pt.cos(2.0000001 * np.pi * (x - z) / p)),
            (("lengthscale",), lambda x, z, p: pt.cos(2 * np.pi * (x - z) / p)),
        ],
    )
    def test_edited_lines_replace_it_in_its_place(self, cosine, hyperparameters, expression):
        other = BaseKernel("SECOND", (), product)
        register_kernel(other)
        edited = register_kernel(BaseKernel("COS", hyperparameters, expression))
        assert base_kernel("COS") is edited is not cosine
        assert base_kernels()[-2:] == (edited, other)

    @pytest.mark.usefixtures("registry")
    def test_built_in_kernels_are_all_kept(self):
        assert {k.name for k in base_kernels()} == BUILT_IN
        for name in BUILT_IN:
            refused(lambda name=name: register_kernel(BaseKernel(name, (), product)), name)

    def test_another_process_does_not_replace_what_was_registered_here(self, cosine):
        refused(lambda: receive_kernel(BaseKernel("COS", ("period",), product_of_three)), "COS")
        receive_kernel(BaseKernel("COS", ("period",), cosine.expression))
        assert base_kernel("COS") is cosine

    @pytest.mark.usefixtures("registry")
    def test_another_process_may_send_a_kernel_anew(self):
        for expression in (product_of_three, lambda x, z, p: x * z / p):
            receive_kernel(BaseKernel("COS", ("period",), expression))
            assert base_kernel("COS").expression is expression
