"""How well the last time step of a selection was predicted before."""

from alembic import op
from sqlalchemy import Column, Text

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("selections", Column("outcome", Text))
