"""Adds one-time codes for signing in, and marks the API keys for which they were exchanged."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "sign_in_codes",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sign_in_codes"),
    )
    op.add_column("api_keys", sa.Column("is_from_code", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Undo this revision. API keys for which codes were exchanged stay valid until they expire."""
    op.drop_column("api_keys", "is_from_code")
    op.drop_table("sign_in_codes")
