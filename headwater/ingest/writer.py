"""Writes the records of an ingest and its position in one Kafka transaction."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from headwater.ingest.base import Step
from headwater.ingest.feed import partition_of
from headwater.sinks.base import Outputs, TransactionalProducer, oversize

POSITIONS_TOPIC: Final = "headwater.ingest"
"""Compacted: by the name of each ingest, the position that it reached."""


def transactional_id(name: str) -> str:
    """Whoever begins under it shuts out the process that used it before."""
    return f"headwater.ingest.{name}"


class Target(NamedTuple):
    """Where a stream is stored."""

    topic: str
    partitions: int


class Written(NamedTuple):
    """What became of a step. records: stored ones by stream. left_out: why no topic takes a record, in sentences."""

    records: Counter[str]
    left_out: list[str]


class StreamWriter:
    """targets: by stream. name: of the ingest; one process at a time writes under it. producer: connected and begun."""

    def __init__(self, producer: TransactionalProducer, targets: Mapping[str, Target], name: str) -> None:
        self._producer = producer
        self._targets = targets
        self._name = name.encode()

    def write(self, step: Step) -> Written:
        """Store a step. Raises DeliveryFailed: it may or may not be stored, which only a new producer can tell."""
        done = Written(Counter(), [])
        fitting: defaultdict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
        for stream, key, value in step.records:
            if reason := oversize(value, key, []):
                done.left_out.append(f"A record of {stream} is too large. {reason}")
                continue
            done.records[stream] += 1
            fitting[stream].append((key, value))
        for stream, records in fitting.items():
            self._produce(self._targets[stream], *zip(*records, strict=True))
        self._producer.produce(Outputs.of(POSITIONS_TOPIC, [step.position], [self._name], [0], [0]))
        self._producer.commit({}, _no_membership)
        return done

    def _produce(self, target: Target, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        partitions = [partition_of(key, target.partitions) for key in keys]
        self._producer.produce(Outputs.of(target.topic, values, keys, partitions, [0] * len(keys)))


def _no_membership() -> NoReturn:
    raise AssertionError("an ingest stores no positions of a consumer group")
