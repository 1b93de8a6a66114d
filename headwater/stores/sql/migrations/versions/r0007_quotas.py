"""Adds the quotas of owners, and the columns of revisions that their usage needs."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

COUNTED = ("stored_bytes", "script_bytes", "workers")


def upgrade() -> None:
    """Bring the tables to this revision."""
    op.create_table(
        "quotas",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("allowed", sa.BigInteger()),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_quotas"),
    )
    for name in COUNTED:
        op.add_column("flow_revisions", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("flow_revisions", sa.Column("filter_uids", sa.Text(), nullable=False, server_default=""))
    op.create_index("ix_flow_revisions_counted", "flow_revisions", ["flow_id", "revision", *COUNTED, "filter_uids"])
    _count_stored_revisions()


def _count_stored_revisions() -> None:
    """Fill the new columns.

    Revisions are read one by one, because each may contain megabytes of scripts.
    """
    connection = op.get_bind()
    table = sa.table(
        "flow_revisions",
        *(sa.column(name, sa.Integer()) for name in ("revision", *COUNTED)),
        *(sa.column(name, sa.String()) for name in ("flow_id", "config", "filter_uids")),
    )
    is_revision = (table.c.flow_id == sa.bindparam("id")) & (table.c.revision == sa.bindparam("number"))
    for flow_id, number in connection.execute(sa.select(table.c.flow_id, table.c.revision)).all():
        parameters = {"id": flow_id, "number": number}
        [config] = connection.scalars(sa.select(table.c.config).where(is_revision), parameters)
        connection.execute(sa.update(table).where(is_revision).values(**_counted(config)), parameters)


def _counted(config: str) -> dict[str, Any]:
    """Return the new columns of a revision.

    Of a configuration that can't be read, only the size and one worker are counted.
    """
    stored_bytes = len(config.encode())
    try:
        document = json.loads(config)
        transforms = document.get("transforms") or ()
        filters = [transform for transform in transforms if transform.get("type") == "redis_set_filter"]
        return {
            "stored_bytes": stored_bytes,
            "script_bytes": sum(len((transform.get("script") or "").encode()) for transform in transforms),
            "workers": int(document.get("parallelism", 1)),
            "filter_uids": " ".join(transform["uid"] for transform in filters),
        }
    except (ValueError, TypeError, AttributeError, KeyError):
        return {"stored_bytes": stored_bytes, "script_bytes": 0, "workers": 1, "filter_uids": ""}


def downgrade() -> None:
    """Undo this revision."""
    op.drop_index("ix_flow_revisions_counted", "flow_revisions")
    for name in ("filter_uids", *COUNTED):
        op.drop_column("flow_revisions", name)
    op.drop_table("quotas")
