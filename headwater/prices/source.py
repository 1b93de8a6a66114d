"""The source of the prices worker: the ticks topic, read from the offsets that the price store keeps."""

from collections.abc import Callable

import structlog

from headwater.model.price.tick import TICKS_TOPIC, ticks_of
from headwater.model.record import RecordBatch
from headwater.model.worker import KafkaAccess
from headwater.sources.base import Positions
from headwater.sources.kafka import KafkaSource

log = structlog.get_logger(__name__)

GROUP = "headwater.prices"
"""The consumer group of all prices workers, and the name of their metrics."""


def ticks_source(access: KafkaAccess, starts: Callable[[list[int], str], Positions]) -> KafkaSource:
    """Return a source of ticks. starts: see KafkaSource."""
    return KafkaSource(access, TICKS_TOPIC, GROUP, starts=starts)


def only_ticks(batch: RecordBatch) -> RecordBatch:
    """Return the batch without the records that no prices sink wrote: other programs may write to the topic too."""
    kept = ticks_of(batch)
    if kept is batch:
        return batch
    log.warning("records that are no ticks are left out", topic=batch.topic, count=len(batch) - len(kept))
    return kept
