"""A two-level model and its users' data."""

from tests.shared.two_levels import model, users  # noqa: F401
