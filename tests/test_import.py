import subprocess
import sys
from importlib import import_module

import pytest

import kem_pymc as kem


def test_import_is_light():
    program = "import sys, kem_pymc; sys.exit(bool({'pymc', 'numba', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("name", kem.__all__)
def test_every_public_name_is_there(name):
    assert getattr(kem, name) is not None
    assert name in dir(kem)


def test_homes_are_right():
    assert set(kem._HOMES) <= set(kem.__all__)
    for name in kem._HOMES:
        assert getattr(kem, name).__name__ == name


@pytest.mark.parametrize("package", ["data", "diagnostics", "gp", "kernels", "model", "selection"])
def test_every_name_of_a_subpackage_is_there(package):
    module = import_module(f"kem_pymc.{package}")
    assert all(getattr(module, name).__name__ == name for name in module.__all__)


def test_unknown_names():
    with pytest.raises(AttributeError, match="no attribute 'Kohort'"):
        kem.Kohort  # noqa: B018


def test_the_way_through():
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    assert len(pool) == 8
    assert kem.datasets.synthetic(users=2).n_users == 2
    assert isinstance(kem.priors.synthetic(), kem.Priors)
