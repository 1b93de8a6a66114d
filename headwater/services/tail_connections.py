"""Opens live tails of topics, counts them, and ends them."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from headwater.brokers.tail_reader import TailReader
from headwater.errors import DatabaseUnavailable, RateLimited, RedisUnavailable, TopicMissing
from headwater.model.access import KafkaAccess
from headwater.model.deployment import DeploymentProgress, DesiredPhase
from headwater.model.key import ApiKey
from headwater.services.ids import NewId
from headwater.services.live_tail import EndReason, Tail
from headwater.services.viewable_topics import ViewableTopic
from headwater.stores.protocols.tail_slots import TailLimit, TailSlots
from headwater.wait_log import WaitLog

MAX_TAILS_PER_CONNECTION = 10
RETRY_AFTER_S = 10
"""When a client should try again to open a tail after it was refused because of the number of tails."""
CHECK_EVERY_S = 2.0
"""How often `check` must be called: a tail ends about this long after its key or its deployment."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TailLimits:
    """The limits of live tails.

    Attributes:
        total: How many tails all owners may have together.
        per_owner: How many tails each owner may have.
        idle_s: After how many seconds without a record the tails of a connection end.
    """

    total: int = 50
    per_owner: int = 10
    idle_s: float = 900.0


class TailConnection:
    """The tails of one connection, which were opened with one API key.

    Attributes:
        key: The API key.
        tails: The tails by their ids.
    """

    def __init__(self, key: ApiKey, tails: Mapping[str, Tail]) -> None:
        self.key = key
        self.tails = tails
        self._end: EndReason | None = None

    @property
    def end_reason(self) -> EndReason | None:
        """Why all tails of the connection have ended; None while the connection is open."""
        return self._end

    @property
    def owners(self) -> dict[str, str]:
        """The owner of each tail, by id."""
        return dict.fromkeys(self.tails, self.key.owner)

    @property
    def last_record_at(self) -> float:
        """When the last record of any tail arrived."""
        return max(tail.last_record_at for tail in self.tails.values())

    def end(self, reason: EndReason) -> None:
        """End all tails. The first reason counts."""
        self._end = self._end or reason


class Tails:
    """Opens and ends live tails. Thread-safe.

    `open`, `close` and `check` may block for some seconds.

    Args:
        readers: The reader of each Kafka cluster; None is the installation's own cluster.
        slots: The slots of open tails, which all processes of the API share.
        is_live_key: Whether the key with an id is valid now. It may raise DatabaseUnavailable.
        progress: Returns the progress of deployments by configuration. It may raise DatabaseUnavailable.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        *,
        readers: Mapping[KafkaAccess | None, TailReader],
        slots: TailSlots,
        limits: TailLimits,
        is_live_key: Callable[[str], bool],
        progress: Callable[[Collection[str]], Mapping[str, DeploymentProgress]],
        new_id: NewId,
        clock: Callable[[], float],
    ) -> None:
        self._readers = readers
        self._slots = slots
        self._limits = limits
        self._is_live_key = is_live_key
        self._progress = progress
        self._new_id = new_id
        self._clock = clock
        self._lock = threading.Lock()
        self._slots_lock = threading.Lock()  # a renewal must not bring back slots that were just released
        self._open: set[TailConnection] = set()
        self._is_stopping = False
        self._wait_log = WaitLog("live tails can't be checked", clock)

    @property
    def is_used(self) -> bool:
        """Whether this process has open tails."""
        return bool(self._open)

    def open(self, key: ApiKey, topics: Sequence[ViewableTopic]) -> TailConnection:
        """Open tails of topics.

        The tails get all records that are appended after this call has returned. Raises RateLimited when too many tails
        are open, NotFound when a topic does not exist yet, BrokerUnavailable and RedisUnavailable.
        """
        opened = TailConnection(key, {self._new_id(): Tail(topic, self._clock) for topic in topics})
        limit = self._slots.acquire(
            key.owner, list(opened.tails), total=self._limits.total, per_owner=self._limits.per_owner
        )
        if limit is not None:
            raise self._limit_error(limit)
        try:
            self._subscribe(opened.tails.values())
        except BaseException:
            self._release(opened)
            raise
        with self._lock:
            self._open.add(opened)
            is_stopping = self._is_stopping
        if is_stopping:
            opened.end("shutdown")
        return opened

    def _subscribe(self, tails: Iterable[Tail]) -> None:
        for tail in tails:
            try:
                self._readers[tail.topic.cluster].subscribe(tail.topic.topic, tail)
            except TopicMissing as error:
                raise tail.topic.missing_error() from error

    def _limit_error(self, limit: TailLimit) -> RateLimited:
        if limit == "owner":
            detail = (
                f"You may have {self._limits.per_owner} open tails, and this request would exceed that number. Close "
                "one of yours"
            )
        else:
            detail = (
                f"This installation allows {self._limits.total} open tails of all users together, and this "
                "request would exceed that number. Close one of yours"
            )
        return RateLimited(f"{detail}, or try again later.", RETRY_AFTER_S)

    def close(self, opened: TailConnection) -> None:
        """Close the tails of a connection. Idempotent."""
        with self._lock:
            self._open.discard(opened)
        self._release(opened)

    def _release(self, opened: TailConnection) -> None:
        for tail in opened.tails.values():
            self._readers[tail.topic.cluster].unsubscribe(tail)
        with self._slots_lock, suppress(RedisUnavailable):  # the slots expire
            self._slots.release(opened.owners)

    def check(self) -> None:
        """End the tails that are idle, or whose key or deployment has ended.

        The slots of all open tails are renewed. While a store is unavailable, its part of the check is left out.
        """
        with self._lock:
            opened = list(self._open)
        now = self._clock()
        for each in opened:
            if now - each.last_record_at > self._limits.idle_s:
                each.end("idle")
        self._attempt(partial(self._end_with_keys, opened))
        self._attempt(partial(self._end_with_deployments, opened))
        self._attempt(self._renew)

    def _attempt(self, part: Callable[[], None]) -> None:
        try:
            part()
        except (DatabaseUnavailable, RedisUnavailable) as error:
            self._wait_log.log_if_due(reason=error.detail)

    def _end_with_keys(self, opened: Sequence[TailConnection]) -> None:
        is_live = {key_id: self._is_live_key(key_id) for key_id in {each.key.id for each in opened}}
        for each in opened:
            if not is_live[each.key.id]:
                each.end("key_ended")

    def _end_with_deployments(self, opened: Sequence[TailConnection]) -> None:
        tails = [tail for each in opened for tail in each.tails.values()]
        owned = [(tail, tail.topic.deployment) for tail in tails if tail.topic.deployment is not None]
        progress = self._progress({deployment.config_id for _, deployment in owned}) if owned else {}
        for tail, deployment in owned:
            current = progress.get(deployment.config_id)
            if current is None or current.id != deployment.id or current.desired is DesiredPhase.ABSENT:
                tail.end("deployment_ended")

    def _renew(self) -> None:
        with self._slots_lock:
            with self._lock:
                opened = list(self._open)
            self._slots.renew({tail_id: owner for each in opened for tail_id, owner in each.owners.items()})

    def end_all(self) -> None:
        """End all tails because the process stops. Does not block.

        Tails that are being opened at this moment end too.
        """
        with self._lock:
            self._is_stopping = True
            opened = list(self._open)
        for each in opened:
            each.end("shutdown")

    def disconnect(self) -> None:
        """Disconnect from Kafka."""
        for reader in self._readers.values():
            reader.close()
