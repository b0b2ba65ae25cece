"""What the tests of the kernels share."""

import numpy as np
import pytensor.tensor as pt
import pytest

from kem_pymc.kernels import base


@pytest.fixture
def registry(monkeypatch):
    """A registry of base kernels to write in; the one before comes back after the test."""
    names = dict(base._REGISTRY)
    monkeypatch.setattr(base, "_REGISTRY", names)
    monkeypatch.setattr(base, "_RECEIVED", set())
    return names


@pytest.fixture
def empty_registry(registry):
    """One without the built-in kernels, which then needn't be compiled again."""
    registry.clear()
    return registry


@pytest.fixture
def few(registry):
    """One with the kernels LIN and SE alone, so that a further one is compiled with these only."""
    kept = {name: registry[name] for name in ("LIN", "SE")}
    registry.clear()
    registry.update(kept)


@pytest.fixture
def cosine(registry):
    """A base kernel that a user adds."""
    assert "COS" not in registry
    return base.register_kernel(
        base.BaseKernel("COS", ("period",), lambda x, z, p: pt.cos(2 * np.pi * (x - z) / p))
    )
