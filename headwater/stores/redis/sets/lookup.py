"""Lookups for workers: a Bloom filter in memory answers "no" for most values, the server is asked about the others.

One round trip per batch asks about the maybes, tells the set's version, and brings what was added since the version
that the filter holds. A "no" then holds for that version too, so the whole batch is answered from one version of the
set, and each batch sees every write that was answered before it. Without a filter that is up to date, the server is
asked about every value.

A filter is built once a worker has asked about a tenth as many values as the set holds: reading a value for a filter
costs the server about a tenth of a lookup. So sets that are seldom asked, large ones above all, need no filter.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
import structlog

from headwater.errors import SetStoreUnavailable
from headwater.model.dataset import SetId
from headwater.native import Uint64Array
from headwater.stores.redis.client import Client, Script, Word
from headwater.stores.redis.sets import encoded_values
from headwater.stores.redis.sets.bloom import Bloom, size_bytes
from headwater.stores.redis.sets.layout import Keys, Layout
from headwater.stores.redis.sets.set_store import VALUES_PER_LOOKUP, RedisSetStore

MAX_FILTER_BYTES = 512 << 20
"""All filters of a worker; 16 bits per value and a quarter more."""
REBUILD_AFTER_S = 60.0
ASKED_PER_VALUE = 0.1
FEWEST_ASKED = 100
VALUES_PER_READ = 2_000  # a few ms of work, of this process and of the server
REST, LONG_REST = 0.25, 4.0
"""Rests between reads, in times of a read: without a filter, and with one that only has many layers."""
MAX_LAYERS = 3
ENTRIES_PER_LOOKUP = 400
MAX_SETS = 1_000
_ROUND_TRIPS = 3
_ROOM_TO_GROW = 1.25

_LOOKUP = Script.load("lookup")

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Filter:
    """What is known of one generation: every value that it held at (version, stamp) is a maybe.

    at_rest: the set had not changed between the last two questions.
    """

    layout: Layout
    bloom: Bloom
    version: int
    stamp: bytes
    at_rest: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def position(self) -> tuple[int, bytes]:
        """Version and stamp."""
        with self.lock:
            return self.version, self.stamp

    def advance(self, version: int, stamp: bytes, packed: Sequence[bytes]) -> None:
        """Add what was added on the way to a version."""
        if version == self.version and not packed:
            return
        hashes = np.frombuffer(b"".join(packed), "<u8")
        self.bloom.add(hashes)
        with self.lock:
            if version > self.version:
                self.version, self.stamp = version, stamp


@dataclass(frozen=True, slots=True)
class _Reply:
    """What the server tells. answers: a byte per value, 1 for members."""

    version: int
    answers: bytes
    chained: bool
    reached: int
    stamp: bytes
    packed: list[bytes]

    @classmethod
    def of(cls, reply: list[Any]) -> "_Reply":
        version, _, answers, chained, reached, stamp, *packed = reply
        return cls(int(version), answers.translate(_FROM_DIGITS), bool(chained), int(reached), stamp, packed)


@dataclass(slots=True, eq=False)
class _Known:
    """One set. asked: values that the server was asked about for want of a filter."""

    filter: _Filter | None = None
    asked: float = 0
    worth_asked: float = FEWEST_ASKED
    built_at: float = float("-inf")
    job: "Future[None] | None" = None

    def lose_filter(self) -> None:
        """It can't be brought up to date; it has shown that another one is worth its while."""
        self.filter, self.asked = None, float("inf")


class RedisSetLookup:
    """A SetLookup on one server, replica group or cluster. Thread-safe. `close` ends the thread that builds filters."""

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float] = time.monotonic,
        max_filter_bytes: int = MAX_FILTER_BYTES,
    ) -> None:
        self._client = client
        self._direct = RedisSetStore(client)
        self._clock = clock
        self._max_filter_bytes = max_filter_bytes
        self._sets: OrderedDict[SetId, _Known] = OrderedDict()
        self._lock = threading.Lock()
        self._builder = ThreadPoolExecutor(1, "set-filters")
        self._closed = threading.Event()

    def close(self) -> None:
        """Build no more filters."""
        self._closed.set()
        self._builder.shutdown(cancel_futures=True)

    def wait(self) -> None:
        """Return when the filters that are being built are there. Raises what went wrong."""
        for known in list(self._sets.values()):
            if known.job is not None:
                known.job.result()

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup. With a filter: one round trip, for the maybes alone."""
        if not values:
            return []
        known = self._known(target)
        if known.filter is not None:
            answers = self._filtered(target, known, known.filter, values)
            if answers is not None:
                return answers
        direct = self._direct.contains_many(target, values)
        known.asked += len(set(values))
        self._consider(target, known)
        return direct

    def _known(self, target: SetId) -> _Known:
        with self._lock:
            known = self._sets.setdefault(target, _Known())
            self._sets.move_to_end(target)
            if len(self._sets) > MAX_SETS:
                self._sets.popitem(last=False)
            return known

    # Asking with a filter.

    def _filtered(self, target: SetId, known: _Known, current: _Filter, values: Sequence[str]) -> list[bool] | None:
        """None when the filter could not be brought up to date."""
        batches = encoded_values.encode(values)
        hashes = _hashes(batches, len(values), current.layout.hash_key)
        version, stamp = current.position
        maybe = current.bloom.maybe(hashes)
        for _ in range(_ROUND_TRIPS):
            if np.count_nonzero(maybe) > VALUES_PER_LOOKUP:
                return None
            rows, stored = _chosen(batches, maybe)
            asked, first, numbers = _distinct(stored)
            reply = self._ask(target, current, (version, stamp), asked, hashes[rows[first]])
            if reply is None or not reply.chained:
                known.lose_filter()
                return None
            current.advance(reply.reached, reply.stamp, reply.packed)
            if reply.reached != reply.version:
                return None
            version, stamp = reply.reached, reply.stamp
            more = current.bloom.maybe(hashes) & ~maybe if reply.packed else _NOTHING
            if not more.any():
                self._consider_anew(target, known, current)
                answers = np.zeros(len(values), bool)
                answers[rows] = np.frombuffer(reply.answers, bool)[numbers]
                return answers.tolist()
            maybe |= more
        return None

    def _ask(
        self, target: SetId, current: _Filter, position: tuple[int, bytes], stored: Sequence[bytes], hashes: Uint64Array
    ) -> _Reply | None:
        """None when the generation is no longer the current one."""
        keys, layout = Keys.of(target), current.layout
        buckets = layout.bucket_keys(hashes)
        if current.at_rest:
            answers = self._ask_at_rest(keys, layout, position, buckets, stored)
            if answers is not None:
                return _Reply(position[0], answers, True, *position, [])
        args: list[Word] = [layout.gen, layout.kind, *position, ENTRIES_PER_LOOKUP, *stored]
        told = self._client.run(_LOOKUP, [keys.m, keys.log, *buckets], args)
        reply = _Reply.of(told) if told is not None else None
        current.at_rest = reply is not None and (reply.version, reply.stamp) == position
        return reply

    def _ask_at_rest(
        self,
        keys: Keys,
        layout: Layout,
        position: tuple[int, bytes],
        buckets: Sequence[str],
        stored: Sequence[bytes],
    ) -> bytes | None:
        """The answers when the set has not changed since `position`, else None. A fraction of the script's work.

        Versions only rise: one that was known before the questions, and is told after them, held between them too.
        """
        command = layout.contains_command
        asked = [(command, bucket, value) for bucket, value in zip(buckets, stored, strict=True)]
        *answers, (gen, version, stamp) = self._client.pipeline([*asked, ("HMGET", keys.m, "gen", "ver", "stamp")])
        if gen is None or (int(gen), int(version), stamp or b"") != (layout.gen, *position):
            return None
        return bytes(answers)

    # Building.

    def _consider(self, target: SetId, known: _Known) -> None:
        """Bring the filter up to date, or build one when that is worth its while."""
        if known.filter is not None:
            self._start(known, lambda: self._catch_up(target, known))
        elif known.asked >= known.worth_asked and self._clock() - known.built_at >= REBUILD_AFTER_S:
            self._start(known, lambda: self._build(target, known))

    def _consider_anew(self, target: SetId, known: _Known, current: _Filter) -> None:
        """Build one layer in place of many, once the set's growth has come to rest."""
        due = self._clock() - known.built_at >= REBUILD_AFTER_S
        if due and ((current.at_rest and current.bloom.layers > MAX_LAYERS) or current.bloom.overfull):
            self._start(known, lambda: self._build(target, known))

    def _start(self, known: _Known, work: Callable[[], None]) -> None:
        """Run one job per set; what went wrong in the last one is raised here."""
        with self._lock:
            if self._closed.is_set() or (known.job is not None and not known.job.done()):
                return
            last, known.job = known.job, self._builder.submit(self._run, work)
        if last is not None:
            last.result()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except SetStoreUnavailable as error:
            log.warning(
                "a filter of a set is not built now; the server is asked about every value", reason=error.detail
            )

    def _build(self, target: SetId, known: _Known) -> None:
        keys = Keys.of(target)
        layout = keys.read(self._client)
        if layout is None:
            known.asked = 0
            return
        gen, version, stamp, count = self._client.call("HMGET", keys.m, "gen", "ver", "stamp", "count")
        if gen is None or int(gen) != layout.gen or not int(version):
            return  # nothing was written yet, so the log has no entry to go on from
        known.worth_asked = max(FEWEST_ASKED, int(count) * ASKED_PER_VALUE)
        capacity = int(int(count) * _ROOM_TO_GROW) + FEWEST_ASKED
        if known.filter is None and known.asked < known.worth_asked:
            return
        if not self._make_room(target, capacity):
            known.asked = 0
            return
        known.built_at = self._clock()
        built = _Filter(layout, Bloom(capacity, self._may_grow), int(version), stamp or b"")
        rest = REST if known.filter is None else LONG_REST
        if self._read_all(keys, layout, built.bloom, int(count), rest) and self._reaches_end(target, built):
            known.filter, known.asked = built, 0

    def _make_room(self, target: SetId, capacity: int) -> bool:
        """Give up the filters that were not asked for longest. False when there is no room even so."""
        free = self._max_filter_bytes - size_bytes(capacity)
        with self._lock:
            for other, known in reversed(self._sets.items()):
                if other != target and known.filter is not None:
                    free -= known.filter.bloom.size_bytes
                    if free < 0:
                        known.filter = None
        return size_bytes(capacity) <= self._max_filter_bytes

    def _may_grow(self, by_bytes: int) -> bool:
        with self._lock:
            filters = [known.filter for known in self._sets.values() if known.filter is not None]
        return sum(one.bloom.size_bytes for one in filters) + by_bytes <= self._max_filter_bytes

    def _read_all(self, keys: Keys, layout: Layout, bloom: Bloom, count: int, rest: float) -> bool:
        """Read all buckets, resting `rest` times as long as it works. False when the generation was replaced
        meanwhile.
        """
        numbers = layout.nonempty(self._client.call("GET", layout.nz) or b"", 0)
        per_read = max(1, int(VALUES_PER_READ / max(1.0, count / (1 << layout.bits))))
        while part := layout.buckets(islice(numbers, per_read)):
            began = self._clock()
            *lists, gen = self._client.pipeline(
                [*((layout.list_command, key) for key in part), ("HGET", keys.m, "gen")]
            )
            if gen is None or int(gen) != layout.gen:
                return False
            bloom.add(encoded_values.hashes(list(chain.from_iterable(lists)), layout.hash_key))
            if self._closed.wait(rest * (self._clock() - began)):
                return False
        return True

    def _catch_up(self, target: SetId, known: _Known) -> None:
        current = known.filter
        if current is not None and not self._reaches_end(target, current):
            known.lose_filter()

    def _reaches_end(self, target: SetId, current: _Filter) -> bool:
        """Add what was added since the filter's version. False when the log does not tell all of it."""
        while True:
            reply = self._ask(target, current, current.position, (), _NO_HASHES)
            if reply is None or not reply.chained or self._closed.is_set():
                return False
            current.advance(reply.reached, reply.stamp, reply.packed)
            if reply.reached == reply.version:
                return True


_FROM_DIGITS = bytes.maketrans(b"01", b"\0\1")
_NOTHING = np.zeros(0, bool)
_NO_HASHES = np.zeros(0, np.uint64)


def _hashes(batches: Sequence[encoded_values.Batch], count: int, hash_key: int) -> Uint64Array:
    """The hash of each value."""
    if len(batches) == 1:
        return batches[0].hashes(hash_key)
    hashes = np.empty(count, np.uint64)
    for one in batches:
        hashes[one.rows] = one.hashes(hash_key)
    return hashes


def _chosen(batches: Sequence[encoded_values.Batch], mask: Any) -> tuple[Any, list[bytes]]:
    """Rows and stored forms of the chosen values."""
    rows: list[Any] = []
    stored: list[bytes] = []
    for one in batches:
        chosen = np.flatnonzero(mask if len(batches) == 1 else mask[one.rows])
        rows.append(one.rows[chosen])
        stored += encoded_values.Batch(rows[-1], one.stored[chosen]).forms()
    return rows[0] if len(rows) == 1 else np.concatenate(rows), stored


def _distinct(stored: Sequence[bytes]) -> tuple[list[bytes], Any, Any]:
    """Each value once, where it stood first, and the number of each value among them."""
    numbers: dict[bytes, int] = {}
    numbered = np.array([numbers.setdefault(value, len(numbers)) for value in stored], np.intp)
    return list(numbers), np.unique(numbered, return_index=True)[1], numbered
