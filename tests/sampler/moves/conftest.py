"""What tests of several moves use."""

from tests.sampler.moves.decisions import interpret  # noqa: F401
