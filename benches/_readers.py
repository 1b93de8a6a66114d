"""Programs that only read a topic, for `small_batches`: `python -m benches._readers KIND ACCESS TOPIC RECORDS GROUP`.

Each prints how many records it read behind the first ones, and the CPU seconds of all its threads for them.
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
from headwater.model.worker_spec import KafkaAccess
from headwater.native.librdkafka import librdkafka_path
from headwater.sources.kafka import KafkaSource

MAX_RECORDS = 2_000
"""As many as a worker asks for."""
CHUNK = 1000
WAIT_S = 1.0
_PYTHON_ONLY = ("error_cb", "logger")
_HERE = Path(__file__).parent
_DECLARATIONS = _HERE.parent / "headwater" / "native"


class Listener:
    """Ignores rebalances."""

    def assigned(self, partitions: list[int]) -> None:
        """The partitions are read."""

    def revoked(self, partitions: list[int]) -> None:
        """The partitions are read no more."""

    lost = revoked


def worker(access: KafkaAccess, topic: str, group: str) -> Callable[[], int]:
    """The reader of a worker, whose memory is set up as a worker's."""
    source = KafkaSource(access, topic, group)
    source.join(Listener())
    tune_worker_memory()
    return lambda: len(source.poll(MAX_RECORDS, WAIT_S))


def loop(access: KafkaAccess, topic: str, group: str) -> Callable[[], int]:
    """A loop over confluent-kafka's messages that looks at each of them."""
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
    """What a worker sets."""
    return consumer_settings(access, ClientErrors(access), group) | {"enable.partition.eof": True}


KINDS: Mapping[str, Callable[[KafkaAccess, str, str], Callable[[], int]]] = {"worker": worker, "loop": loop}


def cpu_seconds() -> float:
    """User and system time of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(read: Callable[[], int], count: int) -> tuple[int, float]:
    """Read `count` records. How many came behind the first ones, and the CPU seconds for them."""
    first = 0
    while not first:
        first = read()
    began, left = cpu_seconds(), count - first
    while left > 0:
        left -= read()
    return count - first, cpu_seconds() - began


def command(kind: str, access: KafkaAccess, topic: str, count: int, group: str) -> list[str]:
    """The command line of a process that reads a topic in Python."""
    return [sys.executable, "-m", "benches._readers", kind, access.model_dump_json(), topic, str(count), group]


def compiled(folder: Path) -> Path:
    """The program in C, compiled into a folder and linked to the librdkafka that workers use."""
    library, program = Path(librdkafka_path()), folder / "reader"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-O3", "-Wall", "-Wextra", "-Werror", "-target"]
    linked = [str(library), f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    sources = [f"-I{_DECLARATIONS}", str(_HERE / "_reader.c")]
    subprocess.run([*compiler, "x86_64-linux-gnu", *sources, *linked, "-o", str(program)], check=True)
    return program


def compiled_command(program: Path, access: KafkaAccess, topic: str, count: int, group: str) -> list[str]:
    """The command line of the program in C."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings(access, group).items()
        if name not in _PYTHON_ONLY
    }
    return [str(program), topic, str(PARTITIONS), str(count), *(text for pair in texts.items() for text in pair)]


def main(kind: str, told_access: str, topic: str, count: int, group: str) -> None:
    """Read all records once."""
    access = KafkaAccess.model_validate_json(told_access)
    start_at_the_beginning(access, group, topic)
    records, cpu_s = measure(KINDS[kind](access, topic, group), count)
    print(records, cpu_s, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
