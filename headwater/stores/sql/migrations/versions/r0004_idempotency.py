"""Adds the table of requests with an Idempotency-Key and their stored responses."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "calls",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("holder", sa.String()),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body_sha256", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
    )
    op.create_index("ix_calls_expires_at", "calls", ["expires_at"])


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("calls")
