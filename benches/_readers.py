"""Programs that only read a topic, for `small_batches`.

`python -m benches._readers KIND ACCESS TOPIC RECORDS GROUP` runs one of them.

Each program prints how many records it read after the first batch, and the CPU seconds of all threads for them.
"""

import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from benches._stream import PARTITIONS, start_at_the_beginning
from headwater.app.memory import tune_worker_memory
from headwater.brokers.client_errors import ClientErrors
from headwater.brokers.client_settings import consumer_settings
from headwater.model.access import KafkaAccess
from headwater.native.librdkafka import librdkafka_path
from headwater.sources.kafka import KafkaSource

MAX_RECORDS = 2_000
"""The number of records that a worker polls at most."""
CHUNK = 1000
WAIT_S = 1.0
_PYTHON_ONLY = ("error_cb", "logger")
_HERE = Path(__file__).parent
_DECLARATIONS = _HERE.parent / "headwater" / "native"


class Listener:
    """Ignores rebalances."""

    def on_assigned(self, partitions: list[int]) -> None:
        """Does nothing when partitions are assigned."""

    def on_revoked(self, partitions: list[int]) -> None:
        """Does nothing when partitions are revoked."""

    on_lost = on_revoked


def worker(access: KafkaAccess, topic: str, group: str) -> Callable[[], int]:
    """Return a function that polls a worker's source.

    It runs in a process whose memory is tuned like a worker's.
    """
    source = KafkaSource(access, topic, group)
    source.join(Listener())
    tune_worker_memory()
    return lambda: len(source.poll(MAX_RECORDS, WAIT_S))


def loop(access: KafkaAccess, topic: str, group: str) -> Callable[[], int]:
    """Return a function that reads every field of a batch of confluent-kafka's messages."""
    consumer = Consumer(settings(access, group))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def read() -> int:
        records = 0
        for message in consumer.consume(CHUNK, WAIT_S):
            error = message.error()
            if error is None:
                message.value(), message.key(), message.offset(), message.partition(), message.timestamp()
                records += 1
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        return records

    return read


def settings(access: KafkaAccess, group: str) -> dict[str, Any]:
    """Return the consumer settings of a worker."""
    return consumer_settings(access, ClientErrors(access), group) | {"enable.partition.eof": True}


KINDS: Mapping[str, Callable[[KafkaAccess, str, str], Callable[[], int]]] = {"worker": worker, "loop": loop}


def cpu_seconds() -> float:
    """Return the user and system time of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(read: Callable[[], int], count: int) -> tuple[int, float]:
    """Read `count` records.

    Return how many came after the first batch, and the CPU seconds for these.
    """
    first = 0
    while not first:
        first = read()
    started, left = cpu_seconds(), count - first
    while left > 0:
        left -= read()
    return count - first, cpu_seconds() - started


def command(kind: str, access: KafkaAccess, topic: str, count: int, group: str) -> list[str]:
    """Return the command line of a process that reads a topic in Python."""
    return [sys.executable, "-m", "benches._readers", kind, access.model_dump_json(), topic, str(count), group]


def compile_reader(folder: Path) -> Path:
    """Compile the C program into a directory, linked to the librdkafka that workers use.

    Return its path.
    """
    library, program = Path(librdkafka_path()), folder / "reader"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-O3", "-Wall", "-Wextra", "-Werror", "-target"]
    linked = [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    sources = [f"-I{_DECLARATIONS}", str(_HERE / "_reader.c")]
    subprocess.run([*compiler, "x86_64-linux-gnu", *sources, *linked, "-o", str(program)], check=True)
    return program


def compiled_command(program: Path, access: KafkaAccess, topic: str, count: int, group: str) -> list[str]:
    """Return the command line of the C program."""
    strings = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings(access, group).items()
        if name not in _PYTHON_ONLY
    }
    return [
        str(program),
        topic,
        str(PARTITIONS),
        str(count),
        *(part for setting in strings.items() for part in setting),
    ]


def main(kind: str, access_json: str, topic: str, count: int, group: str) -> None:
    """Read all records once and print the figures."""
    access = KafkaAccess.model_validate_json(access_json)
    start_at_the_beginning(access, group, topic)
    records, cpu_s = measure(KINDS[kind](access, topic, group), count)
    print(records, cpu_s, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
