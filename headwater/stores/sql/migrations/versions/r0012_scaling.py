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

    An older version can't read a configuration whose `parallelism` has bounds, until it is saved with a number of
    workers.
    """
    # A batch would replace the table, and SQLite would delete the rows that refer to it.
    op.drop_column("deployments", "scaling")
