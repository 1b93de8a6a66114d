"""Opens the database and creates its stores."""

from collections.abc import Sequence

from sqlalchemy.exc import IntegrityError

from headwater.errors import DatabaseUnavailable, SetupError
from headwater.model.quota import NO_QUOTAS, QuotaDefaults
from headwater.stores.sql.audit import SqlAudit
from headwater.stores.sql.change_counter import SqlChangeCounter
from headwater.stores.sql.connections import Connections, make_engine
from headwater.stores.sql.credential_rows import CredentialRows, RotationResult
from headwater.stores.sql.datasets import SqlDatasets
from headwater.stores.sql.deployment_mapper import DeploymentMapper
from headwater.stores.sql.deployments import SqlDeployments
from headwater.stores.sql.encryption import FieldCipher
from headwater.stores.sql.flow_mapper import FlowMapper
from headwater.stores.sql.flows import SqlFlows
from headwater.stores.sql.idempotency import SqlIdempotencyStore
from headwater.stores.sql.keys import SqlKeys
from headwater.stores.sql.leases import SqlLeases
from headwater.stores.sql.migrate import migrate
from headwater.stores.sql.overview import SqlOverview
from headwater.stores.sql.quotas import QuotaChecker, SqlQuotas
from headwater.stores.sql.redrives import SqlRedrives
from headwater.stores.sql.revisions import SqlRevisions
from headwater.stores.sql.sign_in import SqlSignIns
from headwater.stores.sql.unreadable import UnreadableRow, unreadable_rows


class Database:
    """All SQL stores on one database.

    Thread-safe; several processes may open the same database.
    """

    def __init__(self, connections: Connections, deployment_mapper: DeploymentMapper, defaults: QuotaDefaults) -> None:
        quota_checker = QuotaChecker(defaults)
        self._connections = connections
        self._deployment_mapper = deployment_mapper
        self.flows = SqlFlows(connections, deployment_mapper, quota_checker)
        self.overview = SqlOverview(connections, deployment_mapper.credentials)
        self.revisions = SqlRevisions(connections, FlowMapper(deployment_mapper.credentials))
        self.deployments = SqlDeployments(connections, deployment_mapper, quota_checker)
        self.redrives = SqlRedrives(connections, deployment_mapper)
        self.change_counter = SqlChangeCounter(connections)
        self.leases = SqlLeases(connections)
        self.keys = SqlKeys(connections)
        self.sign_ins = SqlSignIns(connections)
        self.datasets = SqlDatasets(connections, quota_checker)
        self.quotas = SqlQuotas(connections, quota_checker, defaults)
        self.audit = SqlAudit(connections)
        self.idempotency = SqlIdempotencyStore(connections)

    def unreadable(self) -> Sequence[UnreadableRow]:
        """Return the stored rows that this version can't read, see unreadable.py."""
        with self._connections.reading() as connection:
            return list(unreadable_rows(connection, self._deployment_mapper))

    def rotate_secret_key(self) -> RotationResult:
        """Encrypt all stored credentials with the new secret key. Raises DatabaseUnavailable."""
        return self._deployment_mapper.credentials.rotate_key(self._connections)

    def close(self) -> None:
        """Close the connections. The stores open new ones when they are used again."""
        self._connections.close()


def open_database(
    url: str, cipher: FieldCipher, defaults: QuotaDefaults = NO_QUOTAS, *, check_key: bool = True
) -> Database:
    """Open a database, migrate it when its schema is older, and check the secret key.

    Raises SetupError when the database can't be reached, has a newer schema, or was encrypted with another key.

    Args:
        url: `sqlite:///PATH` or `postgresql://…`.
        cipher: Encrypts and decrypts the credentials of deployments.
        defaults: The quotas of the settings, which the stores enforce.
        check_key: Whether to check that the secret key decrypts the stored credentials.
    """
    engine = make_engine(url)
    connections, deployment_mapper = Connections(engine), DeploymentMapper(cipher)
    try:
        migrate(engine)
        if check_key:
            _check_key(connections, deployment_mapper.credentials)
    except DatabaseUnavailable as error:
        url_without_password = engine.url.render_as_string(hide_password=True)
        connections.close()
        raise SetupError(f"The database {url_without_password} can't be opened: {_reason(error)}.") from error
    except SetupError:
        connections.close()
        raise
    return Database(connections, deployment_mapper, defaults)


def _check_key(connections: Connections, credentials: CredentialRows) -> None:
    try:
        _check_key_once(connections, credentials)
    except IntegrityError:  # another process stored the proof of its key at the same time
        _check_key_once(connections, credentials)


def _check_key_once(connections: Connections, credentials: CredentialRows) -> None:
    with connections.writing() as connection:
        credentials.check_key(connection)


def _reason(error: DatabaseUnavailable) -> str:
    """Return the first line of the error message of the database's driver."""
    message = str(getattr(error.__cause__, "orig", error.__cause__)).strip()
    return message.splitlines()[0] if message else "it does not answer"
