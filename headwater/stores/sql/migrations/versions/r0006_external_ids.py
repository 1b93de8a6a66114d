"""Adds external_id, an identifier that the owner chooses for a configuration."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.add_column("flows", sa.Column("external_id", sa.Text()))
    op.create_index("uq_flows_external_id", "flows", ["owner", "external_id"], unique=True)


def downgrade() -> None:
    """Undo this revision."""
    op.drop_index("uq_flows_external_id", "flows")
    op.drop_column("flows", "external_id")
