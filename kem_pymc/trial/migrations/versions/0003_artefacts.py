"""What artefacts that were learned anew were learned from, and how they differ."""

from alembic import op
from sqlalchemy import Column, Text

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("artefacts", Column("about", Text))
