"""Writes the records of an ingest and its position in one Kafka transaction."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from headwater.ingest.base import Step
from headwater.ingest.partitioner import partition_of
from headwater.sinks.base import TransactionalProducer
from headwater.sinks.outputs import OutputBatch, size_error

POSITIONS_TOPIC: Final = "headwater.ingest"
"""The compacted topic with the position of each ingest, by its name."""


def transactional_id(name: str) -> str:
    """Return the transactional.id of an ingest.

    Initialising a producer with this id fences the previous process of the ingest.
    """
    return f"headwater.ingest.{name}"


class StreamTopic(NamedTuple):
    """The topic of a stream."""

    topic: str
    partitions: int


class StepResult(NamedTuple):
    """The result of writing a step.

    Attributes:
        records: The number of stored records, by stream.
        left_out: An error message for each record that is too large for its topic.
    """

    records: Counter[str]
    left_out: list[str]


class StreamWriter:
    """Writes steps in Kafka transactions.

    Args:
        producer: A connected producer with initialised transactions.
        targets: The topic of each stream.
        name: The name of the ingest, which is the key of its position.
    """

    def __init__(self, producer: TransactionalProducer, targets: Mapping[str, StreamTopic], name: str) -> None:
        self._producer = producer
        self._targets = targets
        self._name = name.encode()

    def write(self, step: Step) -> StepResult:
        """Write a step in one transaction.

        Raises TransactionFailed when the transaction was not committed, or when that is unknown. A new writer then
        reads the stored position, which shows whether the transaction was committed.
        """
        result = StepResult(Counter(), [])
        small_enough: defaultdict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
        for stream, key, value in step.records:
            if reason := size_error(value, key, []):
                result.left_out.append(f"A record of {stream} is too large. {reason}")
                continue
            result.records[stream] += 1
            small_enough[stream].append((key, value))
        for stream, records in small_enough.items():
            self._produce(self._targets[stream], *zip(*records, strict=True))
        self._producer.produce(
            OutputBatch.of(POSITIONS_TOPIC, values=[step.position], keys=[self._name], partitions=[0], timestamps=[0])
        )
        self._producer.commit({}, _no_group_metadata)
        return result

    def _produce(self, target: StreamTopic, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        partitions = [partition_of(key, target.partitions) for key in keys]
        # A timestamp of 0 means the current time (see OutputBatch).
        batch = OutputBatch.of(target.topic, values, keys, partitions, timestamps=[0] * len(keys))
        self._producer.produce(batch)


def _no_group_metadata() -> NoReturn:
    raise AssertionError("an ingest commits no offsets of a consumer group")
