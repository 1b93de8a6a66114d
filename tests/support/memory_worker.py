"""A worker with the real engine and command line, on a topic in memory.

Its committed offsets are in a file.

`HEADWATER_TEST_POSITIONS` names the file, which has the group's offsets by partition. The record of partition 0 at
offset BOMB needs more memory than a worker may use.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from headwater.app import build_worker
from headwater.engine.at_least_once import AtLeastOnce
from headwater.engine.dead_letter_writer import DeadLetterWriter
from headwater.engine.heartbeat import HeartbeatReporter
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.model.record import SourceRecord
from headwater.model.worker_spec import WorkerSpec
from headwater.sources.base import Positions
from tests.support.memory.metrics import MemoryMetrics
from tests.support.memory.sinks import MemoryProducer, MemoryTopics
from tests.support.memory.source import MemoryGroup, MemorySource, MemoryTopic

PARTITIONS, RECORDS, BOMB = 3, 20, 10
BOMB_BYTES = 500 << 20
POSITIONS = "HEADWATER_TEST_POSITIONS"


class FileGroup(MemoryGroup):
    """A group whose committed offsets are kept in a file."""

    def __init__(self, topic: MemoryTopic, path: Path) -> None:
        stored = json.loads(path.read_text())
        super().__init__(topic, {int(partition): offset for partition, offset in stored.items()})
        self._path = path

    def commit(self, positions: Positions, topic_id: int) -> None:
        super().commit(positions, topic_id)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.committed))
        new.rename(self._path)


class BombSource(MemorySource):
    """A source that needs BOMB_BYTES for one of its records."""

    def _read(self, partition: int, count: int) -> list[SourceRecord]:
        rows = super()._read(partition, count)
        if any((row.partition, row.offset) == (0, BOMB) for row in rows):
            hoard = b"x" * BOMB_BYTES
            time.sleep(30)
            del hoard
        return rows


def run_worker(spec: WorkerSpec, slot: int, reporter: HeartbeatReporter) -> int:
    """Replace build_worker.run_worker by a worker that reads from memory."""
    topic = MemoryTopic(spec.source_topic, [[] for _ in range(PARTITIONS)])
    for partition in range(PARTITIONS):
        for number in range(RECORDS):
            topic.append(partition, b"%d" % number)
    source = BombSource(FileGroup(topic, Path(os.environ[POSITIONS])))
    topics = MemoryTopics(["dead"])
    delivery = AtLeastOnce([], DeadLetterWriter("dead", spec.revision), lambda _: MemoryProducer(topics))
    metrics_writer = MetricsWriter(
        MemoryMetrics(), deployment_id=spec.deployment_id, group=spec.source_group, writer_id=str(slot)
    )
    worker = Worker(source, [], delivery, PipelineMetrics(metrics_writer), reporter=reporter)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    return 0 if worker.run() else 1


if __name__ == "__main__":
    build_worker.run_worker = run_worker
    sys.exit(build_worker.main())
