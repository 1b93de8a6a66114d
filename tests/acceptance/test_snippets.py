"""Runs the programs of a deploy response unchanged.

They run in an empty directory, with the packages that they name.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn

import httpx2
import psutil
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from tests.acceptance.installation import Installation, TopicRecord, deployed, pipeline, reading
from tests.support import node_packages
from tests.support.waiting import until

WANTED, OTHER = "0x" + "a" * 40, "0x" + "b" * 40
RECORDS = 40
LIMIT = 5
WITHIN_S = 60.0
NODE_PACKAGES = Path(__file__).with_name("node")
OLDEST_JAVA = 17
F_SETPIPE_SZ = 1031
"""This is Linux's constant, which not every build of Python has."""
PIPE_BYTES = 4096
JAVA_CLIENT = ("kafka-clients-", "lz4-java-", "zstd-jni-", "snappy-java-", "slf4j-")
"""The jars of kafka-clients and of its dependencies."""


def transfer(number: int) -> dict[str, Any]:
    return {
        "token_address": WANTED if number % 2 else OTHER,
        "raw_amount": 10**30 + number,
        "transaction_hash": f"0x{number:064x}",
        "log_index": number,
    }


def made_of(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "note": "Übertrag → 移転 🪙"}


TRANSFERS = [transfer(number) for number in range(2 * RECORDS)]
EXPECTED = [made_of(record) for record in TRANSFERS if record["token_address"] == WANTED]
TRANSFORMS = [
    {"type": "redis_set_filter", "filter_expr": "root = this.token_address", "set_values": [WANTED]},
    {"type": "v8", "script": 'const process = (r) => ({...r, note: "Übertrag → 移転 🪙"});'},
]


@dataclass
class Output:
    """A topic with the programs that read it, and their directory.

    The first half of its RECORDS records is repeated, and one more record is in an aborted transaction.
    """

    snippets: dict[str, str]
    records: list[TopicRecord]
    folder: Path
    group: str

    @property
    def lines(self) -> list[bytes]:
        return [record.value for record in self.records]

    def save(self, language: str, name: str, after: str = "", added: str = "") -> Path:
        """Save the program to a file, with a text added after another text that must occur once."""
        path, text = self.folder / name, self.snippets[language]
        assert not after or text.count(after) == 1
        path.write_text(text.replace(after, after + added) if after else text, "utf-8")
        return path

    def run(self, *command: str | Path) -> None:
        """Run a program until it ends. It must print every record once, and nothing else."""
        self.check(self._printed(RECORDS, *command))

    def _printed(self, max_records: int, *command: str | Path) -> list[bytes]:
        # The programs print UTF-8 although the locale does not use it.
        environment = os.environ | {"HEADWATER_MAX_RECORDS": str(max_records), "LC_ALL": "C"}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, timeout=WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.splitlines()

    def run_with_a_limit(self, installation: Installation, *command: str | Path) -> None:
        """Run a program that prints a part of the records. It must commit no other records."""
        printed = self._printed(LIMIT, *command)
        assert len(printed) == LIMIT
        committed = committed_offsets(installation, self.group)
        unprinted = [record for record in self.records if record.value not in printed]
        assert [r for r in unprinted if r.offset < committed.get(r.partition, 0)] == [], committed

    def run_with_a_pause(self, installation: Installation, *command: str | Path) -> None:
        """Run a program, and read its output only after its group has removed the program."""
        limit = {"HEADWATER_MAX_RECORDS": str(RECORDS), "LC_ALL": "C"}
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                command, cwd=self.folder, env=os.environ | limit, stdout=subprocess.PIPE, stderr=errors
            ) as program,
        ):
            pipe = program.stdout
            assert pipe is not None
            fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)
            assert sum(map(len, self.lines)) > 2 * PIPE_BYTES
            deadline = threading.Timer(WITHIN_S, program.kill)
            try:
                # The program may be a member for less time than one poll; its output shows that it was.
                until(lambda: waiting_bytes(pipe) > 0 or program.poll() is not None, what="a first record")
                until(lambda: members(installation, self.group) == 0, what="an empty group")
                assert program.poll() is None, error_output(errors)
                deadline.start()
                printed = pipe.read().splitlines()
                assert program.wait(WITHIN_S) == 0, error_output(errors)
            finally:
                deadline.cancel()
                program.kill()
        self.check(printed)

    def check(self, printed: list[bytes]) -> None:
        # Partitions can be read in any order.
        assert sorted(printed) == sorted(self.lines)


def error_output(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode()


def waiting_bytes(pipe: IO[bytes]) -> int:
    """Return the number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def members(installation: Installation, group: str) -> int:
    admin = AdminClient({**installation.admin_config(), "log_level": 0})
    described = admin.describe_consumer_groups([group], request_timeout=20)[group].result(30)
    return len(described.members)


def committed_offsets(installation: Installation, group: str) -> dict[int, int]:
    """Return the committed offsets of a group by partition."""
    admin = AdminClient({**installation.admin_config(), "log_level": 0})
    request = [ConsumerGroupTopicPartitions(group)]
    committed = admin.list_consumer_group_offsets(request)[group].result(30)
    return {each.partition: each.offset for each in committed.topic_partitions if each.offset >= 0}


def repeat(installation: Installation, records: list[TopicRecord]) -> None:
    """Write records again with their headers, as after a failure."""
    producer = Producer({**installation.admin_config(), "log_level": 0})
    for record in records:
        producer.produce(record.topic, record.value, record.key, record.partition, headers=dict(record.headers))
    assert producer.flush(60) == 0


def abort(installation: Installation, topic: str) -> None:
    """Write a record in a transaction and abort it, as when an exactly-once worker ends early."""
    producer = Producer({**installation.admin_config(), "transactional.id": f"aborted-{topic}", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b'"never committed"', partition=0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)


@pytest.fixture
def compression() -> str | None:
    """Return the `compression` of the sink; None means the default."""
    return None


@pytest.fixture
def output(
    installation: Installation, client: httpx2.Client, tmp_path: Path, compression: str | None
) -> Iterator[Output]:
    half = len(TRANSFERS) // 2
    sink = {"type": "kafka", "name": "out", "compression": compression}
    with deployed(client, pipeline(transforms=TRANSFORMS, sinks=[sink])) as deployment:
        with reading(deployment.sink) as reader:
            installation.feed("base", "erc20_token_transfer", TRANSFERS[:half])
            repeat(installation, reader.read(RECORDS // 2))
            abort(installation, deployment.sink["topic"])
            installation.feed("base", "erc20_token_transfer", TRANSFERS[half:])
            records = reader.read(RECORDS)
        assert sorted((r.json() for r in records), key=lambda r: r["log_index"]) == EXPECTED
        yield Output(deployment.sink["snippets"], records, tmp_path, deployment.sink["consumer_group"])


def unavailable(what: str) -> NoReturn:
    """Skip the test without a program, but fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"CI needs {what}")
    pytest.skip(f"there is no {what}")


def program(name: str) -> str:
    return shutil.which(name) or unavailable(name)


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """Install the packages that the Node program names, once per lock file."""
    return node_packages.installed("test-node", NODE_PACKAGES) / "node_modules"


@pytest.fixture(scope="module")
def jdk() -> str:
    """Return a `java` that can run a source file."""
    java = program("java")
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    compiler = re.search(r"^jdk\.compiler@(\d+)", modules.stdout, re.MULTILINE)
    if compiler is None or int(compiler[1]) < OLDEST_JAVA:
        unavailable(f"JDK {OLDEST_JAVA} or newer")
    return java


def client_jars(installation: Installation) -> list[Path]:
    """Return the jars of the Java client, from the class path of the running broker."""
    (broker,) = installation.processes("kafka.Kafka")
    command = psutil.Process(broker).cmdline()
    jars = map(Path, command[command.index("-cp") + 1].split(os.pathsep))
    return [jar for jar in jars if jar.name.startswith(JAVA_CLIENT)]


def put_jars(installation: Installation, folder: Path) -> None:
    (folder / "lib").mkdir()
    for jar in client_jars(installation):
        (folder / "lib" / jar.name).symlink_to(jar)


@pytest.mark.proves("4.2/POST /api/v1/flow/{config_id}/deploy", "6/deployed-pipelines-deliver-processed-records-to")
def test_python(output: Output) -> None:
    output.run(sys.executable, output.save("python", "read.py"))


@pytest.mark.proves("4.2/POST /api/v1/flow/{config_id}/deploy", "6/deployed-pipelines-deliver-processed-records-to")
def test_node(output: Output, node_modules: Path) -> None:
    named = re.search(r"^// npm install (.*)$", output.snippets["node"], re.MULTILINE)
    assert named is not None
    pinned = json.loads((NODE_PACKAGES / "package.json").read_text())["dependencies"]
    assert set(named[1].split()) == set(pinned)
    (output.folder / "node_modules").symlink_to(node_modules)
    output.run(program("node"), output.save("node", "read.js"))


@pytest.mark.parametrize("compression", ["gzip", "snappy", "zstd"])
def test_node_reads_every_compression(output: Output, node_modules: Path) -> None:
    """The workers compress most batches, and the broker compresses the batches of `repeat`."""
    (output.folder / "node_modules").symlink_to(node_modules)
    output.run(program("node"), output.save("node", "read.js"))


@pytest.mark.proves("4.2/POST /api/v1/flow/{config_id}/deploy", "6/deployed-pipelines-deliver-processed-records-to")
def test_java(output: Output, installation: Installation, jdk: str) -> None:
    put_jars(installation, output.folder)
    output.run(jdk, "-cp", "lib/*", output.save("java", "ReadTopic.java"))


class TestALimit:
    def test_of_python(self, output: Output, installation: Installation) -> None:
        output.run_with_a_limit(installation, sys.executable, output.save("python", "read.py"))

    def test_of_node(self, output: Output, installation: Installation, node_modules: Path) -> None:
        (output.folder / "node_modules").symlink_to(node_modules)
        output.run_with_a_limit(installation, program("node"), output.save("node", "read.js"))

    def test_of_java(self, output: Output, installation: Installation, jdk: str) -> None:
        put_jars(installation, output.folder)
        output.run_with_a_limit(installation, jdk, "-cp", "lib/*", output.save("java", "ReadTopic.java"))


@pytest.mark.long
class TestAPause:
    """The program pauses for longer than the group's session timeout, as on a sleeping laptop.

    The timeout is 3 s here.
    """

    def test_of_python(self, output: Output, installation: Installation) -> None:
        shorter = '"max.poll.interval.ms": 3000, "session.timeout.ms": 3000, "heartbeat.interval.ms": 500,'
        path = output.save("python", "read.py", '"auto.offset.reset": "earliest",', shorter)
        output.run_with_a_pause(installation, sys.executable, path)

    def test_of_node(self, output: Output, installation: Installation, node_modules: Path) -> None:
        (output.folder / "node_modules").symlink_to(node_modules)
        shorter = " sessionTimeout: 3000, heartbeatInterval: 500,"
        path = output.save("node", "read.js", "const consumer = kafka.consumer({", shorter)
        output.run_with_a_pause(installation, program("node"), path)

    def test_of_java(self, output: Output, installation: Installation, jdk: str) -> None:
        put_jars(installation, output.folder)
        limits = {"max.poll.interval.ms": 3000, "session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
        shorter = "".join(f'settings.put("{name}", "{limit}");' for name, limit in limits.items())
        path = output.save("java", "ReadTopic.java", 'settings.put("auto.offset.reset", "earliest");', shorter)
        output.run_with_a_pause(installation, jdk, "-cp", "lib/*", path)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat(output: Output) -> None:
    """kcat reads until it is stopped."""
    process = subprocess.Popen(["sh", output.save("kcat", "read.sh")], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    deadline = threading.Timer(WITHIN_S, os.killpg, (process.pid, signal.SIGKILL))
    with process:
        deadline.start()
        try:
            output.check([line.rstrip(b"\n") for line in islice(process.stdout, RECORDS)])
        finally:
            deadline.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
