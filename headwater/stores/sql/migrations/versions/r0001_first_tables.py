"""Adds tables: configurations, deployments, leases, API keys, datasets, and doorbell.

The table doorbell has the change counter.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the tables to this revision."""
    _flows()
    _deployments()
    _controller()
    _keys()
    _datasets()


def downgrade() -> None:
    """Leave an empty database."""
    tables = ("worker_states", "deployment_revisions", "deployments", "flow_revisions", "flows")
    for table in (*tables, "doorbell", "leases", "api_keys", "datasets"):
        op.drop_table(table)


def _time(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _flows() -> None:
    op.create_table(
        "flows",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_flows"),
    )
    op.create_index("ix_flows_owner", "flows", ["owner"])
    op.create_table(
        "flow_revisions",
        sa.Column("flow_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        _time("saved_at"),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"], name="fk_flow_revisions_flow_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("flow_id", "revision", name="pk_flow_revisions"),
    )


def _deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("flow_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        _time("created_at"),
        sa.Column("reader_password", sa.LargeBinary()),
        sa.Column("worker_password", sa.LargeBinary()),
        sa.Column("desired", sa.String(), nullable=False),
        sa.Column("desired_revision", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("delete_flow", sa.Boolean(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("observed_revision", sa.Integer()),
        sa.Column("observed_generation", sa.Integer(), nullable=False),
        sa.Column("condition", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deployments"),
    )
    active = sa.text("phase != 'absent'")
    op.create_index(
        "uq_deployments_active", "deployments", ["flow_id"], unique=True, sqlite_where=active, postgresql_where=active
    )
    op.create_table(
        "deployment_revisions",
        sa.Column("deployment_id", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("source_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_deployment_revisions_deployment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("deployment_id", "revision", name="pk_deployment_revisions"),
    )
    op.create_table(
        "worker_states",
        sa.Column("deployment_id", sa.String(), nullable=False),
        sa.Column("workers", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["deployment_id"], ["deployments.id"], name="fk_worker_states_deployment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("deployment_id", name="pk_worker_states"),
    )


def _controller() -> None:
    doorbell = op.create_table(
        "doorbell",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_doorbell"),
    )
    op.bulk_insert(doorbell, [{"id": 1, "value": 0}])
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String()),
        sa.Column("fencing", sa.BigInteger(), nullable=False),
        _time("expires_at"),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )


def _keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        _time("created_at"),
        _time("expires_at", nullable=True),
        _time("revoked_at", nullable=True),
        _time("last_used_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )


def _datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
    )
    op.create_index("ix_datasets_owner", "datasets", ["owner"])
    named = sa.text("state != 'deleting'")
    op.create_index(
        "uq_datasets_name", "datasets", ["owner", "name"], unique=True, sqlite_where=named, postgresql_where=named
    )
