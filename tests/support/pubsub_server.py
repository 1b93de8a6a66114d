"""Runs servers with Pub/Sub's protocol.

They are Google's fake for its Go client, and Google's emulator.

Both differ from Pub/Sub, as experiments have shown (fake of pubsub/v2 2.8.1, emulator 0.8.20):

| | fake (`pstest`) | emulator |
|---|---|---|
| messages of one ordering key | one at a time, each after the acknowledgement of the previous one | many, in order |
| a pull stream breaks | messages are redelivered after their leases | messages with ordering keys are not redelivered |
| a pull stream is closed | the same | messages are redelivered, to any stream |
| flow control | none | none |
| `seek` | crashes the server, so here it is only recorded | none |
| a topic that retains messages | is accepted | also delivers them to new subscriptions |

So tests of kills and leases run on the fake with many ordering keys, and tests of order run on both.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.pubsub_v1 import PublisherClient, SubscriberClient

from headwater.brokers.pubsub_client import publisher, subscriber
from headwater.model.access import PubSubAccess
from tests.support.kafka import CACHE_DIR
from tests.support.ports import free_port
from tests.support.waiting import until

SOURCE = Path(__file__).parent / "pubsub"
PROJECT = "project-1"
STOP_WITHIN_S = 10.0
MAX_PRINTED_BYTES = 1 << 20

_numbers = count(1)


def built() -> Path:
    """Return the fake's program.

    It is built once from the Go source in tests/support/pubsub.
    """
    if shutil.which("go") is None:
        assert not os.environ.get("CI"), "CI needs Go, for the tests of Pub/Sub"
        pytest.skip("The tests of Pub/Sub need Go, to build a server.")
    text = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    folder = CACHE_DIR.expanduser() / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / f"pubsub-{hashlib.sha256(text).hexdigest()[:16]}"
    with (folder / "pubsub.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            unfinished = program.with_suffix(".new")
            command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(unfinished), "."]
            subprocess.run(command, cwd=SOURCE, check=True, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""})
            unfinished.rename(program)
    return program


def emulator_command(port: int) -> list[str] | None:
    """Return the command line of Google's emulator, or None if it is not installed."""
    gcloud, java = shutil.which("gcloud"), shutil.which("java")
    if gcloud is None or java is None:
        return None
    jars = sorted(Path(gcloud).resolve().parents[1].glob("platform/pubsub-emulator/lib/*.jar"))
    return [java, "-Xmx256m", "-jar", str(jars[-1]), "--host=127.0.0.1", f"--port={port}"] if jars else None


class PubSubServer:
    """A running server. Its address has the form `host:port`."""

    def __init__(self, command: Sequence[str], address: str, kind: str) -> None:
        self.kind = kind
        self.address = address
        self.access = PubSubAccess(project=PROJECT, endpoint=address)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._printed, stderr=subprocess.DEVNULL
        )
        self._channel = grpc.insecure_channel(address)
        self.publisher: PublisherClient = publisher(self._channel)
        self.subscriber: SubscriberClient = subscriber(self._channel)
        until(self._answers, what="Pub/Sub")

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the server of Pub/Sub ended"
        try:
            grpc.channel_ready_future(self._channel).result(0.5)
        except grpc.FutureTimeoutError:
            return False
        return True

    def topic(self, name: str = "") -> str:
        """Create a topic, and return its full name."""
        path = f"projects/{PROJECT}/topics/{name or f'stream-{next(_numbers)}'}"
        self.publisher.create_topic(name=path)
        return path

    def publish(
        self,
        topic: str,
        values: Sequence[bytes],
        ordering_key: str = "",
        attributes: Sequence[Mapping[str, str]] | None = None,
    ) -> list[str]:
        """Publish messages in order, and return their ids."""
        messages: Any = [
            {"data": value, "ordering_key": ordering_key, "attributes": dict(attributes[at]) if attributes else {}}
            for at, value in enumerate(values)
        ]
        return list(self.publisher.publish(topic=topic, messages=messages).message_ids)

    def subscriptions(self) -> set[str]:
        """Return the short names of all subscriptions."""
        found = self.subscriber.list_subscriptions(project=f"projects/{PROJECT}")
        return {each.name.rpartition("/")[2] for each in found}

    def seeks(self) -> dict[str, int]:
        """Return the time of each subscription's last seek, by short name.

        Times are in seconds since the epoch.
        """
        printed = os.pread(self._printed.fileno(), MAX_PRINTED_BYTES, 0).decode()
        lines = [line.split() for line in printed.splitlines() if line.startswith("seek ")]
        return {path.rpartition("/")[2]: int(seconds) for _, path, seconds in lines}

    def stop(self) -> None:
        """Stop the server."""
        self._printed.close()
        self._channel.close()
        self._process.kill()
        with self._process:
            self._process.wait(STOP_WITHIN_S)


def start_fake(port: int | None = None) -> PubSubServer:
    """Start the fake."""
    address = f"127.0.0.1:{port or free_port()}"
    return PubSubServer([str(built()), address], address, "fake")


def start_emulator() -> PubSubServer:
    """Start Google's emulator, or skip the test where it is not installed."""
    port = free_port()
    command = emulator_command(port)
    if command is None:
        pytest.skip("Google's Pub/Sub emulator is not installed.")
    return PubSubServer(command, f"127.0.0.1:{port}", "emulator")
