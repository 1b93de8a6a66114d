"""Counts what each transform did with its records."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from headwater.engine.transform_step import TransformStep
from headwater.model.metric import transform_metric_name
from headwater.model.record import Int64Column

MAX_COLLECTED_ROWS = 200_000
"""Steps with about this many records in total are counted at once, to bound their memory."""


class TransformCounter:
    """Counts the records of transforms by partition.

    Steps are collected and counted together, which costs a batch next to nothing.
    """

    def __init__(self) -> None:
        self._steps: list[TransformStep] = []
        self._rows = 0
        self._counts: dict[int, Counter[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._steps or self._counts)

    def add(self, steps: Sequence[TransformStep]) -> None:
        """Add the steps of a batch."""
        if steps:
            self._steps += steps
            self._rows += len(steps) * steps[0].record_count
            if self._rows > MAX_COLLECTED_ROWS:
                self._count()

    def add_counts(self, later: "TransformCounter") -> None:
        """Add all that another counter has counted or collected."""
        for partition, counts in later._counts.items():
            self._counts.setdefault(partition, Counter()).update(counts)
        self._steps += later._steps
        self._rows += later._rows

    def drop(self, partitions: Collection[int]) -> None:
        """Discard the records of these partitions."""
        self._count()
        for partition in partitions:
            self._counts.pop(partition, None)

    def take(self) -> dict[int, Counter[str]]:
        """Return and remove the counts by partition and by name, see transform_metric_name."""
        self._count()
        counts, self._counts = self._counts, {}
        return counts

    def _count(self) -> None:
        steps, self._steps, self._rows = self._steps, [], 0
        steps_by_uid: dict[str, list[TransformStep]] = {}
        for step in steps:
            steps_by_uid.setdefault(step.uid, []).append(step)
        for uid, steps_of_uid in steps_by_uid.items():
            self._count_transform(uid, steps_of_uid)

    def _count_transform(self, uid: str, steps: Sequence[TransformStep]) -> None:
        received = _count_partitions(step.received.partitions for step in steps)
        sent = _count_partitions(step.sent.partitions for step in steps)
        has_split_records = any(step.with_output is not step.sent for step in steps)
        with_output = _count_partitions(step.with_output.partitions for step in steps) if has_split_records else sent
        errors = Counter(partition for step in steps for partition, _ in step.failed)
        for partition, received_count in received.items():
            dropped = received_count - with_output[partition] - errors[partition]
            self._counts.setdefault(partition, Counter()).update(
                {
                    transform_metric_name(uid, "received"): received_count,
                    transform_metric_name(uid, "sent"): sent[partition],
                    transform_metric_name(uid, "dropped"): dropped,
                    transform_metric_name(uid, "errors"): errors[partition],
                }
            )


def _count_partitions(columns: Iterable[Int64Column]) -> Counter[int]:
    """Return how often each partition occurs in all columns."""
    counts = np.bincount(np.frombuffer(b"".join(columns), np.int64))
    partitions = np.flatnonzero(counts)
    return Counter(dict(zip(partitions.tolist(), counts[partitions].tolist(), strict=True)))
