"""Counts what each transform did with its records."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from headwater.engine.transform_work import TransformWork
from headwater.model.metric import transform_metric_name
from headwater.model.record import Int64Column

MAX_COLLECTED_ROWS = 200_000
"""When the collected work covers more records than this, it is counted, to bound the memory."""


class TransformCounter:
    """Counts the records of transforms by partition.

    The work on batches is collected and counted together, which costs a batch next to nothing.
    """

    def __init__(self) -> None:
        self._work: list[TransformWork] = []
        self._rows = 0
        self._counts: dict[int, Counter[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._work or self._counts)

    def add(self, work: Sequence[TransformWork]) -> None:
        """Add the work of a batch."""
        if work:
            self._work += work
            self._rows += len(work) * work[0].record_count
            if self._rows > MAX_COLLECTED_ROWS:
                self._count()

    def add_counts(self, later: "TransformCounter") -> None:
        """Add all that another counter has counted or collected."""
        for partition, counts in later._counts.items():
            self._counts.setdefault(partition, Counter()).update(counts)
        self._work += later._work
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
        work, self._work, self._rows = self._work, [], 0
        work_by_uid: dict[str, list[TransformWork]] = {}
        for each in work:
            work_by_uid.setdefault(each.uid, []).append(each)
        for uid, work_of_uid in work_by_uid.items():
            self._count_transform(uid, work_of_uid)

    def _count_transform(self, uid: str, work: Sequence[TransformWork]) -> None:
        received = _count_partitions(each.received.partitions for each in work)
        sent = _count_partitions(each.sent.partitions for each in work)
        has_several_outputs = any(each.with_output is not each.sent for each in work)
        with_output = _count_partitions(each.with_output.partitions for each in work) if has_several_outputs else sent
        errors = Counter(partition for each in work for partition, _ in each.failed)
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
