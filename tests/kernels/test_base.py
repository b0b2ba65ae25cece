import pytest

from kem_pymc.kernels.base import (
    KINDS,
    SE,
    BaseKernel,
    base_kernel,
    base_kernels,
    register,
)
from tests.refusals import refused


def product(x, z):
    return x * z


def test_only_the_shift_may_be_negative():
    assert [kind for kind, positive in KINDS.items() if not positive] == ["shift"]


def test_built_in_kernels_have_the_papers_hyperparameters():
    assert {k.name: k.hyperparameters for k in base_kernels()} == {
        "LIN": ("shift",),
        "PER": ("lengthscale", "period"),
        "SE": ("lengthscale",),
        "RQ": ("lengthscale", "mixture"),
        "MATERN32": ("lengthscale",),
        "MATERN52": ("lengthscale",),
    }
    assert base_kernel("SE") is SE


def test_unknown_kernel():
    refused(lambda: base_kernel("SQ"), "'SQ'", "LIN, PER, SE")


@pytest.mark.parametrize("name", ["", "se", "1SE", "S E", "SE_", "SÉ", "ARD", "WHITE"])
def test_name_that_would_not_read_back(name):
    refused(lambda: BaseKernel(name, (), product), repr(name))


@pytest.mark.parametrize("kind", ["amplitude", "width"])
def test_unknown_kind(kind):
    refused(lambda: BaseKernel("COS", (kind,), product), repr(kind), "lengthscale, period")


def test_two_hyperparameters_of_one_kind_would_share_a_name():
    refused(lambda: BaseKernel("COS", ("period", "shift", "period"), product), "COS")


class TestRegister:
    def test_new_kernel_comes_last(self, cosine):
        assert base_kernel("COS") is cosine
        assert base_kernels()[-1] is cosine

    @pytest.mark.usefixtures("registry")
    def test_registering_twice_changes_nothing(self):
        before = base_kernels()
        register(SE)
        assert base_kernels() == before

    # SE1 on dimension 0 prints as SE on dimension 10 does; MATERN3 on dimension 2 as MATERN32.
    @pytest.mark.usefixtures("registry")
    @pytest.mark.parametrize(
        ("name", "other"), [("SE", "SE"), ("SE1", "SE"), ("MATERN3", "MATERN32")]
    )
    def test_name_that_reads_as_another(self, name, other):
        before = base_kernels()
        refused(lambda: register(BaseKernel(name, (), product)), f"{name} ", f"{other}.")
        assert base_kernels() == before

    @pytest.mark.usefixtures("registry")
    @pytest.mark.parametrize("name", ["SEA", "LI", "PER2X"])
    def test_name_that_only_looks_alike(self, name):
        kernel = register(BaseKernel(name, (), product))
        assert base_kernel(name) is kernel
