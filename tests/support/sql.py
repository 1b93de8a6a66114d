"""The SQL stores for tests, and examples of what they store."""

import shutil
import sqlite3
import tempfile
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine, event

from headwater.model.deployment import Condition, Deployment, DesiredPhase, LogLine, Observation, Phase
from headwater.model.flow import Flow, PipelineConfig
from headwater.model.key import DEFAULT_SCOPES, ApiKey
from headwater.model.quota import NO_QUOTAS, QuotaDefaults
from headwater.model.value_sets import Dataset
from headwater.stores.protocols.audit import AuditLog
from headwater.stores.protocols.configurations import FlowStore, RevisionStore
from headwater.stores.protocols.datasets import DatasetStore
from headwater.stores.protocols.deployments import ChangeCounter, DeploymentStore
from headwater.stores.protocols.idempotency import IdempotencyStore
from headwater.stores.protocols.keys import KeyStore
from headwater.stores.protocols.leases import Leases
from headwater.stores.protocols.overview import OverviewStore
from headwater.stores.protocols.quotas import QuotaStore
from headwater.stores.protocols.redrives import RedriveStore
from headwater.stores.protocols.sign_in import SignInStore
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.database import Database, open_database
from headwater.stores.sql.deployment_mapper import DeploymentMapper
from headwater.stores.sql.encryption import FieldCipher
from headwater.stores.sql.migrate import migrate

SECRET_KEY = bytes(range(32))
OWNER = "ann"
T0 = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class SqlStores(Protocol):
    """The stores of a database."""

    @property
    def flows(self) -> FlowStore: ...

    @property
    def overview(self) -> OverviewStore: ...

    @property
    def revisions(self) -> RevisionStore: ...

    @property
    def deployments(self) -> DeploymentStore: ...

    @property
    def redrives(self) -> RedriveStore: ...

    @property
    def change_counter(self) -> ChangeCounter: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def keys(self) -> KeyStore: ...

    @property
    def sign_ins(self) -> SignInStore: ...

    @property
    def datasets(self) -> DatasetStore: ...

    @property
    def quotas(self) -> QuotaStore: ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def idempotency(self) -> IdempotencyStore: ...

    def close(self) -> None: ...


class FreshDatabases:
    """Makes empty SQLite databases as copies of a migrated database.

    A closed database leaves its engine to a later one, because an engine remembers its compiled statements. The
    databases need not survive a crash of the machine.
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="headwater-databases-")
        self._template = Path(self._directory.name) / "template.db"
        self._opened: list[tuple[Engine, Database]] = []
        self._unused: list[Engine] = []

    def open(self, defaults: QuotaDefaults = NO_QUOTAS) -> Database:
        """Return an empty database that lives until `close`."""
        engine = self._unused.pop() if self._unused else self._new_engine()
        self.copy_to(Path(str(engine.url.database)))
        database = Database(Connections(engine), DeploymentMapper(FieldCipher(SECRET_KEY)), defaults)
        self._opened.append((engine, database))
        return database

    def copy_to(self, path: Path) -> None:
        """Write an empty database to a file, which must have no connections."""
        if not self._template.exists():
            engine = make_engine(f"sqlite:///{self._template}")
            migrate(engine)
            engine.dispose()
        shutil.copyfile(self._template, path)

    def migrate(self, engine: Engine) -> None:
        """Migrate a database; a new SQLite database becomes a copy of the migrated one."""
        if engine.name == "sqlite" and not (path := Path(str(engine.url.database))).stat().st_size:
            self.copy_to(path)
        migrate(engine)

    def _new_engine(self) -> Engine:
        engine = make_engine(f"sqlite:///{self._template.with_name(f'{uuid.uuid4().hex}.db')}")
        event.listen(engine, "connect", _never_sync)
        return engine

    def close(self) -> None:
        """Close and delete the databases that were opened since the last call."""
        for engine, database in self._opened:
            database.close()
            path = Path(str(engine.url.database))
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()
            self._unused.append(engine)
        self._opened.clear()


def _never_sync(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


FRESH_DATABASES = FreshDatabases()
fresh_database = FRESH_DATABASES.open


def open_sqlite(path: Path, key: bytes = SECRET_KEY) -> Database:
    """Open the SQLite database in a file."""
    return open_database(f"sqlite:///{path}", FieldCipher(key))


def open_postgres(url: str, key: bytes = SECRET_KEY) -> Database:
    """Open the PostgreSQL database at a URL."""
    return open_database(url, FieldCipher(key))


def at(seconds: float) -> datetime:
    """Return the time `seconds` after T0."""
    return T0 + timedelta(seconds=seconds)


def a_config(chain: str = "base", entity: str = "log", **members: Any) -> PipelineConfig:
    """Return a configuration as a user writes it."""
    body = {
        "source": {"type": "pubsub", "chain": chain, "entity": entity},
        "transforms": [{"uid": "t1", "type": "v8", "script": "function process(record) { return record }"}],
        "sinks": [{"uid": "s1", "type": "kafka", "name": "out"}],
    }
    return PipelineConfig.model_validate(body | members)


def a_flow(config_id: str = "f1", owner: str = OWNER, created_s: float = 0, **fields: Any) -> Flow:
    """Return a configuration at revision 1."""
    created = at(created_s)
    values: dict[str, Any] = {"name": "Größe", "description": "", "tags": ("a", "b"), "pipeline_config": a_config()}
    return Flow(id=config_id, owner=owner, revision=1, created_at=created, updated_at=created, **(values | fields))


def next_revision(flow: Flow, **fields: Any) -> Flow:
    """Return the next revision of a configuration, as a PUT saves it."""
    return replace(flow, revision=flow.revision + 1, updated_at=flow.updated_at + timedelta(seconds=1), **fields)


def a_deployment(deployment_id: str = "d1", **fields: Any) -> Deployment:
    """Return a deployment as the service passes it to `request_deploy`."""
    values: dict[str, Any] = {
        "config_id": "f1",
        "owner": OWNER,
        "config": a_config(),
        "desired": DesiredPhase.RUNNING,
        "desired_revision": 1,
        "generation": 1,
        "reader_password": f"read-{deployment_id}-password",
        "worker_password": f"work-{deployment_id}-password",
        "created_at": T0,
    }
    return Deployment(id=deployment_id, **(values | fields))


def seen(deployment: Deployment, phase: Phase = Phase.RUNNING, **fields: Any) -> Observation:
    """Return the observation that the controller writes after a round over this deployment."""
    running = phase is Phase.RUNNING
    values: dict[str, Any] = {
        "observed_revision": deployment.desired_revision if running else deployment.observed_revision,
        "observed_generation": deployment.generation,
        "condition": Condition.FAILED if phase is Phase.FAILED else Condition.STABLE,
    }
    return Observation(deployment_id=deployment.id, phase=phase, **(values | fields))


def a_line(number: int = 1) -> LogLine:
    """Return a log line of a worker."""
    return LogLine(time=at(number), worker="d1-0", source="script", message=f"größe {number}")


def a_key(key_id: str = "k1", created_s: float = 0, **fields: Any) -> ApiKey:
    """Return a stored API key."""
    values: dict[str, Any] = {"owner": OWNER, "digest": bytes(range(32)), "scopes": DEFAULT_SCOPES}
    return ApiKey(id=key_id, created_at=at(created_s), **(values | fields))


def a_dataset(dataset_id: str = "s1", name: str = "wallets", owner: str = OWNER, created_s: float = 0) -> Dataset:
    """Return a dataset as the service passes it to `create`."""
    return Dataset(dataset_id, owner, name, "pending", at(created_s), at(created_s))
