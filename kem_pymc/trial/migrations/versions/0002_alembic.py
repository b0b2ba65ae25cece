"""The version of the tables is known to Alembic alone."""

from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    """Drop the column that held the version."""
    op.drop_column("trial", "version")
