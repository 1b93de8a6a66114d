"""Which records a producer has sent, until Kafka has acknowledged them: failures name them by number."""

from bisect import bisect
from operator import itemgetter
from typing import Final, Literal

from confluent_kafka import KafkaError

from headwater.brokers.producer import DeliveryFailure
from headwater.native.kafka import SourcePositions
from headwater.native.texts import Texts
from headwater.sinks.base import Outputs, Refusal

_RECORD: Final = frozenset({KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP})
"""Errors of a record that a broker names (KIP-467)."""
_BATCH: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""Errors of a batch of records that a broker refuses as a whole."""

_Scope = Literal["record", "batch", "none"]


class SentRecords:
    """The records since the last `clear`. is_single: each is sent in a batch of its own."""

    def __init__(self, *, is_single: bool) -> None:
        self._is_single = is_single
        self._sent: list[tuple[int, str, Texts | SourcePositions | None]] = []

    def add(self, first_row: int, outputs: Outputs) -> None:
        """Note outputs, and the number of the first one."""
        self._sent.append((first_row, outputs.topic, outputs.sources))

    def clear(self) -> None:
        """Forget them: all are acknowledged."""
        self._sent.clear()

    def refusal(self, failure: DeliveryFailure) -> Refusal:
        """What a failed delivery means for its record."""
        first_row, topic, sources = self._sent[bisect(self._sent, failure.row, key=itemgetter(0)) - 1]
        row = failure.row - first_row
        source = sources.value(row) if isinstance(sources, SourcePositions) else (sources and sources[row]) or b""
        text = failure.text or KafkaError(failure.code).str()
        reason = f"Kafka does not take a record of {topic}: {text}."
        return Refusal(reason, topic, source, self._scope(failure.code) if source else "none")

    def _scope(self, code: int) -> _Scope:
        if code in _RECORD or (self._is_single and code in _BATCH):
            return "record"
        return "batch" if code in _BATCH else "none"
