"""The at-least-once producer: records are sent as they come."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client import ClientErrors, producer_settings, unavailable
from headwater.brokers.producer import NO_CODECS, Producer
from headwater.model.worker import KafkaAccess
from headwater.native.kafka import Sending
from headwater.sinks.base import MAX_RECORD_BYTES, Outputs, Refusal
from headwater.sinks.sent import SentRecords
from headwater.sinks.stalled_producer import AcknowledgementGuard

LINGER_MS: Final = 50
"""How long a record waits for others: larger requests are cheaper. `push` ends the wait."""
MAX_RECORDS: Final = 20_000
MAX_KILOBYTES: Final = 64 << 10
"""What librdkafka's queue holds: what is queued at a checkpoint has to be waited for."""
PUSH_S: Final = 0.005
"""How long `push` waits for acknowledgements: librdkafka sends at once what lingers while somebody waits so."""
APPENDED: Final = 500
"""So many records that came singly are queued together."""
DRAIN_S: Final = 2.0
"""How long a closing producer waits for requests that are on their way, so that none arrives after its successor's."""

_STALLED: Final = (
    "Kafka answers, but has acknowledged no record for {waited_s:g} s: a new client of Kafka sends the records again."
)


class KafkaProducer:
    """Implements sinks.base.Producer over librdkafka.

    topics: what `connect` looks for. codecs: by topic, its compression. is_single: send each record in a batch of its
    own, so that a broker's refusal names it. guard: finds out that the producer stands still; `failures` tells it.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: Sequence[str],
        codecs: Mapping[str, str] = NO_CODECS,
        *,
        is_single: bool = False,
        guard: AcknowledgementGuard | None = None,
    ) -> None:
        self._access = access
        self._guard = guard
        self._names = topics
        self._errors = ClientErrors(access)
        settings = producer_settings(access, self._errors, LINGER_MS) | {
            # Else what follows a refused record could be stored before it: it is read again, and written behind them.
            "enable.gapless.guarantee": True,
            # Kafka is waited for; a record that fails for its age would be passed by later ones.
            "delivery.timeout.ms": 0,
            # librdkafka counts its framing too; `oversize` is the rule.
            "message.max.bytes": MAX_RECORD_BYTES + 4_000,
            # Each acknowledgement ends a wait in `poll` and `flush`, not only each failure.
            "delivery.report.only.error": False,
            "batch.num.messages": 1 if is_single else 10_000,
            "queue.buffering.max.messages": MAX_RECORDS,
            "queue.buffering.max.kbytes": MAX_KILOBYTES,
        }
        self._client = Producer(settings, codecs)
        self._sent = SentRecords(is_single=is_single)
        self._waiting: deque[tuple[Sending, int]] = deque()
        self._waiting_records = 0
        self._has_failed = False
        self._appended: dict[str, list[tuple[bytes, bytes | None, int]]] = {}

    def connect(self, timeout_s: float) -> None:
        require_topics(self._client, self._names, self._access, self._errors, timeout_s)

    # Records.

    def produce(self, outputs: Outputs) -> None:
        self._queue_appended()
        self._queue(outputs)

    def _queue(self, outputs: Outputs) -> None:
        if not len(outputs):
            return
        columns = outputs.values, outputs.keys, outputs.partitions, outputs.timestamps, outputs.headers
        first_row, sending = self._client.start(outputs.topic, *columns)
        self._sent.add(first_row, outputs)
        self._waiting.append((sending, len(outputs)))
        self._waiting_records += len(outputs)
        self._advance()

    def append(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        rows = self._appended.setdefault(topic, [])
        rows.append((value, key, partition))
        if len(rows) >= APPENDED:
            self._queue_appended()

    def _queue_appended(self) -> None:
        appended, self._appended = self._appended, {}
        for topic, rows in appended.items():
            values, keys, partitions = zip(*rows, strict=True)
            self._queue(Outputs.of(topic, values, keys, partitions, [0] * len(rows)))

    def _advance(self) -> None:
        """Move records that wait for room into the client's queue."""
        while self._waiting and self._waiting[0][0].advance():
            self._waiting_records -= self._waiting.popleft()[1]

    def push(self) -> None:
        self._queue_appended()
        if self.outstanding():
            self._client.flush(PUSH_S)

    def saturated(self) -> bool:
        self._advance()
        return bool(self._waiting)

    def outstanding(self) -> int:
        appended = sum(map(len, self._appended.values()))
        return self._client.outstanding() + self._waiting_records + appended

    def flush(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        self._queue_appended()
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            if self._waiting:
                self._client.poll(left_s)
                self._advance()
            elif not self._client.flush(left_s):
                break
            if time.monotonic() >= deadline:
                break
        if not (left := self.outstanding()) and not self._client.has_failures:
            self._sent.clear()
        return left

    def failures(self) -> list[Refusal]:
        self._client.poll(0)
        refusals = [self._sent.refusal(failure) for failure in self._client.failures()]
        if not refusals and not self._has_failed:
            refusals = self._client_failures()
        self._has_failed = self._has_failed or bool(refusals)
        return refusals

    def _client_failures(self) -> list[Refusal]:
        """Why the client itself is of no use any more, if it is not."""
        if self._client.fatal is not None:
            return [Refusal(f"Kafka's client cannot go on: {self._client.fatal.str()}.")]
        if self._guard is None:
            return []
        waited_s = self._guard.given_up_after_s(self._client.acknowledged, self.outstanding())
        return [Refusal(_STALLED.format(waited_s=waited_s))] if waited_s else []

    def close(self) -> None:
        if self._client.closed:
            return
        self._waiting.clear()
        self._client.purge(in_flight=False)
        self._client.flush(DRAIN_S)
        self._client.close()
        if self._guard is not None:
            self._guard.reset()


def require_topics(
    client: Producer, topics: Sequence[str], access: KafkaAccess, errors: ClientErrors, timeout_s: float
) -> None:
    """Return when the broker answers and has all topics. Raises BrokerUnavailable."""
    try:
        missing = client.topic_errors(topics, timeout_s)
    except KafkaException as error:
        errors.check()
        raise unavailable(error, access) from error
    for code in missing.values():
        raise unavailable(KafkaError(code), access)
