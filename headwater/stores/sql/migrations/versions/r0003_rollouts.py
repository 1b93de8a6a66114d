"""Stable revisions, retired revisions, rotated credentials, and workers' log lines."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COUNTERS = ("credentials", "observed_credentials")


def upgrade() -> None:
    """Bring the tables to this revision. A deployment that ran was asked for nothing else: its revision is stable."""
    # Added one by one: a batch makes a table anew on SQLite, and dropping the old one would cascade.
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
    """Take it back."""
    op.drop_table("worker_logs")
    op.drop_column("deployment_revisions", "retired")
    for name in ("stable_revision", *COUNTERS):
        op.drop_column("deployments", name)
