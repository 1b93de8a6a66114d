"""Adds the time at which a deployment ended, so that its row can be deleted later."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision.

    The column stays NULL for deployments that ended before.
    """
    op.add_column("deployments", sa.Column("ended_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Undo this revision."""
    # A batch would replace the table, and SQLite would delete the rows that refer to it.
    op.drop_column("deployments", "ended_at")
