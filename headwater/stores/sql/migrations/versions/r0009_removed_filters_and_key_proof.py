"""Adds removed filters, whose values are kept for some time, and the secret key's proof."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "removed_filters",
        sa.Column("flow_id", sa.String(), nullable=False),
        sa.Column("uid", sa.String(), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"], name="fk_removed_filters_flow_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("flow_id", "uid", name="pk_removed_filters"),
    )
    op.create_table(
        "secret_key_proof",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_secret_key_proof"),
    )


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("secret_key_proof")
    op.drop_table("removed_filters")
