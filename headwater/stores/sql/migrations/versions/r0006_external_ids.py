"""Configurations have a name of their owner's own: external_id."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision. No configuration has an external_id yet."""
    op.add_column("flows", sa.Column("external_id", sa.Text()))
    op.create_index("uq_flows_external_id", "flows", ["owner", "external_id"], unique=True)


def downgrade() -> None:
    """Take it back."""
    op.drop_index("uq_flows_external_id", "flows")
    op.drop_column("flows", "external_id")
