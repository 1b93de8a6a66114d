"""Adds stable and retired revisions, rotated credentials, and log lines of workers."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COUNTERS = ("credentials", "observed_credentials")


def upgrade() -> None:
    """Bring the tables to this revision. The revision that a deployment runs counts as stable."""
    # The columns are added one by one: on SQLite a batch rebuilds the table, and dropping the old one would cascade.
    op.add_column("deployments", sa.Column("stable_revision", sa.Integer()))
    for name in COUNTERS:
        op.add_column("deployments", sa.Column(name, sa.Integer(), nullable=False, server_default="1"))
    op.execute(sa.text("UPDATE deployments SET stable_revision = observed_revision"))
    op.add_column("deployment_revisions", sa.Column("retired", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "worker_logs",
        sa.Column("deployment_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_worker_logs_deployment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("deployment_id", "number", name="pk_worker_logs"),
    )


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("worker_logs")
    op.drop_column("deployment_revisions", "retired")
    for name in ("stable_revision", *COUNTERS):
        op.drop_column("deployments", name)
