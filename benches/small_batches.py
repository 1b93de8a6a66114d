"""Measures the CPU time of reading small record batches, which a chain's head has.

`python -m benches.small_batches` runs it.

Three readers run in turn, each in a process of its own with the same settings: a worker's source, a C program that
drops librdkafka's messages, and a Python loop over confluent-kafka's messages. The figures are medians of the CPU time
of all threads per record, in µs, after the first batch.
"""

import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from benches import _readers
from benches._stream import PARTITIONS, WAIT_S, broker, fill, topic
from benches._workload import Workload
from headwater.model.access import KafkaAccess

SIZES = (1, 3, 10, 100)
"""Records per batch."""
COUNT = 480_000
LINGER_MS = 2_000
"""The linger time is so long that only full batches are sent."""
C, WORKER, LOOP = "C", "worker", "Python loop"
AIM = 1.3
"""The goal for a worker's source: at most so many times the CPU of the C program, and less than the Python loop."""
_HEADER_BYTES, _LENGTH, _RECORDS = 61, slice(8, 12), slice(57, 61)


def batches_of(size: int) -> dict[str, Any]:
    """Return producer settings with which each batch has exactly `size` records."""
    return {
        "linger.ms": LINGER_MS,
        "max.in.flight.requests.per.connection": 5,
        "batch.num.messages": size,
        "queue.buffering.max.messages": PARTITIONS * 50 * size,
    }


def batch_sizes(folder: Path, name: str) -> Counter[int]:
    """Count the batches in the broker's log of a topic by their number of records.

    https://kafka.apache.org/documentation/#recordbatch
    """
    segments = folder.glob(f"**/{name}-*/*.log")
    return Counter(size for segment in segments for size in _sizes(segment.read_bytes()))


def _sizes(log: bytes) -> Iterator[int]:
    at = 0
    while len(header := log[at : at + _HEADER_BYTES]) == _HEADER_BYTES and any(header):
        yield int.from_bytes(header[_RECORDS])
        at += 12 + int.from_bytes(header[_LENGTH])


def run(command: list[str]) -> float:
    """Run a reader and return its CPU time per record in µs."""
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S).stdout
    records, cpu_s = output.split()
    return float(cpu_s) * 1e6 / int(records)


def in_turns(access: KafkaAccess, program: Path, name: str, count: int, rounds: int) -> dict[str, float]:
    """Return the median CPU time per record of each reader in µs."""
    took: dict[str, list[float]] = {C: [], WORKER: [], LOOP: []}
    for number in range(rounds):
        group = f"{name}-{number}"
        took[C].append(run(_readers.compiled_command(program, access, name, count, f"{group}-c")))
        took[WORKER].append(run(_readers.command("worker", access, name, count, f"{group}-worker")))
        took[LOOP].append(run(_readers.command("loop", access, name, count, f"{group}-loop")))
    return {reader: statistics.median(times) for reader, times in took.items()}


def line(size: int, us: Mapping[str, float]) -> str:
    """Return the line of output for one batch size."""
    figures = ", ".join(f"{reader} {us[reader]:.2f}" for reader in us)
    return (
        f"batches of {size:4}: {figures} µs per record; the worker takes {us[WORKER] / us[C]:.2f} of C "
        f"(aim: at most {AIM}), {us[WORKER] / us[LOOP]:.2f} of the Python loop (aim: less than 1)"
    )


def main(count: int = COUNT, rounds: int = 3, only: str = ",".join(map(str, SIZES))) -> None:
    """Measure every batch size."""
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "kafka") as access:
        program = _readers.compile_reader(Path(folder))
        values = Workload().values
        for size in map(int, only.split(",")):
            assert count % (PARTITIONS * size) == 0, f"{count} records are no whole number of batches of {size}"
            with topic(access, f"batches-of-{size}") as name:
                fill(access, name, values, count, batches_of(size))
                assert batch_sizes(Path(folder) / "kafka", name) == {size: count // size}
                typer.echo(line(size, in_turns(access, program, name, count, rounds)))


if __name__ == "__main__":
    typer.run(main)
