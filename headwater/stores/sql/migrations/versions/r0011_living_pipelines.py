"""Adds stored positions, who saved a revision and when it was deployed, and redrives of dead letters."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.add_column("deployments", sa.Column("positions", sa.Text()))
    op.add_column("deployments", sa.Column("rewind", sa.Text()))
    op.add_column("deployments", sa.Column("gaps", sa.Text()))
    op.add_column("flow_revisions", sa.Column("saved_by", sa.String(), nullable=False, server_default=""))
    op.add_column("deployment_revisions", sa.Column("deployed_at", sa.DateTime(timezone=True)))
    op.add_column("deployment_revisions", sa.Column("condition", sa.String()))
    op.create_table(
        "redrives",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("flow_id", sa.String(), nullable=False),
        sa.Column("deployment_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("requested", sa.BigInteger(), nullable=False),
        sa.Column("delivered", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_redrives_deployment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_redrives"),
    )
    op.create_index("ix_redrives_deployment_id", "redrives", ["deployment_id"])


def downgrade() -> None:
    """Undo this revision. Positions of paused pipelines are lost."""
    op.drop_table("redrives")
    with op.batch_alter_table("deployment_revisions") as table:
        table.drop_column("condition")
        table.drop_column("deployed_at")
    with op.batch_alter_table("flow_revisions") as table:
        table.drop_column("saved_by")
    with op.batch_alter_table("deployments") as table:
        table.drop_column("gaps")
        table.drop_column("rewind")
        table.drop_column("positions")
