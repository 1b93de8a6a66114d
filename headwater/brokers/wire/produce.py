"""The request that writes batches. In parts, for joining them would copy the batches again and again.

https://kafka.apache.org/protocol#The_Messages_Produce
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka.protocol.produce import ProduceRequest_v7, ProduceResponse_v7

from headwater.brokers.wire.batch import Batch
from headwater.brokers.wire.connection import CLIENT_ID, Parts

_API: Final = struct.Struct(">hhi")
"""Key of the request, its version, the number that its answer has."""
_NO_TEXT: Final = struct.pack(">h", -1)
_ALL_REPLICAS: Final = -1
_REST: Final = struct.Struct(">hii")
"""Whose acknowledgement is wanted, for how many ms, and the number of topics."""
_PARTITION: Final = struct.Struct(">ii")
"""Its number, and the size of its batch."""


class Produce:
    """Implements connection.Request: at most one batch per partition of each topic."""

    answer = ProduceResponse_v7

    def __init__(self, batches: Mapping[str, Sequence[tuple[int, Batch]]], timeout_s: float) -> None:
        self._batches = batches
        self._timeout_ms = int(timeout_s * 1000)

    def parts(self, number: int) -> Parts:
        """The request, header included."""
        api = _API.pack(ProduceRequest_v7.API_KEY, ProduceRequest_v7.API_VERSION, number)
        rest = _REST.pack(_ALL_REPLICAS, self._timeout_ms, len(self._batches))
        parts: Parts = [api, _text(CLIENT_ID), _NO_TEXT, rest]
        for topic, batches in self._batches.items():
            parts += [_text(topic), struct.pack(">i", len(batches))]
            for partition, batch in batches:
                parts += [_PARTITION.pack(partition, sum(map(len, batch))), *batch]
        return parts


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
