"""When a deployment ended, so that its row can be removed some time after."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision. Of deployments that ended before only the creation is known."""
    op.add_column("deployments", sa.Column("ended_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("deployments") as table:
        table.drop_column("ended_at")
