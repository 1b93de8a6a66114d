"""The source of the prices worker: the ticks topic, from the positions in the price store."""

from collections.abc import Callable

import structlog

from headwater.model.access import KafkaAccess
from headwater.model.price.tick import TICKS_TOPIC, select_well_formed
from headwater.model.record import RecordBatch
from headwater.sources.base import Positions
from headwater.sources.kafka import KafkaSource

log = structlog.get_logger(__name__)

GROUP = "headwater.prices"
"""The consumer group of all prices workers. Their metrics are stored under this name, too."""


def ticks_source(access: KafkaAccess, starts: Callable[[list[int], str], Positions]) -> KafkaSource:
    """Return a source of ticks.

    For the partitions that are assigned to it, it starts at the positions that `starts` returns (see KafkaSource).
    """
    return KafkaSource(access, TICKS_TOPIC, GROUP, read_starts=starts)


def only_ticks(batch: RecordBatch) -> RecordBatch:
    """Return the batch without records that are not ticks.

    Other programs may write to the topic, too.
    """
    ticks = select_well_formed(batch)
    if ticks is batch:
        return batch
    log.warning("records that are not ticks are left out", topic=batch.topic, count=len(batch) - len(ticks))
    return ticks
