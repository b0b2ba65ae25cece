"""What tests of several moves use."""

import pytest

from tests.sampler.moves.decisions import interpret  # noqa: F401


@pytest.fixture
def model(engine):
    """A study whose likelihood has a power, which a ratio could forget."""
    return engine.model._replace(power=0.7)
