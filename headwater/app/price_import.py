"""Composition of `headwater prices import`: ticks from files into the prices."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from headwater.app.addresses import Addresses
from headwater.app.home import Home
from headwater.brokers.kafka import KafkaBroker
from headwater.controller.resources import TICKS
from headwater.errors import SetupError
from headwater.ingest.feed import make_room, settle
from headwater.model.record import Failure, RecordBatch
from headwater.settings import Settings
from headwater.sinks.kafka_producer import KafkaProducer
from headwater.sinks.prices import PricesSink

CONNECT_WITHIN_S = 10.0
PER_BATCH = 2_000
SHOWN = 5


@dataclass(slots=True)
class Imported:
    """written: ticks that the broker has. refused: records that are none; the first of them with their numbers."""

    written: int = 0
    refused: int = 0
    shown: list[tuple[int, Failure]] = field(default_factory=list)


def import_ticks(settings: Settings, records: Iterable[bytes]) -> Imported:
    """Write ticks to the prices' topic. Raises SetupError when there is none yet, BrokerUnavailable.

    Raises SetupError also when the records end with one: those before it are then written, and it says how many.
    """
    access = Addresses(settings, Home(settings.data_dir)).kafka()
    if KafkaBroker(access, 1).partitions(TICKS.name) is None:
        raise SetupError("This installation has no prices yet: start `headwater up` or `headwater prices worker`.")
    producer = KafkaProducer(access, [TICKS.name])
    try:
        producer.connect(CONNECT_WITHIN_S)
        done, sink, faults = Imported(), PricesSink("import"), list[SetupError]()
        for first, batch in _batches(_until_fault(records, faults)):
            failures = sink.send(batch, producer)
            done.written += len(batch) - len(failures)
            done.refused += len(failures)
            done.shown += [(first + failure.row, failure) for failure in failures[: SHOWN - len(done.shown)]]
            make_room(producer)
        settle(producer, done.written)
    finally:
        producer.close()
    for fault in faults:
        raise SetupError(f"{fault.detail} The {done.written} ticks before it are written.") from fault
    return done


def _until_fault(records: Iterable[bytes], faults: list[SetupError]) -> Iterator[bytes]:
    """The same records; the fault that ends them is kept."""
    try:
        yield from records
    except SetupError as fault:
        faults.append(fault)


def _batches(records: Iterable[bytes]) -> Iterator[tuple[int, RecordBatch]]:
    """Batches, and the number of the first record of each, from 1."""
    rest, first = iter(records), 1
    while values := [*islice(rest, PER_BATCH)]:
        n = len(values)
        yield first, RecordBatch.of("", [*values], [None] * n, [0] * n, [0] * n, [*range(n)], [0] * n)
        first += n
