"""Adds the number of workers that the controller has chosen for a deployment."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.add_column("deployments", sa.Column("scaling", sa.Text()))


def downgrade() -> None:
    """Undo this revision.

    Pipelines with bounds can't be read by an older version until they are saved with a number.
    """
    # A batch would replace the table, and SQLite would delete the rows that refer to it.
    op.drop_column("deployments", "scaling")
