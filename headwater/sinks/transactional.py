"""Kafka's transactions: records and the source's positions become visible together, or not at all.

A transaction is open within `commit` only, so it never waits for anything but Kafka. Whatever goes wrong in one, other
than what may be called again, ends the use of this producer: its successor under the same transactional id ends the
transaction, whichever way it went, and gets a higher epoch, so that nothing that is still on its way can touch a later
transaction. (librdkafka speaks version 1 of the protocol, which does not tell one transaction from the next; KIP-890.)
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException

from headwater.brokers.client import ClientErrors, Member, producer_settings, unavailable
from headwater.brokers.producer import NO_CODECS, Producer
from headwater.errors import DeliveryFailed
from headwater.model.worker import KafkaAccess
from headwater.native.kafka import Place
from headwater.sinks.base import MAX_RECORD_BYTES, Outputs, Refusal
from headwater.sinks.kafka_producer import require_topics
from headwater.sinks.sent import SentRecords

TRANSACTION_TIMEOUT_S: Final = 15.0
"""A dead worker's open transaction holds up readers for so long, and until Kafka looks (every 10 s by default), when no
successor ends it sooner."""
COMMIT_S: Final = 5.0
"""How long a transaction may take; less than half of the above."""
ABORT_S: Final = 2.0
LINGER_MS: Final = 50.0
"""Nothing waits that long: a commit sends all there is. Until then, larger requests are cheaper."""
ROOM_S: Final = 0.02
AGAIN_S: Final = 0.02

_SETTINGS: Final[dict[str, Any]] = {
    # librdkafka counts its framing too; `oversize` is the rule.
    "message.max.bytes": MAX_RECORD_BYTES + 4_000,
    "queue.buffering.max.messages": 100_000,
    "transaction.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
    "delivery.timeout.ms": 10_000,  # librdkafka wants no more than the transaction's
    # Each acknowledgement ends a wait within `commit_transaction`, which else looks every 10 ms.
    "delivery.report.only.error": False,
}


class TransactionalKafkaProducer:
    """Implements sinks.base.TransactionalProducer over librdkafka. topics: all that will be written to.

    source_topic: whose positions `commit` stores.
    """

    def __init__(
        self,
        access: KafkaAccess,
        topics: Sequence[str],
        source_topic: str,
        transactional_id: str,
        codecs: Mapping[str, str] = NO_CODECS,
        *,
        is_single: bool = False,
    ) -> None:
        self._access = access
        self._topics = topics
        self._source_topic = source_topic
        self._held: list[Outputs] = []
        self._errors = ClientErrors(access)
        settings = producer_settings(access, self._errors, LINGER_MS) | _SETTINGS
        settings |= {"transactional.id": transactional_id, "batch.num.messages": 1 if is_single else 10_000}
        self._client = Producer(settings, codecs)
        self._sent = SentRecords(is_single=is_single)
        self._refused: list[Refusal] = []
        self._is_open = False

    def connect(self, timeout_s: float) -> None:
        require_topics(self._client, self._topics, self._access, self._errors, timeout_s)

    def begin(self, timeout_s: float) -> None:
        try:
            self._client.init_transactions(timeout_s)
        except KafkaException as error:
            self._client.poll(0)
            self._errors.check()
            raise unavailable(error, self._access) from error

    def produce(self, outputs: Outputs) -> None:
        self._held.append(outputs)

    def held(self) -> int:
        return sum(map(len, self._held))

    def forget(self, partitions: Iterable[int]) -> None:
        gone = set(partitions)
        self._held = [outputs.without(gone) for outputs in self._held]

    def commit(self, positions: Mapping[int, int], membership: Callable[[], object]) -> None:
        held, self._held = self._held, []
        deadline = time.monotonic() + COMMIT_S
        self._sent.clear()
        self._is_open = True
        try:
            self._client.begin_transaction()
            for outputs in held:
                self._write(outputs, deadline)
            self._require_queued()
            if positions:
                _call(lambda left_s: self._send(positions, cast("Member", membership()), left_s), deadline)
            _call(self._client.commit_transaction, deadline)
        except KafkaException as error:
            raise DeliveryFailed(f"Kafka did not take a transaction: {error.args[0].str()}.") from error
        self._is_open = False

    def _require_queued(self) -> None:
        """Raise DeliveryFailed for records that librdkafka refused at once: to its transaction they do not exist."""
        self._refused = self.failures()
        if self._refused:
            raise DeliveryFailed(f"Kafka did not take a transaction. {self._refused[0].reason}")

    def _write(self, outputs: Outputs, deadline: float) -> None:
        """Queue all records. Raises DeliveryFailed when there was no room for some until the deadline."""
        if not len(outputs):
            return
        columns = outputs.values, outputs.keys, outputs.partitions, outputs.timestamps, outputs.headers
        first_row, sending = self._client.start(outputs.topic, *columns)
        self._sent.add(first_row, outputs)
        while not sending.advance():
            if time.monotonic() > deadline:
                raise DeliveryFailed(
                    "Kafka did not take a transaction: it takes records too slowly for the "
                    f"{COMMIT_S:g} s that one may last."
                )
            self._client.poll(ROOM_S)

    def _send(self, positions: Mapping[int, int], member: Member, left_s: float) -> None:
        """The membership is read right before: a rebalance may have changed it without a callback."""
        places = [Place(p, at, member.epoch_before(p, at), member.label) for p, at in positions.items()]
        self._client.send_offsets(self._source_topic, places, member.group, left_s)

    def failures(self) -> list[Refusal]:
        self._client.poll(0)
        refused, self._refused = self._refused, []
        return refused + [self._sent.refusal(failure) for failure in self._client.failures()]

    def close(self) -> None:
        self._held.clear()
        if self._is_open:
            self._abort()
        self._client.close()

    def _abort(self) -> None:
        """Spare readers the wait for the timeout. What can't be aborted now, a successor or the timeout ends."""
        try:
            self._client.abort_transaction(ABORT_S)
        except KafkaException:
            return
        self._is_open = False


def _call(step: Callable[[float], object], deadline: float) -> None:
    """Run one step of a transaction, again while the client says that this is safe."""
    while True:
        try:
            step(max(0.1, deadline - time.monotonic()))
            return
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            timed_out = cause.code() == KafkaError._TIMED_OUT or time.monotonic() > deadline
            if not cause.retriable() or timed_out:
                raise
            time.sleep(AGAIN_S)
