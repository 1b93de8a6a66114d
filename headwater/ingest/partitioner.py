"""Selects the partition of a stream record by its key, as Kafka clients on librdkafka do."""

import zlib


def partition_of(key: bytes, partitions: int) -> int:
    """Return the CRC-32 of the key modulo the number of partitions.

    librdkafka's `consistent` partitioner does the same.
    """
    return zlib.crc32(key) % partitions
