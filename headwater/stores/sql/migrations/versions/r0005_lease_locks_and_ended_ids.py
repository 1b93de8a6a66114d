"""Adds the locks of lease holders, and the ids that an operator recorded as ended."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    for name in ("lock", "failing"):
        op.add_column("leases", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "tombstones",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("confirmed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tombstones"),
    )


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("tombstones")
    for name in ("failing", "lock"):
        op.drop_column("leases", name)
