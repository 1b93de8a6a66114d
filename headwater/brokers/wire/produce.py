"""The request that writes batches. In parts, for joining them would copy the batches again and again.

https://kafka.apache.org/protocol#The_Messages_Produce
"""

import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from headwater.brokers.wire.batch import Batch
from headwater.brokers.wire.protocol import Parts, Reader, header, text

_ALL_REPLICAS: Final = -1
_REST: Final = struct.Struct(">hii")
"""Whose acknowledgement is wanted, for how many ms, and the number of topics."""
_PARTITION: Final = struct.Struct(">ii")
"""Its number, and the size of its batch."""
_WRITTEN: Final = struct.Struct(">ihqqq")
"""Number of the partition, error code, where and when the batch was appended, the partition's first offset."""


class Produce:
    """At most one batch per partition of each topic. Answer: an error code for each topic and partition."""

    key: ClassVar[int] = 0
    version: ClassVar[int] = 7

    def __init__(self, batches: Mapping[str, Sequence[tuple[int, Batch]]], timeout_s: float) -> None:
        self._batches = batches
        self._timeout_ms = int(timeout_s * 1000)

    def parts(self, number: int) -> Parts:
        no_transaction, rest = text(None), _REST.pack(_ALL_REPLICAS, self._timeout_ms, len(self._batches))
        parts: Parts = [header(self, number), no_transaction, rest]
        for topic, batches in self._batches.items():
            parts += [text(topic), struct.pack(">i", len(batches))]
            for partition, batch in batches:
                parts += [_PARTITION.pack(partition, sum(map(len, batch))), *batch]
        return parts

    def answer(self, payload: memoryview) -> dict[tuple[str, int], int]:
        reader = Reader(payload)
        topics = reader.array(lambda: (reader.text(), reader.array(lambda: reader.numbers(_WRITTEN))))
        return {(topic, partition[0]): partition[1] for topic, partitions in topics for partition in partitions}
