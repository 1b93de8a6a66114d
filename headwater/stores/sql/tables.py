"""The tables. A change here needs a migration too; a test compares the two.

Rows of deployments outlive their configurations, because the controller's sweeper uses them to decide which resources
on the broker may be removed. So they have no foreign key to flows. The configuration of a deployment is in its desired
revision, which `purge` keeps while the deployment is active.

Some tables and columns have older names in the database, which migrations don't change. The variables and the `key` of
a column have the present names.
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
    """Stores aware datetimes, and reads them as aware datetimes in UTC.

    SQLite stores them as text in UTC.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert a datetime to the form that the database stores."""
        if value is None:
            return None
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert a stored datetime to an aware datetime in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


QUOTA_COLUMNS = ("stored_bytes", "script_bytes", "workers")
"""The columns of a revision from which the usage of quotas is computed.

The column `filter_uids` is used too; it holds the uids of the revision's filters, separated by spaces.
"""


class StoredJson(TypeDecorator[Any]):
    """JSON whose text may be damaged.

    A damaged value is read as its text, so that other rows can still be read.
    """

    impl = JSON
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Return the function that decodes a stored value."""
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
    # The order of lists, so that a page reads only its own rows.
    Index("ix_flows_owner_created_at_id", "owner", "created_at", "id"),
)

flow_revisions = Table(
    "flow_revisions",
    metadata,
    Column("flow_id", ForeignKey("flows.id", ondelete="CASCADE"), primary_key=True, key="config_id"),
    Column("revision", Integer, primary_key=True),
    Column("config", Text, nullable=False),
    Column("saved_at", UtcDateTime, nullable=False),
    # The id of the API key that saved the revision; empty for revisions of older versions.
    Column("saved_by", String, nullable=False, server_default=""),
    # The members of the configuration that differ from the revision before, separated by spaces.
    Column("changed", Text, nullable=False, server_default=""),
    # The columns that a revision has in common with its configuration. `name` is NULL when a process of an older
    # version, which has no such columns, saved the revision.
    Column("name", Text),
    Column("description", Text),
    Column("tags", StoredJson),
    Column("external_id", Text),
    Column("stored_bytes", BigInteger, nullable=False, server_default="0"),
    Column("script_bytes", BigInteger, nullable=False, server_default="0"),
    Column("workers", BigInteger, nullable=False, server_default="0"),
    Column("filter_uids", Text, nullable=False, server_default=""),
)

# The index contains all columns from which the usage of quotas is computed, so that SQLite reads only the index. In the
# table, SQLite would have to read all scripts to reach these columns.
Index(
    "ix_flow_revisions_counted",
    *(flow_revisions.c[name] for name in ("config_id", "revision", *QUOTA_COLUMNS, "filter_uids")),
)

# For the same reason, the index contains all columns of the list of revisions.
Index(
    "ix_flow_revisions_listed",
    *(flow_revisions.c[name] for name in ("config_id", "revision", "saved_at", "saved_by", "changed")),
)

# Filters that are neither in the newest revision of their configuration nor in a revision of its deployment. Their
# values are kept for some time; `state` is the state of the values (stores.protocols.configurations.ValuesState).
removed_filters = Table(
    "removed_filters",
    metadata,
    Column("flow_id", ForeignKey("flows.id", ondelete="CASCADE"), primary_key=True, key="config_id"),
    Column("uid", String, primary_key=True),
    Column("removed_at", UtcDateTime, nullable=False),
    Column("state", String, nullable=False, server_default="kept"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", String, primary_key=True),
    Column("flow_id", String, nullable=False, key="config_id"),
    Column("owner", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("reader_password", LargeBinary),
    Column("worker_password", LargeBinary),
    Column("desired", String, nullable=False),
    Column("desired_revision", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("delete_flow", Boolean, nullable=False, key="delete_configuration"),
    Column("phase", String, nullable=False),
    Column("observed_revision", Integer),
    Column("observed_generation", Integer, nullable=False),
    # See Deployment.rollback_revision. A rollback that a user requests saves a new revision instead, and does not use
    # this column.
    Column("stable_revision", Integer, key="rollback_revision"),
    Column("credentials", Integer, nullable=False, server_default="1", key="credentials_version"),
    Column("observed_credentials", Integer, nullable=False, server_default="1", key="observed_credentials_version"),
    Column("condition", String, nullable=False),
    Column("reason", Text, nullable=False),
    # JSON, see model.positions: the offsets of a pipeline without workers, from which its next workers start.
    Column("positions", Text),
    # JSON, see model.positions: the last request to rewind, and the offsets before and after it.
    Column("rewind", Text),
    # JSON, see model.positions: the offsets that retention removed while the pipeline was paused.
    Column("gaps", Text),
    # JSON, see model.parallelism: the number of workers that the controller has chosen between the bounds.
    Column("scaling", Text),
)

# The condition for a deployment to be active. It contains a literal instead of a parameter, because SQLite uses a
# partial index only for a query that repeats the condition of the index exactly.
ACTIVE = deployments.c.phase != literal_column("'absent'")
Index("uq_deployments_active", deployments.c.config_id, unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE)

# One row with a known text, encrypted with the secret key of this installation. It proves that a key is the right one.
secret_key_proof = Table(
    "secret_key_proof",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sealed", LargeBinary, nullable=False, key="encrypted"),
)

deployment_revisions = Table(
    "deployment_revisions",
    metadata,
    Column("deployment_id", ForeignKey("deployments.id", ondelete="CASCADE"), primary_key=True),
    Column("revision", Integer, primary_key=True),
    # The stream that the revision reads, and the number at the end of the name of the consumer group that reads it; see
    # model.rollout.RolloutHistoryEntry.
    Column("stream", String, nullable=False),
    Column("source_epoch", Integer, nullable=False),
    # True once the revision has no workers, topics or groups any more.
    Column("retired", Boolean, nullable=False, server_default=false()),
    # When a deploy request started the last rollout of this revision, and the condition that the rollout reached.
    Column("deployed_at", UtcDateTime),
    Column("condition", String),
)

# `number` counts the redrives of a deployment; `selection` is JSON and names the requested letters (model.redrive).
redrives = Table(
    "redrives",
    metadata,
    Column("id", String, primary_key=True),
    Column("flow_id", String, nullable=False, key="config_id"),
    Column("deployment_id", ForeignKey("deployments.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("state", String, nullable=False),
    Column("selection", Text, nullable=False),
    Column("requested", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
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

change_counter = Table(
    "doorbell",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# `lock` is the name of the file lock that the holder holds, and `failing` says what fails in the holder (model.lease).
leases = Table(
    "leases",
    metadata,
    Column("name", String, primary_key=True),
    Column("holder", String),
    Column("fencing", BigInteger, nullable=False, key="fencing_token"),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("lock", Text, nullable=False, server_default=""),
    Column("failing", Text, nullable=False, server_default=""),
)

# Ids of deployments and configurations that were only known from their resources on the broker, and that an
# administrator recorded as ended.
ended_ids = Table(
    "tombstones",
    metadata,
    Column("id", String, primary_key=True),
    Column("confirmed_at", UtcDateTime, nullable=False, key="recorded_at"),
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
    # Whether a one-time code was exchanged for the key. Such a key is removed when it has expired.
    Column("is_from_code", Boolean, nullable=False, server_default=false()),
)

# One-time codes for signing in, which grant the owner and the scopes of an API key. A code is removed when it is used.
sign_in_codes = Table(
    "sign_in_codes",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("owner", String, nullable=False),
    Column("scopes", StoredJson, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

# The limits that were set for single owners. NULL in `allowed` means that the owner has no limit.
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

# The condition for a dataset to hold its name. The name of a dataset that is being deleted is free at once.
HOLDS_NAME = datasets.c.state != literal_column("'deleting'")
Index(
    "uq_datasets_name",
    datasets.c.owner,
    datasets.c.name,
    unique=True,
    sqlite_where=HOLDS_NAME,
    postgresql_where=HOLDS_NAME,
)

# A row is changed at most once, when a pending entry is closed. `SqlAudit.purge` deletes old rows.
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

# Requests with an Idempotency-Key. `holder` is the id of the HTTP request that has claimed the row and is processed; a
# row without a holder has the stored response.
idempotent_requests = Table(
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
