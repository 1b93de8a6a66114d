"""Measures one pipeline with 1, 4, 16 and 64 workers.

`python -m benches.many_workers [--records 5000000]` runs it.

A stream with 64 partitions goes through a filter and a script on a complete installation. For each number of workers
the benchmark changes the number while records flow, and prints the longest time without an output of any partition.
When all workers run, one transaction makes a backlog readable at once; CPU per record is the CPU time of the workers
and their V8 processes until all outputs are written. Then 20,000 records per second come steadily; the latency is the
time from a record's timestamp to its arrival at a consumer of the sink. The reference is one worker in the same run.
At the end every output must have been written once.
"""

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx2
import typer
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from benches._installation import running_installation
from benches._stream import LARGE_BATCHES
from benches._workload import DISTINCT, SCRIPT, Workload
from benches.latency import Arrivals, arriving
from headwater.brokers.offsets import LATEST
from tests.acceptance.installation import Deployed, Installation, client_config, deploy, in_background, pipeline
from tests.support.processes import cpu_seconds, descendants
from tests.support.waiting import until

CHAIN, ENTITY = "base", "erc20_token_transfer"
SOURCE = f"stream.{CHAIN}.{ENTITY}"
PARTITIONS = 64
WORKERS = (1, 4, 16, 64)
WARM_UP_RECORDS_PER_WORKER = 100_000
"""How many records are processed before each measured backlog.

Afterwards each worker has built its Bloom filter, and V8 has compiled the script, to which the set filter passes a
tenth of the records.
"""
RATE_DURING_CHANGE = 2_000
SETTLE_S = 5.0
SLICE_S = 0.005
POLL_S = 0.1
ROLLOUT_WITHIN_S = 300.0
OUTPUT_WITHIN_S = 240.0
TRANSACTION_TIMEOUT_MS = 900_000


def transforms(filter_uid: str | None = None) -> list[dict[str, Any]]:
    kept = {"uid": filter_uid} if filter_uid else {}
    return [
        {"type": "redis_set_filter", "filter_expr": "root = this.to_address", **kept},
        {"type": "v8", "script": SCRIPT},
    ]


class Stream:
    """Writes records to the source.

    Attributes:
        expected: How many outputs the records must have.
    """

    def __init__(self, installation: Installation, workload: Workload) -> None:
        self._config = {**installation.admin_config(), "compression.type": "lz4", **LARGE_BATCHES}
        self._all = list(range(DISTINCT))
        self._passing = [number for number in self._all if workload.is_member[number]]
        self._workload = workload
        self._written = 0
        self.expected = 0

    def write_backlog(self, count: int) -> Callable[[], None]:
        """Write records that no worker can read yet.

        Returns a function that makes all of them readable.
        """
        transaction = {"transactional.id": "backlog", "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        producer = Producer({**self._config, **transaction, "linger.ms": 50})
        producer.init_transactions()
        producer.begin_transaction()
        self._write(producer, self._all, count)
        assert producer.flush(OUTPUT_WITHIN_S) == 0
        return producer.commit_transaction

    def write_steadily(self, rate: int, stop: threading.Event, *, only_passing: bool = False) -> None:
        """Write records at a rate per second until `stop` is set."""
        producer = Producer({**self._config, "enable.idempotence": True, "linger.ms": 5})
        numbers = self._passing if only_passing else self._all
        started, written = time.monotonic(), 0
        while not stop.wait(SLICE_S):
            due = int(rate * (time.monotonic() - started))
            self._write(producer, numbers, due - written)
            written = due
        assert producer.flush(OUTPUT_WITHIN_S) == 0

    def _write(self, producer: Producer, numbers: Sequence[int], count: int) -> None:
        values, is_member = self._workload.values, self._workload.is_member
        for _ in range(count):
            number = numbers[self._written % len(numbers)]
            partition = self._written % PARTITIONS
            while True:
                try:
                    producer.produce(SOURCE, values[number], b"%d" % self._written, partition)
                    break
                except BufferError:
                    producer.poll(0.05)
            self._written += 1
            self.expected += is_member[number]
        producer.poll(0)


class PartitionArrivals(Arrivals):
    """Consumes the sink from its end, and notes when the records of each partition arrive."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        super().__init__(config, topic)
        self._times: dict[int, list[float]] = defaultdict(list)

    def _record(self, message: Message) -> None:
        super()._record(message)
        partition = message.partition()
        assert partition is not None
        self._times[partition].append(time.monotonic())

    def longest_pause_s(self) -> float:
        """Return the longest time between two records of the same partition."""
        assert len(self._times) == PARTITIONS
        return max(after - before for times in self._times.values() for before, after in pairwise(times))


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time that the parts of an installation used.

    Attributes:
        cpu_s: The CPU seconds by part: "workers", "controller" and "kafka".
        seconds: In how many seconds.
    """

    cpu_s: dict[str, float]
    seconds: float

    def percent(self, part: str) -> float:
        """Return the CPU time of a part in percent of one core."""
        return 100 * self.cpu_s[part] / self.seconds


class CpuMeter:
    """Measures the CPU time of the parts of an installation, from its creation on."""

    def __init__(self, installation: Installation, deployment: Deployed) -> None:
        workers = installation.workers_of(deployment)
        self._parts = {
            "workers": [pid for worker in workers for pid in (worker, *(each.pid for each in descendants(worker)))],
            "controller": installation.processes("headwater controller"),
            "kafka": installation.processes("kafka.Kafka"),
        }
        assert all(self._parts.values())
        self._before, self._started = self._read(), time.monotonic()

    def _read(self) -> dict[str, float]:
        return {part: sum(map(cpu_seconds, pids)) for part, pids in self._parts.items()}

    def usage(self) -> Usage:
        """Return the CPU time until now."""
        used = {part: after - self._before[part] for part, after in self._read().items()}
        return Usage(used, time.monotonic() - self._started)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the number of workers.

    Attributes:
        seconds: The time until all new workers run, with their start.
        pause_s: The longest time without an output of any partition.
    """

    seconds: float
    pause_s: float


class Run:
    """One pipeline of a running installation."""

    def __init__(self, installation: Installation, client: httpx2.Client, workload: Workload) -> None:
        self._installation = installation
        self._client = client
        self._admin = AdminClient(installation.admin_config())
        self._admin.create_partitions([NewPartitions(SOURCE, PARTITIONS)])[SOURCE].result(60)
        self._stream = Stream(installation, workload)
        self._deployment = deploy(client, pipeline(ENTITY, CHAIN, transforms=transforms(), parallelism=WORKERS[0]))
        members = [workload.records[number]["to_address"] for number in range(DISTINCT) if workload.is_member[number]]
        client.post(self._deployment.filter_url(), json={"values": members}).raise_for_status()

    def outputs(self) -> int:
        """Return how many records the sink has."""
        topic = self._deployment.sink["topic"]
        latest = {TopicPartition(topic, number): LATEST for number in range(PARTITIONS)}
        return sum(each.result(60).offset for each in self._admin.list_offsets(latest).values())

    def wait_for_outputs(self) -> None:
        """Wait until the sink has the outputs of all records that were written, each once."""
        deadline = time.monotonic() + OUTPUT_WITHIN_S
        while (outputs := self.outputs()) < self._stream.expected:
            assert time.monotonic() < deadline, f"{outputs:,} of {self._stream.expected:,} outputs"
            time.sleep(POLL_S)
        assert outputs == self._stream.expected, "each output once"

    def change_workers(self, workers: int) -> Change:
        """Change the number of workers while records flow."""
        body = pipeline(ENTITY, CHAIN, transforms=transforms(self._deployment.uid()), parallelism=workers)
        sink = self._deployment.sink
        arrivals = PartitionArrivals(client_config(sink), sink["topic"])

        def write(stop: threading.Event) -> None:
            self._stream.write_steadily(RATE_DURING_CHANGE, stop, only_passing=True)

        with arriving(arrivals), in_background(write):
            time.sleep(SETTLE_S)
            began = time.monotonic()
            self._client.put(f"/api/v1/flow/{self._deployment.id}", json=body).raise_for_status()
            until(self._is_deployed, ROLLOUT_WITHIN_S, "the end of the rollout")
            seconds = time.monotonic() - began
            time.sleep(SETTLE_S)
        self.wait_for_outputs()
        return Change(seconds, arrivals.longest_pause_s())

    def _is_deployed(self) -> bool:
        response = self._client.post(f"/api/v1/flow/{self._deployment.id}/deploy")
        is_pending = response.status_code == 503 and response.json()["type"].endswith(":deploy-pending")
        assert response.status_code == 200 or is_pending, response.text
        return not is_pending

    def process_backlog(self, workers: int, count: int) -> Usage:
        """Let the workers process a backlog, after a warm-up."""
        self._stream.write_backlog(workers * WARM_UP_RECORDS_PER_WORKER)()
        self.wait_for_outputs()
        make_readable = self._stream.write_backlog(count)
        time.sleep(SETTLE_S)
        meter = CpuMeter(self._installation, self._deployment)
        make_readable()
        self.wait_for_outputs()
        return meter.usage()

    def process_steadily(self, rate: int, seconds: float) -> tuple[Usage, list[float]]:
        """Let the workers process records at a steady rate. Return also the latencies in ms."""
        sink = self._deployment.sink
        arrivals = Arrivals(client_config(sink), sink["topic"])
        with arriving(arrivals), in_background(lambda stop: self._stream.write_steadily(rate, stop)):
            time.sleep(SETTLE_S)
            arrivals.received.clear()
            meter = CpuMeter(self._installation, self._deployment)
            time.sleep(seconds)
            usage, latencies = meter.usage(), [age_ms for _, age_ms in arrivals.received]
        self.wait_for_outputs()
        return usage, latencies


def measure(run: Run, records: int, rate: int, seconds: float) -> None:
    """Measure each number of workers, and print its figures."""
    reference = 0.0
    for workers in WORKERS:
        change = run.change_workers(workers) if workers != WORKERS[0] else None
        backlog = run.process_backlog(workers, records)
        steady, latencies = run.process_steadily(rate, seconds)
        cost = backlog.cpu_s["workers"] / records * 1e6
        reference = reference or cost
        if change is not None:
            typer.echo(
                f"change to {workers} workers: {change.seconds:.1f} s with their start; "
                f"longest pause of a partition {change.pause_s:.1f} s"
            )
        typer.echo(
            f"{workers:2} workers, backlog: {cost:.2f} CPU s per million records ({cost / reference:.2f} x); "
            f"{records / backlog.seconds:,.0f} records/s; controller {backlog.percent('controller'):.1f} % of a core, "
            f"Kafka {backlog.percent('kafka'):.0f} %"
        )
        percentiles = statistics.quantiles(latencies, n=100)
        typer.echo(
            f"   {rate:,} records/s: workers {steady.percent('workers'):.0f} % of a core, latency p50 "
            f"{percentiles[49]:.0f} ms, p99 {percentiles[98]:.0f} ms; controller {steady.percent('controller'):.1f} %, "
            f"Kafka {steady.percent('kafka'):.0f} %"
        )


def main(records: int = 5_000_000, rate: int = 20_000, seconds: float = 20) -> None:
    """Run the benchmark on a new installation."""
    workload = Workload()
    with running_installation() as installation, installation.client() as client:
        measure(Run(installation, client, workload), records, rate, seconds)


if __name__ == "__main__":
    typer.run(main)
