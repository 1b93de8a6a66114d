"""Where the parts are: your own when a setting names them, else the embedded ones of the data directory."""

from dataclasses import dataclass

import structlog

from headwater.app.home import Home
from headwater.app.kafka_access import admin_access, reader_access, require_embedded, worker_access
from headwater.brokers.embedded import EmbeddedKafka
from headwater.errors import SetStoreEvicts, SetStoreUnavailable, SetupError
from headwater.model.worker_spec import KafkaAccess
from headwater.settings import Settings
from headwater.stores.embedded_valkey import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from headwater.stores.sql.encryption import decode_secret_key, load_or_create_secret_key

log = structlog.get_logger(__name__)

EMBEDDED_REPLICATION = 1
OWN_CLUSTER_REPLICATION = 3


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses and secrets of one installation, each resolved from settings when it is asked for."""

    settings: Settings
    home: Home

    @property
    def embeds_kafka(self) -> bool:
        """True when no own Kafka is named."""
        return not self.settings.kafka_bootstrap_servers

    @property
    def embeds_valkey(self) -> bool:
        """True when no own Redis or Valkey is named."""
        return not self.settings.redis_url.get_secret_value()

    def embedded_kafka(self) -> EmbeddedKafka:
        """The Kafka of the data directory."""
        s = self.settings
        return EmbeddedKafka(
            self.home.path, s.cache_dir.expanduser(), host=s.host, advertised_host=s.advertised_host, java=s.kafka_java
        )

    def embedded_valkey(self) -> EmbeddedValkey:
        """The Valkey of the data directory."""
        return EmbeddedValkey(self.home.path)

    def kafka(self) -> KafkaAccess:
        """How to reach Kafka as its administrator.

        Raises SetupError when the data directory has no Kafka yet, or the settings of one's own don't fit together.
        """
        if self.embeds_kafka:
            require_embedded(self.settings)
            self.require_home("HEADWATER_KAFKA_BOOTSTRAP_SERVERS")
            return self.embedded_kafka().access()
        return admin_access(self.settings)

    def require_kafka_settings(self) -> None:
        """Raise SetupError when the settings of Kafka don't fit together. An embedded one need not be there yet."""
        if self.embeds_kafka:
            require_embedded(self.settings)
        else:
            self.reader_kafka()

    def reader_kafka(self) -> KafkaAccess:
        """How readers reach Kafka; a name and a password are those that the operator gives. Raises SetupError."""
        admin = self.kafka()
        if self.embeds_kafka:  # it has one address for readers and one for Headwater's own processes
            return _without_user(admin, bootstrap_servers=self.embedded_kafka().bootstrap_servers)
        return reader_access(self.settings, admin)

    def worker_kafka(self) -> KafkaAccess:
        """How workers reach Kafka. Raises SetupError.

        There is a user's name and a password only where the operator manages the users: workers are Headwater itself
        then.
        """
        admin = self.kafka()
        if not self.manages_kafka_users:
            return admin
        return _without_user(admin) if self.embeds_kafka else worker_access(admin, reader_access(self.settings, admin))

    @property
    def manages_kafka_users(self) -> bool:
        """Whether Headwater creates the users and access rules of Kafka."""
        return self.settings.kafka_credentials == "managed"

    def replication(self) -> int:
        """Copies of each topic that Headwater makes."""
        default = EMBEDDED_REPLICATION if self.embeds_kafka else OWN_CLUSTER_REPLICATION
        return self.settings.kafka_replication or default

    def redis_url(self) -> str:
        """The set store's URL."""
        return self.settings.redis_url.get_secret_value() or self.embedded_valkey().url

    def set_store(self) -> Client:
        """A client of the set store. Raises SetupError when the store evicts keys; one that is away may come back."""
        client = connect(self.redis_url())
        try:
            client.call("PING")
        except SetStoreEvicts as error:
            raise SetupError(error.detail) from error
        except SetStoreUnavailable as error:
            log.warning("the set store can't be asked for its maxmemory-policy yet", reason=error.detail)
        return client

    def database_url(self) -> str:
        """The SQLAlchemy URL of the database."""
        return self.settings.database_url.get_secret_value() or f"sqlite:///{self.home.database}"

    def secret_key(self) -> bytes:
        """The key that seals stored credentials, made on first use. Raises SetupError without a place to keep it."""
        text = self.settings.secret_key.get_secret_value()
        if text:
            return decode_secret_key(text, "HEADWATER_SECRET_KEY")
        if not self.home.path.exists():
            raise SetupError(
                f"There is no data directory {self.home.path} with a secret key in it. Set HEADWATER_SECRET_KEY to the "
                "content of the installation's secret-key file, or point --data-dir at the directory that has it."
            )
        return load_or_create_secret_key(self.home.secret_key)

    def make_home(self) -> None:
        """Make the data directory of a part that runs alone. Raises SetupError when `up` should have made it."""
        if self.embeds_kafka:
            self.require_home("HEADWATER_KAFKA_BOOTSTRAP_SERVERS")
        if self.embeds_valkey:
            self.require_home("HEADWATER_REDIS_URL")
        self.home.create()

    def require_home(self, instead: str) -> None:
        """Raise SetupError when the data directory does not exist: a mistyped one must not be made silently.

        instead: the setting that names a part outside of it.
        """
        if not self.home.path.exists():
            raise SetupError(
                f"There is no Headwater in {self.home.path} yet. Start it with `headwater up`, or point --data-dir "
                f"(or {instead}) at the one that runs."
            )


def _without_user(access: KafkaAccess, **update: str) -> KafkaAccess:
    return access.model_copy(update={"username": "", "password": ""} | update)
