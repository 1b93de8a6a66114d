"""Where the parts are: your own when a setting names them, else the embedded ones of the data directory."""

from dataclasses import dataclass

import structlog

from headwater.app.home import Home
from headwater.brokers.embedded import EmbeddedKafka
from headwater.errors import SetStoreEvicts, SetStoreUnavailable, SetupError
from headwater.model.worker import KafkaAccess
from headwater.services.deployments import Login
from headwater.settings import Settings
from headwater.stores.embedded import EmbeddedValkey
from headwater.stores.redis.client import Client, connect
from headwater.stores.sql.sealed import decode_secret_key, load_or_create_secret_key

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

        Raises SetupError when the data directory has no Kafka yet, or a Kafka of one's own comes without a password.
        """
        if self.embeds_kafka:
            self.require_home("HEADWATER_KAFKA_BOOTSTRAP_SERVERS")
            return self.embedded_kafka().access()
        s = self.settings
        if not s.kafka_password.get_secret_value():
            raise SetupError(
                f"Set HEADWATER_KAFKA_PASSWORD to the password of {s.kafka_username} (HEADWATER_KAFKA_USERNAME) "
                f"on Kafka at {s.kafka_bootstrap_servers}."
            )
        return KafkaAccess(
            bootstrap_servers=s.kafka_bootstrap_servers,
            security_protocol=s.kafka_security_protocol,
            sasl_mechanism=s.kafka_sasl_mechanism,
            username=s.kafka_username,
            password=s.kafka_password.get_secret_value(),
            ca_file=s.kafka_ca_file,
        )

    @property
    def manages_kafka_users(self) -> bool:
        """Whether Headwater makes the users and access rules of Kafka."""
        return self.settings.kafka_credentials == "managed"

    def reader_login(self) -> Login | None:
        """The login of readers that the operator names; None where Headwater makes one for each deployment.

        Raises SetupError for one half of a login, and for a login that nobody would get.
        """
        name, password = self.settings.kafka_reader_username, self.settings.kafka_reader_password.get_secret_value()
        if bool(name) != bool(password):
            raise SetupError(
                "HEADWATER_KAFKA_READER_USERNAME and HEADWATER_KAFKA_READER_PASSWORD belong together: set both or none."
            )
        if not self.manages_kafka_users:
            return Login(name or None, password or None)
        if name:
            raise SetupError(
                "HEADWATER_KAFKA_READER_USERNAME is set, but Headwater makes the users of readers itself. Remove the "
                "name, or set HEADWATER_KAFKA_CREDENTIALS=given."
            )
        return None

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
