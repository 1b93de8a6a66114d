"""Adds the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INDEXED = ("at", "owner", "object")


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("key_id", "ip", "request_id", "action")),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("owner", "object")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("before", "after")),
        sa.Column("state", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    for name in INDEXED:
        op.create_index(f"ix_audit_{name}", "audit", [name])


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("audit")
