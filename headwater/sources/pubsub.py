"""Google Pub/Sub as a source: one of any number of workers on one subscription.

A commit acknowledges messages. Until then they are kept here, and their leases renewed every RENEW_S, also while
nothing is read; what a dead worker held comes to another one SUBSCRIPTION_LEASE_S after the last renewal. There are
three threads: the engine's, one that reads the stream, one that sends renewals and acknowledgements.

The stream is read with the raw call, since Google's subscriber hands out a message of an ordering key only when the one
before is acknowledged: with one acknowledgement a second that would be one record a second.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import grpc  # type: ignore[import-untyped]
import structlog
from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError
from google.pubsub_v1.types import StreamingPullRequest

from headwater.brokers.base import SUBSCRIPTION_LEASE_S
from headwater.brokers.pubsub_client import connect, options, sentence, subscriber
from headwater.children import Backoff
from headwater.errors import BrokerUnavailable, HeadwaterError, SourceGap, WorkerError
from headwater.model.natural_key import KeyOf, natural_key
from headwater.model.record import RecordBatch
from headwater.model.worker import PubSubPull, WorkerSpec
from headwater.sources.base import Gap, Positions, RebalanceListener
from headwater.sources.unacknowledged import PARTITIONS, Message, Unacknowledged

log = structlog.get_logger(__name__)

KEY_ATTRIBUTE: Final = "key"
"""Where a publisher may name a record's natural key."""
RENEW_S: Final = 6.0
"""A renewal that fails is tried again twice before the leases end."""
MAX_KEPT: Final = 20_000
MAX_KEPT_BYTES: Final = 64 << 20
"""Of messages without an acknowledgement. Pub/Sub is asked to send no more; if it does, the stream is not read on."""
MAX_BATCH_BYTES: Final = 8 << 20
IDS_AT_ONCE: Final = 2_000
"""Ids in one request, which may have 512 KiB."""
HEARTBEAT_S: Final = 30.0
SETTLED_S: Final = 2.0
"""A stream that lasts so long is a good one: Pub/Sub says nothing until there is a message."""
HALF_CLOSED_S: Final = 0.5
"""How long the end of a stream is waited for: what it gives until then can be handed back at once."""
LAST_REQUEST_S: Final = 2.0
ACKNOWLEDGED_S: Final = 5.0

_PASSING: Final = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
"""How streams end in the normal course, and in outages."""


class PubSubSource:
    """Implements sources.base.Source. topic: what the records' batches are called. key_of: the natural key of a record
    whose publisher does not name it. deduplicate: whether a message that equals the last one of its natural key is
    dropped; see Unacknowledged.

    Every worker has all partitions, for as long as it lives: Pub/Sub deals messages out, and keeps those of an ordering
    key with one worker. There are no gaps: Pub/Sub does not tell of messages that were too old.
    """

    def __init__(
        self, access: PubSubPull, topic: str, key_of: KeyOf = lambda _: None, *, deduplicate: bool = False
    ) -> None:
        self._topic = topic
        self._kept = Unacknowledged(topic, deduplicate=deduplicate)
        self._changed = threading.Condition()
        self._pull = Pull(access, key_of, self._kept, self._changed)
        self._listener: RebalanceListener | None = None
        self._open = self._paused = False

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        if self._listener is None:
            return RecordBatch.empty(self._topic)
        if not self._open:
            self._begin(self._listener)
        self._pull.check()
        with self._changed:
            self._changed.wait_for(lambda: self._kept.unread and not self._paused, timeout_s)
            if self._paused:
                return RecordBatch.empty(self._topic)
            return self._kept.read(max_records, MAX_BATCH_BYTES)

    def _begin(self, listener: RebalanceListener) -> None:
        self._pull.open()
        self._open = True
        listener.assigned([*PARTITIONS])

    def gaps(self) -> list[Gap]:
        return []

    def not_read(self) -> Mapping[int, str]:
        return {}

    def seek(self, positions: Positions) -> None:
        with self._changed:
            self._kept.seek(positions)

    def commit(self, positions: Positions, *, wait: bool) -> None:
        with self._changed:
            self._pull.acknowledge(self._kept.commit(positions))
            if wait and not self._changed.wait_for(self._pull.is_acknowledged, ACKNOWLEDGED_S):
                raise BrokerUnavailable("Google Pub/Sub does not take acknowledgements; they are sent again.")

    def committed(self) -> Positions:
        with self._changed:
            return self._kept.committed()

    def membership(self) -> object:
        """Nothing: no transaction can hold acknowledgements."""
        return None

    def names(self, batch: RecordBatch) -> list[bytes]:
        """The message ids."""
        with self._changed:
            return list(self._kept.names(batch.partitions, batch.offsets))

    def read_only(self, partitions: Collection[int] | None) -> None:
        """Do nothing: a queue has no partitions."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self, *, leave: bool = False) -> None:  # noqa: ARG002 - a subscription has no members
        """Hand back what is not acknowledged, so that the next worker need not wait for the end of the leases."""
        self._listener = None
        self._pull.close()


class Pull:
    """A subscription's stream, leases and acknowledgements. kept, changed: shared with the source, under its lock."""

    def __init__(self, access: PubSubPull, key_of: KeyOf, kept: Unacknowledged, changed: threading.Condition) -> None:
        self._access = access
        self._key_of = key_of
        self._kept = kept
        self._changed = changed
        self._unsent: list[str] = []
        self._sending = 0
        self._trouble: HeadwaterError | None = None
        self._failures = 0
        self._opened_at = float("-inf")
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._channel = connect(access)
        self._client = subscriber(self._channel)
        self._call: Any = None
        self._stream_in: Any = self._client.transport.streaming_pull  # its type says one request, and it takes many
        self._threads = [
            threading.Thread(target=_logged(work), name=f"pubsub-{work.__name__}", daemon=True)
            for work in (self._stream, self._lease)
        ]

    def open(self) -> None:
        """Begin, when the subscription is there. Raises BrokerUnavailable, SourceGap."""
        try:
            self._client.get_subscription(subscription=self._access.subscription, **options())
        except exceptions.Forbidden:
            log.debug("the subscription may be read, and not looked at")
        except (exceptions.GoogleAPIError, GoogleAuthError) as error:
            raise self._describe(error) from error
        for thread in self._threads:
            thread.start()

    def _describe(self, error: Exception) -> HeadwaterError:
        name = self._access.subscription
        if isinstance(error, exceptions.NotFound):
            return SourceGap(
                f"The subscription {name} is gone, and with it what was published since. Tear the pipeline down and "
                "deploy it again to start with what comes from then on."
            )
        return BrokerUnavailable(sentence(error, name))

    def check(self) -> None:
        """Raise what is wrong with the stream, for as long as it is. Raises WorkerError when a thread has ended."""
        if not all(thread.is_alive() for thread in self._threads):
            raise WorkerError("A thread that reads from Pub/Sub has ended; its error is in the worker's log.")
        if self._trouble is not None and time.monotonic() - self._opened_at < SETTLED_S:
            raise self._trouble

    # The stream's thread.

    def _stream(self) -> None:
        backoff = Backoff(0.1, 2.0)
        while not self._stopping.is_set():
            self._opened_at = time.monotonic()
            try:
                self._read()
            except (grpc.RpcError, GoogleAuthError) as error:
                self._note(error)
            if time.monotonic() - self._opened_at >= SETTLED_S:
                backoff.reset()
                self._failures = min(1, self._failures)
            self._opened_at = float("inf")
            self._stopping.wait(backoff.next_s())

    def _read(self) -> None:
        self._call = self._stream_in(self._requests())
        for response in self._call:
            messages = [_message(each, self._key_of) for each in response._pb.received_messages]
            with self._changed:
                self._trouble, self._failures = None, 0
                repeats = [message.ack_id for message in messages if not self._kept.take(message)]
                self.acknowledge(repeats)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._stopping.is_set() or self._has_room())

    def _requests(self) -> Iterator[StreamingPullRequest]:
        """The first one says what is wanted, the others that somebody is here."""
        yield StreamingPullRequest(
            subscription=self._access.subscription,
            stream_ack_deadline_seconds=SUBSCRIPTION_LEASE_S,
            max_outstanding_messages=MAX_KEPT,
            max_outstanding_bytes=MAX_KEPT_BYTES,
        )
        while not self._stopping.wait(HEARTBEAT_S):
            yield StreamingPullRequest()

    def _has_room(self) -> bool:
        return self._kept.count < MAX_KEPT and self._kept.size < MAX_KEPT_BYTES

    def _note(self, error: Exception) -> None:
        """The first end of a stream in a row is no trouble: Pub/Sub ends them now and then."""
        code = error.code() if isinstance(error, grpc.Call) else None
        self._failures += 1
        if code not in _PASSING or self._failures > 1:
            told = _from_grpc(error) if isinstance(error, grpc.Call) else error
            self._trouble = self._describe(told)

    # The thread of leases and acknowledgements.

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Under the lock: have these acknowledged, or tried again until they are."""
        if ack_ids:
            self._unsent += ack_ids
        if self._unsent:
            self._wake.set()

    def is_acknowledged(self) -> bool:
        """Under the lock: nothing is left to acknowledge."""
        return not self._unsent and not self._sending

    def _lease(self) -> None:
        renew_at = time.monotonic() + RENEW_S
        while not self._stopping.is_set():
            self._wake.wait(max(0.0, renew_at - time.monotonic()))
            self._wake.clear()
            self._send_acknowledgements(options())
            if time.monotonic() >= renew_at:
                renew_at = time.monotonic() + (RENEW_S if self._renew(SUBSCRIPTION_LEASE_S, options()) else RENEW_S / 3)

    def _send_acknowledgements(self, how: dict[str, Any]) -> None:
        """What can't be sent now is sent with the next acknowledgements, or by the next renewal."""
        with self._changed:
            ids, self._unsent = self._unsent, []
            self._sending = len(ids)
        for some in _chunks(ids):
            sent = self._ask(self._client.acknowledge, some, how)
            with self._changed:
                self._sending -= len(some)
                self._unsent += [] if sent else some
                self._changed.notify_all()

    def _renew(self, seconds: int, how: dict[str, Any]) -> bool:
        """Let the leases of all that is kept last so long from now; 0: hand it back."""
        with self._changed:
            ids = self._kept.ack_ids()
        renew, how = self._client.modify_ack_deadline, how | {"ack_deadline_seconds": seconds}
        answers = [self._ask(renew, some, how) for some in _chunks(ids)]
        return all(answers)

    def _ask(self, call: Callable[..., None], ids: list[str], how: dict[str, Any]) -> bool:
        """False when it must be asked again."""
        try:
            call(subscription=self._access.subscription, ack_ids=ids, **how)
        except (exceptions.BadRequest, exceptions.NotFound) as error:
            log.warning("Pub/Sub does not know these leases any more; their messages come again", reason=error.message)
        except (exceptions.GoogleAPIError, GoogleAuthError) as error:
            log.info("Pub/Sub did not answer; asked again", call=call.__name__, reason=str(error))
            return False
        return True

    def close(self) -> None:
        """End the threads, send what is left to acknowledge, and hand the rest back."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._wake.set()
        with self._changed:
            self._changed.notify_all()
        stream, lease = self._threads
        if stream.ident is not None:
            stream.join(HALF_CLOSED_S)
            if self._call is not None:
                self._call.cancel()
            stream.join()
            lease.join()
            self._send_acknowledgements(options(LAST_REQUEST_S))
            self._renew(0, options(LAST_REQUEST_S))
        self._channel.close()


def _logged(work: Callable[[], None]) -> Callable[[], None]:
    """The work of a thread, whose unexpected error goes to the worker's log; `check` then ends the worker."""

    def run() -> None:
        try:
            work()
        except Exception:
            log.exception("a thread that reads from Pub/Sub ended", work=work.__name__)

    return run


def _from_grpc(error: grpc.RpcError) -> Exception:
    told: Exception = exceptions.from_grpc_error(error)  # type: ignore[no-untyped-call]
    return told


def _chunks(ids: list[str]) -> list[list[str]]:
    return [ids[at : at + IDS_AT_ONCE] for at in range(0, len(ids), IDS_AT_ONCE)]


def _message(received: Any, key_of: KeyOf) -> Message:
    """From the protobuf message itself: its wrapper is slow."""
    message = received.message
    named = message.attributes.get(KEY_ATTRIBUTE)
    return Message(
        message.message_id,
        received.ack_id,
        message.data,
        named.encode() if named else key_of(message.data),
        message.ordering_key,
        message.publish_time.ToMilliseconds(),
    )


def build(spec: WorkerSpec, slot: int) -> PubSubSource:  # noqa: ARG001 - Pub/Sub deals messages out by itself
    """The source of one worker."""
    access, key_of = cast("PubSubPull", spec.source), natural_key(spec.chain, spec.entity)
    if access.deduplicate and spec.slots > 1:
        log.warning("equal messages are not dropped: that takes parallelism 1", parallelism=spec.slots)
    return PubSubSource(access, spec.source_topic, key_of, deduplicate=access.deduplicate and spec.slots == 1)
