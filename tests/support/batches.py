"""Record batches, read by another implementation of the format."""

from aiokafka.record.memory_records import MemoryRecords

from headwater.brokers.wire.batch import Batch
from headwater.model.record import Headers

ReadHeaders = Headers | list[tuple[str, bytes | None]]
Read = tuple[bytes | None, bytes | None, int, ReadHeaders]


def read(batch: Batch) -> list[Read]:
    """Value, key, time and headers of each record."""
    found = MemoryRecords(b"".join(batch)).next_batch()
    assert found.validate_crc()
    return [(record.value, record.key, record.timestamp, [*record.headers]) for record in found]
