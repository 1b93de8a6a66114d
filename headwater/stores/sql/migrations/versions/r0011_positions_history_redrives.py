"""Adds stored positions, the history of revisions, and redrives of dead letters.

A revision gets the columns that it has in common with its configuration, and columns that say who saved it, what it
changed and when it was deployed.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_COMMON_COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "name": sa.Text(),
    "description": sa.Text(),
    "tags": sa.JSON(),
    "external_id": sa.Text(),
}


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.add_column("deployments", sa.Column("positions", sa.Text()))
    op.add_column("deployments", sa.Column("rewind", sa.Text()))
    op.add_column("deployments", sa.Column("gaps", sa.Text()))
    _add_history()
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
    op.create_index("ix_flows_owner_created_at_id", "flows", ["owner", "created_at", "id"])


def _add_history() -> None:
    op.add_column("flow_revisions", sa.Column("saved_by", sa.String(), nullable=False, server_default=""))
    op.add_column("flow_revisions", sa.Column("changed", sa.Text(), nullable=False, server_default=""))
    for name, kind in _COMMON_COLUMNS.items():
        op.add_column("flow_revisions", sa.Column(name, kind))
    listed = ["flow_id", "revision", "saved_at", "saved_by", "changed"]
    op.create_index("ix_flow_revisions_listed", "flow_revisions", listed)
    op.add_column("removed_filters", sa.Column("state", sa.String(), nullable=False, server_default="kept"))
    op.add_column("deployment_revisions", sa.Column("deployed_at", sa.DateTime(timezone=True)))
    op.add_column("deployment_revisions", sa.Column("condition", sa.String()))
    _fill_common_columns()
    _fill_rollouts()


def _fill_common_columns() -> None:
    """Copy the common columns of each configuration to its stored revisions.

    Older versions do not store them by revision.
    """
    flows = sa.table("flows", sa.column("id"), *(sa.column(name) for name in _COMMON_COLUMNS))
    revisions = sa.table("flow_revisions", sa.column("flow_id"), *(sa.column(name) for name in _COMMON_COLUMNS))
    newest = {
        name: sa.select(flows.c[name]).where(flows.c.id == revisions.c.flow_id).scalar_subquery()
        for name in _COMMON_COLUMNS
    }
    op.execute(sa.update(revisions).values(newest))


def _fill_rollouts() -> None:
    """Estimate when the revisions of deployments were deployed.

    The estimate is the time of the save, or of the deployment if that is later. Older versions store only the condition
    of the revision that was requested last.
    """
    op.execute(
        "UPDATE deployment_revisions SET deployed_at = (SELECT CASE WHEN r.saved_at > d.created_at THEN r.saved_at"
        " ELSE d.created_at END FROM deployments d LEFT JOIN flow_revisions r ON r.flow_id = d.flow_id"
        " AND r.revision = deployment_revisions.revision WHERE d.id = deployment_revisions.deployment_id)"
    )
    op.execute(
        "UPDATE deployment_revisions SET condition = (SELECT d.condition FROM deployments d"
        " WHERE d.id = deployment_revisions.deployment_id AND d.desired_revision = deployment_revisions.revision)"
    )


def downgrade() -> None:
    """Undo this revision.

    Positions of paused pipelines are lost, and so is the history of the common columns.
    """
    # A batch would replace the tables, and SQLite would delete the rows that refer to them.
    op.drop_index("ix_flows_owner_created_at_id", "flows")
    op.drop_table("redrives")
    op.drop_index("ix_flow_revisions_listed", "flow_revisions")
    dropped = {
        "deployment_revisions": ("condition", "deployed_at"),
        "removed_filters": ("state",),
        "flow_revisions": ("saved_by", "changed", *_COMMON_COLUMNS),
        "deployments": ("gaps", "rewind", "positions"),
    }
    for table, columns in dropped.items():
        for column in columns:
            op.drop_column(table, column)
