"""Which records count as rejected by Kafka, and until when."""

from collections.abc import Sequence
from typing import Literal

import pytest

from headwater.engine.rejected_records import ERROR, RejectedRecords
from headwater.model.record import Failure, RecordBatch
from headwater.sinks.base import ProducerFailure
from headwater.sinks.kafka import KafkaSink

SINK = KafkaSink("sink", "out")


def batch(*partitions: int) -> RecordBatch:
    """Return a batch with one record of each partition, at offset 7."""
    zeros = [0] * len(partitions)
    values = [b"value"] * len(partitions)
    return RecordBatch.of("stream", values, [None] * len(partitions), zeros, partitions, [7] * len(partitions), zeros)


def rejection(partition: int, cause: Literal["record", "batch", "other"]) -> ProducerFailure:
    return ProducerFailure(f"reason {partition}", "out", b"stream/%d/7/0" % partition, partition, cause)


def failed_rows(rejected: RejectedRecords, *partitions: int) -> Sequence[int]:
    return [failure.row for failure in rejected.failures_of(batch(*partitions), SINK)]


def test_a_rejected_record_fails_until_its_offset_is_committed() -> None:
    rejected = RejectedRecords()
    assert rejected.add([rejection(1, "record")]) == ["reason 1"]
    rejected.on_committed()
    assert rejected.failures_of(batch(0, 1), SINK) == [Failure(1, ERROR, "reason 1", "sink")]
    assert rejected.failures_of(batch(0, 1), KafkaSink("other", "other")) == []
    rejected.on_produced(batch(0, 1), "out")
    rejected.on_committed()
    assert not rejected


def test_a_new_rejection_means_that_the_records_before_it_are_read_again() -> None:
    rejected = RejectedRecords()
    rejected.add([rejection(1, "record")])
    rejected.on_produced(batch(1), "out")
    rejected.add([rejection(2, "record")])
    rejected.on_committed()
    assert failed_rows(rejected, 1, 2) == [0, 1]


def test_suspects_are_sent_again_with_one_record_per_batch() -> None:
    rejected = RejectedRecords()
    rejected.add([rejection(1, "batch"), rejection(2, "batch")])
    assert (rejected.need_one_record_per_batch, failed_rows(rejected, 1, 2)) == (True, [])
    rejected.add([rejection(2, "record")])
    assert (rejected.need_one_record_per_batch, failed_rows(rejected, 1, 2)) == (True, [1])
    rejected.on_produced(batch(1, 2), "out")
    rejected.on_committed()
    assert not rejected.need_one_record_per_batch


def test_errors_of_the_client_are_no_property_of_a_record() -> None:
    rejected = RejectedRecords()
    assert rejected.add([ProducerFailure("The client has failed.")]) == ["The client has failed."]
    assert not rejected


@pytest.mark.parametrize("cause", ["record", "batch"])
def test_records_of_other_partitions_stay_when_partitions_are_revoked(cause: Literal["record", "batch"]) -> None:
    rejected = RejectedRecords()
    rejected.add([rejection(1, cause), rejection(2, cause)])
    rejected.remove_partitions([1])
    assert rejected
    rejected.remove_partitions([2])
    assert not rejected
