"""The embedded Kafka: its first start, restarts, kills, and all errors of a start."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headwater import children
from headwater.brokers.base import DeploymentResources, User
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import admin_settings
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.brokers.embedded import EmbeddedKafka, ports, prefetch
from headwater.errors import BrokerUnavailable, SetupError
from tests.support.kafka import CACHE_DIR, KafkaServer, server
from tests.support.processes import alive
from tests.support.waiting import until

PARENT = """
import sys
from pathlib import Path
from headwater.brokers.embedded import EmbeddedKafka
kafka = EmbeddedKafka(Path(sys.argv[1]), Path(sys.argv[2]))
kafka.prepare()
child = kafka.start()
kafka.wait_ready(child)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[list[children.Child]]:
    """The children that the test has started. They are stopped after the test."""
    started: list[children.Child] = []
    yield started
    for child in started:
        child.stop(15)


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that was prepared, whose broker was never started."""
    data_dir = tmp_path_factory.mktemp("formatted")
    EmbeddedKafka(data_dir, CACHE_DIR).prepare()
    return data_dir


@pytest.fixture
def prepared(formatted: Path, tmp_path: Path) -> EmbeddedKafka:
    """A prepared broker in `tmp_path`."""
    shutil.copytree(formatted, tmp_path, dirs_exist_ok=True)
    kafka = EmbeddedKafka(tmp_path, CACHE_DIR)
    kafka.prepare()
    return kafka


@pytest.mark.slow
def test_kafka_ends_with_a_killed_parent_and_loses_nothing(tmp_path: Path, started: list[children.Child]) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), str(CACHE_DIR)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent, parent.stdin, parent.stdout:
        java_pid = int(parent.stdout.readline())
        first = server(EmbeddedKafka(tmp_path, CACHE_DIR))
        topic = first.create_topic("kept", 2)
        first.produce(topic, [b"a", b"b"], partition=0)
        first.produce(topic, [b"c"], partition=1)
        first.consume(topic, 3, group="readers")
        parent.send_signal(signal.SIGKILL)
        until(lambda: not alive(java_pid), what="the end of Java")

    again = EmbeddedKafka(tmp_path, CACHE_DIR)
    again.prepare()
    started.append(again.start())
    again.wait_ready(started[0])
    second = server(again)
    assert second.bootstrap_servers == first.bootstrap_servers
    assert [message.value() for message in second.consume(topic, 3)] == [b"a", b"b", b"c"]
    second.produce(topic, [b"d"])
    assert second.end_offsets(topic) == {0: 3, 1: 1}


@pytest.mark.slow
def test_removing_users_affects_no_other_user(prepared: EmbeddedKafka, started: list[children.Child]) -> None:
    """The administrator and each user that was not removed can log in after a start.

    A start replays the users in any order.
    """
    started.append(prepared.start())
    prepared.wait_ready(started[-1])
    stays = User("stays", "kept-password")
    gone = DeploymentResources((), tuple(User(f"gone-{n}", "password") for n in range(60)), ())
    broker = KafkaClusterAdmin(prepared.access())
    broker.ensure(DeploymentResources((), (stays,), ()))
    broker.ensure(gone)
    broker.remove_all(gone)
    started[-1].send(signal.SIGKILL)
    started[-1].wait(20)
    started.append(prepared.start())
    prepared.wait_ready(started[-1])
    assert KafkaClusterAdmin(prepared.access()).inventory().users == {"headwater-admin", "stays"}
    login = prepared.access().model_copy(update={"username": stays.name, "password": stays.password})
    with pytest.raises(BrokerUnavailable, match="authorization failed"):  # the user may authenticate, and nothing else
        KafkaClusterAdmin(login).partition_count("nothing")


class TestSecrets:
    def test_everyone_authenticates_on_every_port(self, kafka: KafkaServer) -> None:
        for servers in (kafka.bootstrap_servers, kafka.access.bootstrap_servers):
            anonymous = kafka.access.model_copy(update={"bootstrap_servers": servers, "security_protocol": "PLAINTEXT"})
            client = AdminClient(admin_settings(anonymous, ClientErrors(anonymous)))
            with pytest.raises(KafkaException):
                client.list_topics(timeout=1)

    def test_password_files_are_readable_only_by_the_owner(self, kafka_home: Path) -> None:
        private = ("admin-password", "server.properties")
        assert [(kafka_home / name).stat().st_mode & 0o777 for name in private] == [0o600, 0o600]
        assert kafka_home.stat().st_mode & 0o777 == 0o700

    def test_no_process_shows_a_password(self, kafka_home: Path, kafka: KafkaServer) -> None:
        shown = [argument for process in psutil.process_iter(["cmdline"]) for argument in process.info["cmdline"] or ()]
        assert not any(kafka.access.password in argument for argument in shown)

    def test_no_log_shows_a_password(self, kafka_home: Path, kafka: KafkaServer) -> None:
        log = (kafka_home.parent / "logs" / "kafka.log").read_text()
        assert kafka.access.password not in log
        assert "storedKey" not in log

    @pytest.fixture
    def kafka_home(self, kafka: KafkaServer) -> Path:
        """Kafka's folder in the session broker's data directory."""
        return kafka.data_dir / "kafka"


class TestRefusedStart:
    """Each error message says what to do."""

    def test_no_maven(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SetupError, match=r"no Kafka on this machine: install headwater\[embedded\].*Apache Maven"):
            EmbeddedKafka(tmp_path / "data", tmp_path / "cache").prepare()
        assert list((tmp_path / "cache").iterdir()) == []

    @pytest.mark.slow
    def test_maven_without_network(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # An empty local repository and a proxy that nobody runs: what Maven sees on a machine without a network.
        dead = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
        monkeypatch.setenv(
            "MAVEN_OPTS", f"-Dmaven.repo.local={tmp_path}/repository -Djava.net.useSystemProxies=true {dead}"
        )
        with pytest.raises(
            SetupError, match=r"Maven could not download Kafka; with a network connection.*Maven says: .*transfer"
        ):
            EmbeddedKafka(tmp_path / "data", tmp_path / "cache").prepare()
        assert list((tmp_path / "cache").iterdir()) == []

    def test_cache_not_writable(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SetupError, match=r"cache directory .*file/cache is not writable.*--cache-dir"):
            EmbeddedKafka(tmp_path / "data", tmp_path / "file" / "cache").prepare()

    def test_data_directory_not_writable(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SetupError, match=r"can't be written.*--data-dir"):
            EmbeddedKafka(tmp_path / "file" / "data", CACHE_DIR).prepare()

    def test_java_too_old(self, tmp_path: Path) -> None:
        java = tmp_path / "java"
        java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
        java.chmod(0o755)
        with pytest.raises(SetupError, match=r"is Java 11, and Kafka needs 17 or newer.*--kafka-java"):
            EmbeddedKafka(tmp_path / "data", CACHE_DIR, java=str(java)).prepare()

    def test_port_taken(self, prepared: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ports, "RELEASE_TIMEOUT_S", 0.0)
        port = json.loads((tmp_path / "ports.json").read_text())["kafka"]
        with socket.create_server(("127.0.0.1", port)):
            expected = rf"Port {port} \(kafka\) is used.*change the number of kafka in {tmp_path}/ports.json"
            with pytest.raises(SetupError, match=expected):
                prepared.prepare()
        prepared.prepare()

    def test_no_host_to_tell_clients(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="--advertised-host"):
            EmbeddedKafka(tmp_path, CACHE_DIR, host="0.0.0.0").prepare()

    def test_password_lost(self, prepared: EmbeddedKafka, tmp_path: Path) -> None:
        (tmp_path / "kafka" / "admin-password").unlink()
        with pytest.raises(SetupError, match="admin-password is missing: put it back"):
            prepared.prepare()

    def test_broker_dies_while_it_starts(
        self, prepared: EmbeddedKafka, tmp_path: Path, started: list[children.Child]
    ) -> None:
        (tmp_path / "kafka" / "data" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")
        started.append(prepared.start())
        with pytest.raises(
            SetupError, match=rf"ended with status 1 while it started. Its log is {prepared.log_file}. The"
        ):
            prepared.wait_ready(started[0])

    def test_broker_does_not_become_ready(
        self, prepared: EmbeddedKafka, tmp_path: Path, started: list[children.Child]
    ) -> None:
        started.append(children.spawn(["/bin/sleep", "60"]))
        with pytest.raises(SetupError, match=rf"not become ready within 0 s. Its log is {prepared.log_file}"):
            prepared.wait_ready(started[0], timeout_s=0)

    def test_access_before_the_first_start(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="start `headwater up` there first"):
            EmbeddedKafka(tmp_path, CACHE_DIR).access()


def test_a_killed_format_is_repaired(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path, CACHE_DIR)
    (tmp_path / "kafka" / "formatting" / "data").mkdir(parents=True)
    kafka.prepare()
    assert (tmp_path / "kafka" / "data" / "meta.properties").exists()
    assert not (tmp_path / "kafka" / "formatting").exists()


@pytest.mark.slow
def test_data_directory_with_odd_characters(tmp_path: Path, started: list[children.Child]) -> None:
    kafka = EmbeddedKafka(tmp_path / "a, b=\\c é", CACHE_DIR)
    kafka.prepare()
    started.append(kafka.start())
    kafka.wait_ready(started[0])


@pytest.mark.slow
def test_prefetch_fills_the_cache_and_starts_use_it(tmp_path: Path, started: list[children.Child]) -> None:
    prefetch(tmp_path / "cache")
    names = sorted(path.suffix for path in (tmp_path / "cache").iterdir())
    assert names[-1] == ".aot"
    assert len(names) == 2, "the scratch folder is gone"
    kafka = EmbeddedKafka(tmp_path / "data", tmp_path / "cache")
    kafka.prepare()
    started.append(kafka.start())
    kafka.wait_ready(started[0])
    assert any(one.startswith("-XX:AOTCache=") for one in psutil.Process(started[0].pid).cmdline())
