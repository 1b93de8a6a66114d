"""Where Kafka, Valkey and the SQL database of an installation are.

Kafka, Valkey and the database are each the operator's own when a setting names them, otherwise embedded in the data
directory. Valkey, or Redis in its place, has the values of filters and datasets, and also prices, metrics and rate
limits.
"""

from dataclasses import dataclass

import structlog

from headwater.app.data_directory import DataDirectory
from headwater.app.kafka_access import admin_access, reader_access, reject_user_settings, worker_access
from headwater.brokers.embedded import EmbeddedKafka
from headwater.errors import RedisEvicts, RedisUnavailable, SetupError
from headwater.model.access import KafkaAccess
from headwater.settings import Settings
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import Client, connect

log = structlog.get_logger(__name__)

EMBEDDED_REPLICATION = 1
EXTERNAL_REPLICATION = 3


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of an installation. Each is resolved from the settings on access."""

    settings: Settings
    data_directory: DataDirectory

    @classmethod
    def from_settings(cls, settings: Settings) -> "Endpoints":
        """Return the endpoints of the installation in the settings."""
        return cls(settings, DataDirectory(settings.data_dir))

    @property
    def embeds_kafka(self) -> bool:
        """Whether the embedded Kafka is used, because no setting names an external one."""
        return not self.settings.kafka_bootstrap_servers

    @property
    def embeds_valkey(self) -> bool:
        """Whether the embedded Valkey is used, because no setting names an external server."""
        return not self.settings.redis_url.get_secret_value()

    @property
    def embeds_database(self) -> bool:
        """Whether the SQLite file in the data directory is used.

        It is used when no setting names a database server.
        """
        return not self.settings.database_url.get_secret_value()

    def embedded_kafka(self) -> EmbeddedKafka:
        """Return the embedded Kafka of the data directory."""
        s = self.settings
        return EmbeddedKafka(
            self.data_directory.path,
            s.cache_dir.expanduser(),
            host=s.host,
            advertised_host=s.advertised_host,
            java=s.kafka_java,
        )

    def embedded_valkey(self) -> EmbeddedValkey:
        """Return the embedded Valkey of the data directory."""
        return EmbeddedValkey(self.data_directory.path)

    def admin_kafka_access(self) -> KafkaAccess:
        """Return how to connect to Kafka as its administrator.

        Raises SetupError when the data directory has no embedded Kafka yet, or when the settings of the external
        Kafka are inconsistent.
        """
        if self.embeds_kafka:
            reject_user_settings(self.settings)
            self.data_directory.require_exists("HEADWATER_KAFKA_BOOTSTRAP_SERVERS")
            return self.embedded_kafka().access()
        return admin_access(self.settings)

    def require_kafka_settings(self) -> None:
        """Raise SetupError when the Kafka settings are inconsistent.

        The embedded Kafka need not exist yet.
        """
        if self.embeds_kafka:
            reject_user_settings(self.settings)
        else:
            self.reader_kafka_access()

    def reader_kafka_access(self) -> KafkaAccess:
        """Return how readers connect to Kafka. Raises SetupError.

        A user name and a password are present only when the operator manages the users.
        """
        admin = self.admin_kafka_access()
        if self.embeds_kafka:  # the embedded Kafka has one listener for readers and one for Headwater's processes
            return _without_user(admin, bootstrap_servers=self.embedded_kafka().bootstrap_servers)
        return reader_access(self.settings, admin)

    def worker_kafka_access(self) -> KafkaAccess:
        """Return how workers connect to Kafka. Raises SetupError.

        A user name and a password are present only when the operator manages the users. Workers then log in as
        Headwater's own user.
        """
        admin = self.admin_kafka_access()
        if not self.manages_kafka_users:
            return admin
        return _without_user(admin) if self.embeds_kafka else worker_access(admin, reader_access(self.settings, admin))

    @property
    def manages_kafka_users(self) -> bool:
        """Whether Headwater creates the Kafka users and ACLs."""
        return self.settings.kafka_credentials == "managed"

    def replication(self) -> int:
        """Return the replication factor of the topics that Headwater creates."""
        default = EMBEDDED_REPLICATION if self.embeds_kafka else EXTERNAL_REPLICATION
        return self.settings.kafka_replication or default

    def redis_url(self) -> str:
        """Return the URL of Valkey."""
        return self.settings.redis_url.get_secret_value() or self.embedded_valkey().url

    def connect_redis(self) -> Client:
        """Connect to Valkey. Raises SetupError when Valkey evicts keys.

        An unavailable Valkey is only logged, because it may become available again.
        """
        client = connect(self.redis_url())
        try:
            client.call("PING")
        except RedisEvicts as error:
            raise SetupError(error.detail) from error
        except RedisUnavailable as error:
            log.warning(
                "Valkey or Redis is unavailable, so its maxmemory-policy could not be checked", reason=error.detail
            )
        return client

    def database_url(self) -> str:
        """Return the SQLAlchemy URL of the database."""
        return self.settings.database_url.get_secret_value() or f"sqlite:///{self.data_directory.database}"

    def require_embedded_data(self) -> None:
        """Raise SetupError when embedded Kafka or Valkey is used without a data directory.

        The API and the controller do not create the directory of embedded services.
        """
        if self.embeds_kafka:
            self.data_directory.require_exists("HEADWATER_KAFKA_BOOTSTRAP_SERVERS")
        if self.embeds_valkey:
            self.data_directory.require_exists("HEADWATER_REDIS_URL")


def _without_user(access: KafkaAccess, **update: str) -> KafkaAccess:
    return access.model_copy(update={"username": "", "password": ""} | update)
