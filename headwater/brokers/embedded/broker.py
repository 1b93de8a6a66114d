"""The embedded Kafka's life: prepare its folder, start the child, wait until it serves."""

import secrets
import shutil
import string
import time
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater import children
from headwater.brokers.client import ClientErrors, admin_settings
from headwater.brokers.embedded import cache, storage
from headwater.brokers.embedded.files import write_private
from headwater.brokers.embedded.ports import Ports, keep_ports, read_ports
from headwater.brokers.embedded.runtime import JVM_VARIABLES, Runtime, find_runtime
from headwater.child_logs import capturing, last_error
from headwater.errors import BrokerUnavailable, SetupError
from headwater.model.worker import KafkaAccess

ADMIN: Final = "headwater-admin"
READY_S: Final = 60.0
"""How long a broker may take to serve: 1 s here, but some machines are slow and some logs need recovery."""
_TEMPLATE: Final = Path(__file__).with_name("server.properties")
_PROBE_S: Final = 0.5
_GROUP_S: Final = 5.0
_PROBE_GROUP: Final = "headwater.probe"
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound


class EmbeddedKafka:
    """One broker on this machine, with its data, passwords and log under `data_dir`.

    host: where clients connect; advertised_host: the name that they are told (default: host). java: a Java launcher
    (17 or newer; default: the wheel's). Order of use: prepare, start, wait_ready.
    """

    def __init__(
        self, data_dir: Path, cache_dir: Path, host: str = "127.0.0.1", advertised_host: str = "", java: str = ""
    ) -> None:
        self.data_dir = data_dir.expanduser().absolute()
        self._home = self.data_dir / "kafka"
        self._cache_dir = cache_dir
        self._host = host
        self._advertised_host = advertised_host or host
        self._java = java
        self._runtime: Runtime | None = None
        self.log_file = self.data_dir / "logs" / "kafka.log"

    def prepare(self) -> None:
        """Make everything that a start needs: jars, ports, passwords, properties, a formatted data folder.

        Idempotent; a kill half-way is repaired by the next call. Blocks for seconds (minutes when jars are
        downloaded). Raises SetupError.
        """
        if self._advertised_host in _WILDCARDS:
            raise SetupError(f"Kafka listens on {self._host}: name the host that clients reach with --advertised-host.")
        self._runtime = find_runtime(self._cache_dir, self._java)
        self._make_folder()
        ports = keep_ports(self._ports_file, self._host)
        password = self._ensure_password()
        write_private(self._home / "server.properties", self._properties(ports, password))
        storage.ensure_formatted(self._home, self._runtime, f"SCRAM-SHA-512=[name={ADMIN},password={password}]")

    def start(self, *, record: Path | None = None) -> children.Child:
        """Start the broker; it dies with this process. record: see `prefetch`. Raises OSError."""
        assert self._runtime is not None, "prepare() comes first"
        with capturing(self.log_file) as output:
            return children.spawn(
                self._runtime.broker(record=record),
                env=children.inherited(*JVM_VARIABLES),
                cwd=str(self._home),
                stdout=output,
                stderr=output,
            )

    def wait_ready(self, child: children.Child, timeout_s: float = READY_S) -> None:
        """Return when the broker serves authenticated clients, consumer groups included. Raises SetupError."""
        deadline = time.monotonic() + timeout_s
        errors = ClientErrors(self.access())
        admin = AdminClient(admin_settings(self.access(), errors) | {"reconnect.backoff.max.ms": 100, "log_level": 0})
        refusal = ""
        while not (_serves(admin) and self._has_snapshot()):
            try:
                admin.poll(0)
                errors.check()
            except BrokerUnavailable as error:
                refusal = error.detail
            self._check_alive(child)
            if time.monotonic() > deadline:
                raise SetupError(f"Kafka did not become ready within {timeout_s:g} s. {refusal or self._hint()}")

    def access(self) -> KafkaAccess:
        """How Headwater itself reaches the broker, as its administrator: by loopback, whatever `host` is.

        Needs no `prepare`, so other processes can ask too. Raises SetupError when the data directory has no broker.
        """
        try:
            password = (self._home / "admin-password").read_text()
        except FileNotFoundError as error:
            raise SetupError(
                f"There is no Kafka in {self.data_dir}: start `headwater up` there first, or point --data-dir at the "
                "directory of the Headwater that runs."
            ) from error
        servers = f"127.0.0.1:{read_ports(self._ports_file).kafka_internal}"
        return KafkaAccess(bootstrap_servers=servers, username=ADMIN, password=password)

    @property
    def bootstrap_servers(self) -> str:
        """The address that users' clients are told. Raises SetupError before the first `prepare`."""
        return _address(self._advertised_host, read_ports(self._ports_file).kafka)

    @property
    def _ports_file(self) -> Path:
        return self.data_dir / "ports.json"

    def _make_folder(self) -> None:
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Native libraries unpack themselves here; a killed broker leaves them behind.
            shutil.rmtree(self._home / "tmp", ignore_errors=True)
            (self._home / "tmp").mkdir()
        except OSError as error:
            raise SetupError(
                f"{self._home} can't be written ({error.strerror}): choose another --data-dir or make it writable."
            ) from error

    def _ensure_password(self) -> str:
        path = self._home / "admin-password"
        if not path.exists():
            if (self._home / "data").exists():
                raise SetupError(
                    f"{path} is missing: put it back, or remove {self._home} to begin with an empty Kafka."
                )
            write_private(path, secrets.token_urlsafe(32))
        return path.read_text()

    def _properties(self, ports: Ports, password: str) -> str:
        return string.Template(_TEMPLATE.read_text()).substitute(
            client=_address(self._host, ports.kafka),
            advertised=_address(self._advertised_host, ports.kafka),
            internal_port=ports.kafka_internal,
            controller_port=ports.kafka_controller,
            admin=ADMIN,
            admin_password=password,
            controller_password=secrets.token_urlsafe(32),  # the node talks to itself: a new one for each start
        )

    def _has_snapshot(self) -> bool:
        """True when the metadata log has a snapshot: see server.properties for why it must."""
        return any((self._home / "data" / "__cluster_metadata-0").glob("*.checkpoint"))

    def _check_alive(self, child: children.Child) -> None:
        status = child.poll()
        if status is not None:
            raise SetupError(f"Kafka ended with status {status} while it started. {self._hint()}")

    def _hint(self) -> str:
        last = last_error(self.log_file)
        return f"Its log is {self.log_file}" + (f"; the last error there: {last}" if last else ".")


def prefetch(cache_dir: Path, java: str = "") -> None:
    """Fill the cache: the jars, and an archive of loaded classes that halves each start. For `make setup`.

    Runs a broker once in a scratch folder, for about 10 s, where Java can write such an archive. Raises SetupError.
    """
    runtime = find_runtime(cache_dir, java)

    def record(target: Path) -> None:
        kafka = EmbeddedKafka(target.with_name("training"), cache_dir, java=java)
        kafka.prepare()
        child = kafka.start(record=target)
        kafka.wait_ready(child)
        child.stop(READY_S)
        if not target.exists():
            raise SetupError(f"Java wrote no start-up archive to {target.parent}: check the free space there.")

    if runtime.java.has_aot:
        cache.ensure(runtime.archive, record)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _serves(admin: AdminClient) -> bool:
    """True when the broker answers, for groups too: the first group ever costs seconds, so that is paid here."""
    try:
        admin.list_topics(timeout=_PROBE_S)
        admin.describe_consumer_groups([_PROBE_GROUP], request_timeout=_GROUP_S)[_PROBE_GROUP].result()
    except KafkaException:
        return False  # not yet: the caller's deadline decides, and the child's state tells why
    return True
