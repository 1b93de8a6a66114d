"""The tables. A change here needs a migration beside it; a test compares the two.

Deployments outlive the configuration that they ran: their rows tell the sweeper whose consumer groups may go. So
they have no foreign key to flows. A deployment's configuration is that of its desired revision, which `purge` keeps
while the deployment is active.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
    literal_column,
)


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetimes in, aware UTC datetimes out; SQLite, which has no time zones, stores them as UTC text."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The form that the database stores."""
        if value is None:
            return None
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The form that Headwater uses."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


COUNTED = ("stored_bytes", "script_bytes", "workers")
"""Columns of a revision: what it counts for. `filter_uids` is the fourth one, the uids separated by spaces."""


class StoredJson(TypeDecorator[Any]):
    """JSON whose text may be damaged: reading gives the text then, so that one row never fails the others."""

    impl = JSON
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """The reader of a value."""
        read = super().result_processor(dialect, coltype)
        if read is None:
            return None

        def lenient(value: Any) -> Any:
            try:
                return read(value)
            except ValueError:
                return value

        return lenient


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

flows = Table(
    "flows",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("tags", StoredJson, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("external_id", Text),
    Index("uq_flows_external_id", "owner", "external_id", unique=True),
)

flow_revisions = Table(
    "flow_revisions",
    metadata,
    Column("flow_id", ForeignKey("flows.id", ondelete="CASCADE"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("config", Text, nullable=False),
    Column("saved_at", UtcDateTime, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    Column("script_bytes", BigInteger, nullable=False, server_default="0"),
    Column("workers", BigInteger, nullable=False, server_default="0"),
    Column("filter_uids", Text, nullable=False, server_default=""),
)

# What revisions count for is read from the index alone: SQLite would walk through all scripts to reach these columns.
Index(
    "ix_flow_revisions_counted",
    *(flow_revisions.c[name] for name in ("flow_id", "revision", *COUNTED, "filter_uids")),
)

# Filters that no stored revision has any more; their values are kept for some time.
removed_filters = Table(
    "removed_filters",
    metadata,
    Column("flow_id", ForeignKey("flows.id", ondelete="CASCADE"), primary_key=True),
    Column("uid", String, primary_key=True),
    Column("removed_at", UtcDateTime, nullable=False),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", String, primary_key=True),
    Column("flow_id", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("reader_password", LargeBinary),
    Column("worker_password", LargeBinary),
    Column("desired", String, nullable=False),
    Column("desired_revision", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("delete_flow", Boolean, nullable=False),
    Column("phase", String, nullable=False),
    Column("observed_revision", Integer),
    Column("observed_generation", Integer, nullable=False),
    Column("stable_revision", Integer),
    Column("credentials", Integer, nullable=False, server_default="1"),
    Column("observed_credentials", Integer, nullable=False, server_default="1"),
    Column("condition", String, nullable=False),
    Column("reason", Text, nullable=False),
)

# A literal, not a parameter: SQLite uses a partial index only for a query that repeats its condition word by word.
ACTIVE = deployments.c.phase != literal_column("'absent'")
Index("uq_deployments_active", deployments.c.flow_id, unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE)

# One row, sealed with the installation's secret key: the proof that a key is the right one.
secret_key_proof = Table(
    "secret_key_proof",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)

deployment_revisions = Table(
    "deployment_revisions",
    metadata,
    Column("deployment_id", ForeignKey("deployments.id", ondelete="CASCADE"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("stream", String, nullable=False),
    Column("source_epoch", Integer, nullable=False),
    Column("retired", Boolean, nullable=False, server_default=false()),
)

worker_states = Table(
    "worker_states",
    metadata,
    Column("deployment_id", ForeignKey("deployments.id", ondelete="CASCADE"), primary_key=True),
    Column("workers", Text, nullable=False),
)

worker_logs = Table(
    "worker_logs",
    metadata,
    Column("deployment_id", ForeignKey("deployments.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("line", Text, nullable=False),
)

doorbell = Table(
    "doorbell",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String, primary_key=True),
    Column("holder", String),
    Column("fencing", BigInteger, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("lock", Text, nullable=False, server_default=""),
    Column("failing", Text, nullable=False, server_default=""),
)

# Deployments and configurations of which only remains on the broker were known, and which an operator gave up.
tombstones = Table(
    "tombstones",
    metadata,
    Column("id", String, primary_key=True),
    Column("confirmed_at", UtcDateTime, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("scopes", StoredJson, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
)

# Quotas of single owners. A row without a number means that the owner has no such quota.
quotas = Table(
    "quotas",
    metadata,
    Column("owner", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("allowed", BigInteger),
)

datasets = Table(
    "datasets",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("state", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

# A dataset that is going away gives its name free at once.
NAMED = datasets.c.state != literal_column("'deleting'")
Index("uq_datasets_name", datasets.c.owner, datasets.c.name, unique=True, sqlite_where=NAMED, postgresql_where=NAMED)

# Rows are added; only a pending one is ever changed, and only to close it.
audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("key_id", String, nullable=False),
    Column("ip", String, nullable=False),
    Column("request_id", String, nullable=False),
    Column("action", String, nullable=False),
    Column("owner", String, nullable=False, index=True),
    Column("object", String, nullable=False, index=True),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("state", String, nullable=False),
)

# A row without a holder is an answered call.
calls = Table(
    "calls",
    metadata,
    Column("id", String, primary_key=True),
    Column("holder", String),
    Column("expires_at", UtcDateTime, nullable=False, index=True),
    Column("body_sha256", String, nullable=False),
    Column("status", Integer, nullable=False),
    Column("headers", StoredJson, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
