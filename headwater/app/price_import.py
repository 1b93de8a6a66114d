"""Implements `headwater prices import`: writes ticks from files to the ticks topic."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from headwater.app.endpoints import Endpoints
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.deployment_resources import TICKS_TOPIC_SPEC
from headwater.errors import SetupError
from headwater.ingest.replay_writer import flush_or_raise, wait_for_queue_space
from headwater.model.record import Failure, RecordBatch
from headwater.settings import Settings
from headwater.sinks.idempotent_producer import IdempotentKafkaProducer
from headwater.sinks.prices import PricesSink

CONNECT_WITHIN_S = 10.0
PER_BATCH = 2_000
MAX_EXAMPLES = 5


@dataclass(slots=True)
class ImportResult:
    """The result of an import of ticks.

    Attributes:
        written: The number of ticks that Kafka has acknowledged.
        rejected: The number of records that are not valid ticks.
        rejected_examples: The first rejected records: the number of each record, and why it was rejected.
    """

    written: int = 0
    rejected: int = 0
    rejected_examples: list[tuple[int, Failure]] = field(default_factory=list)


def import_ticks(settings: Settings, records: Iterable[bytes]) -> ImportResult:
    """Write ticks to the ticks topic.

    Raises SetupError when the topic does not exist yet, and BrokerUnavailable. When reading the records raises a
    SetupError, the ticks before it are written, and the error states their number.
    """
    read_errors: list[SetupError] = []
    result = _write_ticks(settings, _until_error(records, read_errors))
    for error in read_errors:
        raise SetupError(f"{error.detail} The {result.written} ticks before it are written.") from error
    return result


def _until_error(records: Iterable[bytes], errors: list[SetupError]) -> Iterator[bytes]:
    """Yield the records until reading them raises a SetupError, which is appended to `errors`."""
    try:
        yield from records
    except SetupError as error:
        errors.append(error)


def _write_ticks(settings: Settings, records: Iterable[bytes]) -> ImportResult:
    access = Endpoints.from_settings(settings).admin_kafka_access()
    if KafkaClusterAdmin(access).partition_count(TICKS_TOPIC_SPEC.name) is None:
        raise SetupError("This installation has no prices yet: start `headwater up` or `headwater prices worker`.")
    producer = IdempotentKafkaProducer(access, [TICKS_TOPIC_SPEC.name])
    try:
        producer.connect(CONNECT_WITHIN_S)
        result, sink = ImportResult(), PricesSink(name="headwater prices import")
        for first, batch in _batches(records):
            failures = sink.send(batch, producer)
            result.written += len(batch) - len(failures)
            result.rejected += len(failures)
            missing_examples = MAX_EXAMPLES - len(result.rejected_examples)
            result.rejected_examples += [(first + failure.row, failure) for failure in failures[:missing_examples]]
            wait_for_queue_space(producer)
        flush_or_raise(producer, result.written)
    finally:
        producer.close()
    return result


def _batches(records: Iterable[bytes]) -> Iterator[tuple[int, RecordBatch]]:
    """Yield batches, each with the number of its first record, counted from 1."""
    remaining, first = iter(records), 1
    while values := [*islice(remaining, PER_BATCH)]:
        count = len(values)
        batch = RecordBatch.of(
            topic="",
            values=values,
            keys=[None] * count,
            timestamps=[0] * count,
            partitions=[0] * count,
            offsets=range(count),
            indexes=[0] * count,
        )
        yield first, batch
        first += count
