"""The source that reads a Google Pub/Sub subscription.

Any number of workers can read one subscription. A commit acknowledges messages. Until then the source keeps them and
extends their ack deadlines every EXTEND_INTERVAL_S, also while it is paused. The messages of a dead worker are
redelivered ACK_DEADLINE_S after the last extension. There are three threads: the engine's, one that reads the stream,
and one that sends acknowledgements and extensions of deadlines.

The stream is read with the raw gRPC call. Google's subscriber returns a message of an ordering key only after the
previous message of the key is acknowledged: with one commit a second, it would return one record a second per key.
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

from headwater.backoff import Backoff
from headwater.brokers.base import ACK_DEADLINE_S
from headwater.brokers.pubsub_client import call_options, connect, error_message, subscriber
from headwater.errors import BrokerUnavailable, HeadwaterError, NoValidOffset, WorkerError
from headwater.model.natural_key import KeyOf, natural_key
from headwater.model.record import RecordBatch
from headwater.model.worker_spec import PubSubPull, WorkerSpec
from headwater.sources.base import Gap, Positions, RebalanceListener
from headwater.sources.unacked_messages import PARTITIONS, Message, UnackedMessages

log = structlog.get_logger(__name__)

KEY_ATTRIBUTE: Final = "key"
"""The message attribute in which a publisher may send the natural key of the record."""
EXTEND_INTERVAL_S: Final = 6.0
"""The interval of extensions of the ack deadlines. A failed extension is retried after a third of this time."""
# The limits of unacknowledged messages. Pub/Sub gets them as flow control; above them, the stream is not read.
MAX_UNACKED: Final = 20_000
MAX_UNACKED_BYTES: Final = 64 << 20
MAX_BATCH_BYTES: Final = 8 << 20
MAX_IDS_PER_REQUEST: Final = 2_000
"""How many ack ids a request contains at most, because a request may have 512 KiB."""
HEARTBEAT_INTERVAL_S: Final = 30.0
HEALTHY_AFTER_S: Final = 2.0
"""A stream that stays open this long counts as healthy: Pub/Sub sends nothing until there is a message."""
STREAM_CLOSE_TIMEOUT_S: Final = 0.5
"""How long `close` waits for the end of the stream. Messages that arrive until then are released immediately."""
LAST_REQUEST_TIMEOUT_S: Final = 2.0
ACK_TIMEOUT_S: Final = 5.0

_EXPECTED_ENDS: Final = frozenset(
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
"""The status codes with which a stream ends normally or during an outage.

A single end with one of these codes is not an error. The stream is opened again after every end.
"""


class PubSubSource:
    """Implements sources.base.Source.

    Each worker has all partitions for its lifetime: Pub/Sub distributes the messages, and delivers all messages of an
    ordering key to one worker. Gaps are never reported, because Pub/Sub does not report expired messages.

    Args:
        access: The subscription.
        topic: The topic name of the record batches.
        key_of: Returns the natural key of a record whose publisher has not sent it.
        deduplicate: Whether to drop a message that equals the last one with the same natural key; see UnackedMessages.
    """

    def __init__(
        self, access: PubSubPull, topic: str, key_of: KeyOf = lambda _: None, *, deduplicate: bool = False
    ) -> None:
        self._topic = topic
        self._unacked = UnackedMessages(topic, deduplicate=deduplicate)
        self._condition = threading.Condition()
        self._pull = StreamingPull(access, key_of, self._unacked, self._condition)
        self._listener: RebalanceListener | None = None
        self._is_open = self._is_paused = False

    def join(self, listener: RebalanceListener) -> None:
        self._listener = listener

    def poll(self, max_records: int, timeout_s: float) -> RecordBatch:
        if self._listener is None:
            return RecordBatch.empty(self._topic)
        if not self._is_open:
            self._open(self._listener)
        self._pull.check()
        with self._condition:
            self._condition.wait_for(lambda: self._unacked.has_unread and not self._is_paused, timeout_s)
            if self._is_paused:
                return RecordBatch.empty(self._topic)
            return self._unacked.read(max_records, MAX_BATCH_BYTES)

    def _open(self, listener: RebalanceListener) -> None:
        self._pull.open()
        self._is_open = True
        listener.on_assigned([*PARTITIONS])

    def take_gaps(self) -> list[Gap]:
        return []

    def unreadable(self) -> Mapping[int, str]:
        return {}

    def seek(self, positions: Positions) -> None:
        with self._condition:
            self._unacked.seek(positions)

    def commit(self, positions: Positions, *, wait: bool) -> None:
        with self._condition:
            self._pull.acknowledge(self._unacked.commit(positions))
            if wait and not self._condition.wait_for(self._pull.is_acknowledged, ACK_TIMEOUT_S):
                raise BrokerUnavailable("Google Pub/Sub has not accepted acknowledgements; they are sent again.")

    def committed(self) -> Positions:
        with self._condition:
            return self._unacked.committed()

    def group_metadata(self) -> object:
        """Return None: a transaction can't contain acknowledgements."""
        return None

    def source_ids(self, batch: RecordBatch) -> list[bytes]:
        """Return the message ids."""
        with self._condition:
            return list(self._unacked.message_ids(batch.partitions, batch.offsets))

    def restrict_to(self, partitions: Collection[int] | None) -> None:
        """Do nothing: the partitions of a subscription exist in this worker only."""

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False

    def close(self, *, leave_group: bool = False) -> None:  # noqa: ARG002 - a subscription has no members
        """Release unacknowledged messages for redelivery.

        The next worker then need not wait until the ack deadlines of these messages pass.
        """
        self._listener = None
        self._pull.close()


class StreamingPull:
    """The stream of a subscription, and the acknowledgements and ack deadlines of its messages.

    Args:
        access: The subscription.
        key_of: See PubSubSource.
        unacked: The messages, shared with the source.
        condition: Guards `unacked`, and is notified of its changes.
    """

    def __init__(
        self, access: PubSubPull, key_of: KeyOf, unacked: UnackedMessages, condition: threading.Condition
    ) -> None:
        self._access = access
        self._key_of = key_of
        self._unacked = unacked
        self._condition = condition
        self._ack_ids_to_send: list[str] = []
        self._acks_in_flight = 0
        self._error: HeadwaterError | None = None
        self._consecutive_failures = 0
        """How many streams have ended with an error since the last message; at most 1 after a healthy stream."""
        self._opened_at: float | None = None
        """When the stream was opened, in monotonic seconds; None while no stream is open."""
        self._is_closing = threading.Event()
        self._wake_sender = threading.Event()
        self._channel = connect(access)
        self._client = subscriber(self._channel)
        self._stream_call: Any = None
        # The type hint of this method says one request, but it takes an iterator.
        self._streaming_pull: Any = self._client.transport.streaming_pull
        self._threads = [
            threading.Thread(target=_log_errors(work), name=f"pubsub-{work.__name__}", daemon=True)
            for work in (self._run_stream, self._run_sender)
        ]

    def open(self) -> None:
        """Check that the subscription exists, and start the threads.

        Raises BrokerUnavailable or NoValidOffset.
        """
        try:
            self._client.get_subscription(subscription=self._access.subscription, **call_options())
        except exceptions.Forbidden:
            log.debug(
                "the service account may read the subscription, but not describe it: its existence is not checked"
            )
        except (exceptions.GoogleAPIError, GoogleAuthError) as error:
            raise self._to_headwater_error(error) from error
        for thread in self._threads:
            thread.start()

    def _to_headwater_error(self, error: Exception) -> HeadwaterError:
        name = self._access.subscription
        if isinstance(error, exceptions.NotFound):
            return NoValidOffset(
                f"The subscription {name} was deleted, and with it all unread messages. Tear the pipeline down and "
                "deploy it again; it then starts with new messages."
            )
        return BrokerUnavailable(error_message(error, name))

    def check(self) -> None:
        """Raise the last error of the stream while the stream is not healthy.

        Raises WorkerError when a thread has ended.
        """
        if not all(thread.is_alive() for thread in self._threads):
            raise WorkerError("A thread that reads from Pub/Sub has ended; its error is in the worker's log.")
        if self._error is not None and not self._is_healthy():
            raise self._error

    def _is_healthy(self) -> bool:
        """Return whether the stream has been open for HEALTHY_AFTER_S."""
        opened_at = self._opened_at
        return opened_at is not None and time.monotonic() - opened_at >= HEALTHY_AFTER_S

    # The thread that reads the stream

    def _run_stream(self) -> None:
        backoff = Backoff(0.1, 2.0)
        while not self._is_closing.is_set():
            self._opened_at = time.monotonic()
            try:
                self._read_stream()
            except (grpc.RpcError, GoogleAuthError) as error:
                self._record_end(error)
            if self._is_healthy():
                backoff.reset()
                self._consecutive_failures = min(1, self._consecutive_failures)
            self._opened_at = None
            self._is_closing.wait(backoff.next_delay_s())

    def _read_stream(self) -> None:
        self._stream_call = self._streaming_pull(self._requests())
        for response in self._stream_call:
            messages = [_message(each, self._key_of) for each in response._pb.received_messages]
            with self._condition:
                self._error, self._consecutive_failures = None, 0
                repeats = [message.ack_id for message in messages if not self._unacked.add(message)]
                self.acknowledge(repeats)
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._is_closing.is_set() or self._has_capacity())

    def _requests(self) -> Iterator[StreamingPullRequest]:
        """Yield the initial request, then empty requests that keep the stream open."""
        yield StreamingPullRequest(
            subscription=self._access.subscription,
            stream_ack_deadline_seconds=ACK_DEADLINE_S,
            max_outstanding_messages=MAX_UNACKED,
            max_outstanding_bytes=MAX_UNACKED_BYTES,
        )
        while not self._is_closing.wait(HEARTBEAT_INTERVAL_S):
            yield StreamingPullRequest()

    def _has_capacity(self) -> bool:
        return self._unacked.count < MAX_UNACKED and self._unacked.size < MAX_UNACKED_BYTES

    def _record_end(self, error: Exception) -> None:
        """Record why a stream has ended.

        A single end with an expected status is not an error, because Pub/Sub closes streams now and then.
        """
        code = error.code() if isinstance(error, grpc.Call) else None
        self._consecutive_failures += 1
        if code not in _EXPECTED_ENDS or self._consecutive_failures > 1:
            api_error = _from_grpc(error) if isinstance(error, grpc.Call) else error
            self._error = self._to_headwater_error(api_error)

    # The queue of acknowledgements

    def acknowledge(self, ack_ids: Sequence[str]) -> None:
        """Queue ack ids, which are sent until Pub/Sub has accepted them or no longer knows them.

        Ack ids that are still queued are sent again now, too. The caller holds the condition.
        """
        self._ack_ids_to_send += ack_ids
        if self._ack_ids_to_send:
            self._wake_sender.set()

    def is_acknowledged(self) -> bool:
        """Return whether no acknowledgement is queued or being sent.

        The caller holds the condition.
        """
        return not self._ack_ids_to_send and not self._acks_in_flight

    # The thread that sends acknowledgements and extends ack deadlines

    def _run_sender(self) -> None:
        extend_at = time.monotonic() + EXTEND_INTERVAL_S
        while not self._is_closing.is_set():
            self._wake_sender.wait(max(0.0, extend_at - time.monotonic()))
            self._wake_sender.clear()
            self._send_acknowledgements(call_options())
            if time.monotonic() >= extend_at:
                is_extended = self._modify_ack_deadlines(ACK_DEADLINE_S, call_options())
                extend_at = time.monotonic() + (EXTEND_INTERVAL_S if is_extended else EXTEND_INTERVAL_S / 3)

    def _send_acknowledgements(self, options: dict[str, Any]) -> None:
        """Send the queued acknowledgements.

        Acknowledgements that fail are queued again. They are sent with the next ones, or at the next extension.
        """
        with self._condition:
            ids, self._ack_ids_to_send = self._ack_ids_to_send, []
            self._acks_in_flight = len(ids)
        for chunk in _chunks(ids):
            is_sent = self._send(self._client.acknowledge, chunk, options)
            with self._condition:
                self._acks_in_flight -= len(chunk)
                self._ack_ids_to_send += [] if is_sent else chunk
                self._condition.notify_all()

    def _modify_ack_deadlines(self, seconds: int, options: dict[str, Any]) -> bool:
        """Set the ack deadlines of all unacknowledged messages to `seconds` from now.

        A deadline of 0 seconds releases the messages for redelivery. Returns whether Pub/Sub has accepted all requests.
        """
        with self._condition:
            ids = self._unacked.ack_ids()
        modify, options = self._client.modify_ack_deadline, options | {"ack_deadline_seconds": seconds}
        are_sent = [self._send(modify, chunk, options) for chunk in _chunks(ids)]
        return all(are_sent)

    def _send(self, request: Callable[..., None], ids: list[str], options: dict[str, Any]) -> bool:
        """Send a request about some ack ids. Return False when the request must be repeated."""
        try:
            request(subscription=self._access.subscription, ack_ids=ids, **options)
        except exceptions.BadRequest as error:
            log.warning("Pub/Sub no longer knows these ack ids; the messages are redelivered", reason=error.message)
        except exceptions.NotFound as error:
            log.warning("the subscription does not exist any more, nor do its messages", reason=error.message)
        except (exceptions.GoogleAPIError, GoogleAuthError) as error:
            log.info("a request to Pub/Sub has failed; it is repeated", request=request.__name__, reason=str(error))
            return False
        return True

    def close(self) -> None:
        """End the threads, send the queued acknowledgements, and release the other messages."""
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        self._wake_sender.set()
        with self._condition:
            self._condition.notify_all()
        stream, sender = self._threads
        if stream.ident is not None:
            stream.join(STREAM_CLOSE_TIMEOUT_S)
            if self._stream_call is not None:
                self._stream_call.cancel()
            stream.join()
            sender.join()
            self._send_acknowledgements(call_options(LAST_REQUEST_TIMEOUT_S))
            self._modify_ack_deadlines(0, call_options(LAST_REQUEST_TIMEOUT_S))
        self._channel.close()


def _log_errors(work: Callable[[], None]) -> Callable[[], None]:
    """Return the function that a thread runs.

    An unexpected error is logged, and `check` then ends the worker.
    """

    def run() -> None:
        try:
            work()
        except Exception:
            log.exception("a thread that reads from Pub/Sub has ended", work=work.__name__)

    return run


def _from_grpc(error: grpc.RpcError) -> Exception:
    api_error: Exception = exceptions.from_grpc_error(error)  # type: ignore[no-untyped-call]
    return api_error


def _chunks(ids: list[str]) -> list[list[str]]:
    return [ids[start : start + MAX_IDS_PER_REQUEST] for start in range(0, len(ids), MAX_IDS_PER_REQUEST)]


def _message(received: Any, key_of: KeyOf) -> Message:
    """Convert a received message.

    `received` is the protobuf message itself, because its wrapper is slow.
    """
    message = received.message
    key = message.attributes.get(KEY_ATTRIBUTE)
    return Message(
        message.message_id,
        received.ack_id,
        message.data,
        key.encode() if key else key_of(message.data),
        message.ordering_key,
        message.publish_time.ToMilliseconds(),
    )


def build(spec: WorkerSpec, slot: int) -> PubSubSource:  # noqa: ARG001 - Pub/Sub distributes messages by itself
    """Return the source of one worker."""
    access, key_of = cast("PubSubPull", spec.source), natural_key(spec.chain, spec.entity)
    if access.deduplicate and spec.max_slots > 1:
        log.warning("deduplication is off: it needs parallelism 1", max_workers=spec.max_slots)
    return PubSubSource(access, spec.source_topic, key_of, deduplicate=access.deduplicate and spec.max_slots == 1)
