"""Lookups of workers.

In this module, a filter is always a Bloom filter, never the transform (a set filter). A filter in memory rules out most
values; the server looks up the others, the candidates. One round trip per batch looks up the candidates, and returns
the version of the set and the values that were added since the version of the filter. After these values are added to
the filter, its negative answers hold for the returned version too. So all answers are from one version of the set, and
each batch sees every write that was acknowledged before it. Without a filter that can be updated, the server looks up
all values.

A filter is built when a worker has looked up a tenth as many values as the set has, because reading a value costs the
server about a tenth of a lookup. So sets that are looked up rarely, large ones above all, have no filter.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
import structlog

from headwater.errors import RedisUnavailable
from headwater.model.value_sets import SetId
from headwater.native import Uint64Array
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument
from headwater.stores.redis.sets import encoded_values
from headwater.stores.redis.sets.bloom import BloomFilter, size_bytes
from headwater.stores.redis.sets.encoded_values import EncodedValues
from headwater.stores.redis.sets.layout import SetGeneration, SetKeys
from headwater.stores.redis.sets.set_store import VALUES_PER_LOOKUP, RedisSetStore

MAX_BLOOM_BYTES = 512 << 20
"""The memory of all Bloom filters of a worker. A filter takes 16 bits per value, and a quarter more to grow."""
REBUILD_AFTER_S = 60.0
"""The shortest time from the beginning of one build of a set's filter to the next."""
LOOKUPS_PER_VALUE_BEFORE_BUILD = 0.1
MIN_LOOKUPS_BEFORE_BUILD = 100
VALUES_PER_READ = 2_000  # reading these takes this process and the server a few ms
PAUSE_FACTOR = 0.25
"""While a filter is built, the pause between two reads as a multiple of the duration of a read."""
LONG_PAUSE_FACTOR = 4.0
"""The pause factor while a filter is rebuilt only because it has too many layers or values."""
MAX_LAYERS = 3
LOG_ENTRIES_PER_LOOKUP = 400
MAX_SETS = 1_000
_MAX_ATTEMPTS = 3
_ROOM_TO_GROW = 1.25
_MIN_FREE_CAPACITY = 100

_DIGITS_TO_BOOLEANS = bytes.maketrans(b"01", b"\0\1")
_NO_CANDIDATES = np.zeros(0, bool)
_NO_HASHES = np.zeros(0, np.uint64)
_LOOK_UP = Script.load("look_up_values")

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _SetBloomFilter:
    """The Bloom filter of one generation of a set.

    Attributes:
        generation: The generation of the set.
        bloom: The Bloom filter, which contains every value that the set had at `version`.
        version: The version of the set up to which the filter has all values.
        stamp: The stamp of this version.
        is_set_unchanged: Whether the set did not change between the last two lookups.
    """

    generation: SetGeneration
    bloom: BloomFilter
    version: int
    stamp: bytes
    _: KW_ONLY
    is_set_unchanged: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def log_position(self) -> tuple[int, bytes]:
        """The version and the stamp up to which the filter has all values."""
        with self.lock:
            return self.version, self.stamp

    def advance(self, version: int, stamp: bytes, added: Sequence[bytes]) -> None:
        """Add the values that were added up to a version.

        `added` are the hashes of these values, by log entry.
        """
        if version == self.version and not added:
            return
        hashes = np.frombuffer(b"".join(added), "<u8")
        self.bloom.add(hashes)
        with self.lock:
            if version > self.version:
                self.version, self.stamp = version, stamp


@dataclass(frozen=True, slots=True)
class _Reply:
    """The reply of the script look_up_values.

    Attributes:
        version: The version of the set.
        are_members: A byte per value, 1 for members.
        log_is_complete: Whether the log contains all changes since the version that the caller knows.
        log_version: The version of the last log entry in this reply.
        log_stamp: The stamp of the last log entry in this reply.
        added: The hashes of the values that were added up to log_version, by log entry.
    """

    version: int
    are_members: bytes
    log_is_complete: bool
    log_version: int
    log_stamp: bytes
    added: list[bytes]

    @classmethod
    def of(cls, reply: list[Any]) -> "_Reply":
        version, _, digits, is_complete, log_version, log_stamp, *added = reply
        return cls(
            int(version), digits.translate(_DIGITS_TO_BOOLEANS), bool(is_complete), int(log_version), log_stamp, added
        )


@dataclass(slots=True, eq=False, kw_only=True)
class _SetState:
    """The state of one set in this process.

    Attributes:
        bloom_filter: The Bloom filter of the set, or None.
        lookups: How many values the server has looked up without the help of a filter, since one was last built, or
            since a build was aborted because the set does not exist or is too large. It is infinite after
            `drop_bloom_filter`, so that the next build does not wait for lookups.
        lookups_before_build: The number of such lookups from which on a filter is built.
        build_began_at: When the last build of a filter began, by the monotonic clock.
        job: The build or update that runs, or that ran last.
    """

    bloom_filter: _SetBloomFilter | None = None
    lookups: float = 0
    lookups_before_build: float = MIN_LOOKUPS_BEFORE_BUILD
    build_began_at: float = float("-inf")
    job: "Future[None] | None" = None

    def drop_bloom_filter(self) -> None:
        """Drop a filter that can't be updated.

        The server looks up all values until another filter is built. The next lookup starts the build, but not before
        REBUILD_AFTER_S after the last build began. The number of lookups is not tested again: the set is used enough.
        """
        self.bloom_filter, self.lookups = None, float("inf")


class RedisSetLookup:
    """SetLookup on one server, replica group or cluster.

    A thread builds the filters. Thread-safe.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float] = time.monotonic,
        max_bloom_bytes: int = MAX_BLOOM_BYTES,
    ) -> None:
        self._client = client
        self._set_store = RedisSetStore(client)
        self._clock = clock
        self._max_bloom_bytes = max_bloom_bytes
        self._sets: OrderedDict[SetId, _SetState] = OrderedDict()
        self._lock = threading.Lock()
        self._builder = ThreadPoolExecutor(1, "bloom-builder")
        self._unfinished_bloom: BloomFilter | None = None
        """The Bloom filter that the builder fills, which is in no state yet."""
        self._closed = threading.Event()

    def close(self) -> None:
        """End the thread that builds filters."""
        self._closed.set()
        self._builder.shutdown(cancel_futures=True)

    def wait(self) -> None:
        """Wait until all builds and updates of filters have ended.

        Raises an unexpected error of any of them.
        """
        for state in list(self._sets.values()):
            if state.job is not None:
                state.job.result()

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetLookup.

        With a filter, only the candidates are looked up. This takes one round trip when the set has not changed since
        the last lookup.
        """
        if not values:
            return []
        state = self._state_of(set_id)
        if state.bloom_filter is not None:
            are_members = self._look_up_with_bloom_filter(set_id, state, state.bloom_filter, values)
            if are_members is not None:
                return are_members
        are_members = self._set_store.contains_many(set_id, values)
        state.lookups += len(set(values))
        self._schedule_build_or_update(set_id, state)
        return are_members

    def _state_of(self, set_id: SetId) -> _SetState:
        with self._lock:
            state = self._sets.setdefault(set_id, _SetState())
            self._sets.move_to_end(set_id)
            if len(self._sets) > MAX_SETS:
                self._sets.popitem(last=False)
            return state

    # Lookups with a filter.

    def _look_up_with_bloom_filter(
        self, set_id: SetId, state: _SetState, current: _SetBloomFilter, values: Sequence[str]
    ) -> list[bool] | None:
        """Look up values, most of which the filter rules out.

        Returns None when the filter could not be updated, or when there are too many candidates.
        """
        groups = encoded_values.encode(values)
        hashes = _hashes(groups, len(values), current.generation.hash_seed)
        log_position = current.log_position
        candidates = current.bloom.may_contain(hashes)
        for _ in range(_MAX_ATTEMPTS):
            if np.count_nonzero(candidates) > VALUES_PER_LOOKUP:
                return None
            rows, encoded = _select(groups, candidates)
            distinct, first_indexes, indexes = _distinct(encoded)
            reply = self._look_up(set_id, current, log_position, distinct, hashes[rows[first_indexes]])
            if reply is None or not reply.log_is_complete:
                state.drop_bloom_filter()
                return None
            current.advance(reply.log_version, reply.log_stamp, reply.added)
            if reply.log_version != reply.version:
                return None
            log_position = reply.log_version, reply.log_stamp
            new_candidates = current.bloom.may_contain(hashes) & ~candidates if reply.added else _NO_CANDIDATES
            if not new_candidates.any():
                self._schedule_rebuild(set_id, state, current)
                are_members = np.zeros(len(values), bool)
                are_members[rows] = np.frombuffer(reply.are_members, bool)[indexes]
                return are_members.tolist()
            candidates |= new_candidates
        return None

    def _look_up(
        self,
        set_id: SetId,
        current: _SetBloomFilter,
        log_position: tuple[int, bytes],
        encoded: Sequence[bytes],
        hashes: Uint64Array,
    ) -> _Reply | None:
        """Look up values on the server, and read the values that were added since `log_position`.

        Returns None when the filter's generation is no longer current.
        """
        keys, generation = SetKeys.of(set_id), current.generation
        bucket_keys = generation.bucket_keys_of_values(hashes)
        if current.is_set_unchanged:
            are_members = self._look_up_unchanged(keys, generation, log_position, bucket_keys, encoded)
            if are_members is not None:
                return _Reply(log_position[0], are_members, True, *log_position, [])
        args: list[Argument] = [generation.number, generation.kind, *log_position, LOG_ENTRIES_PER_LOOKUP, *encoded]
        raw_reply = self._client.run(_LOOK_UP, [keys.metadata, keys.log, *bucket_keys], args)
        reply = _Reply.of(raw_reply) if raw_reply is not None else None
        current.is_set_unchanged = reply is not None and (reply.version, reply.log_stamp) == log_position
        return reply

    def _look_up_unchanged(
        self,
        keys: SetKeys,
        generation: SetGeneration,
        log_position: tuple[int, bytes],
        bucket_keys: Sequence[str],
        encoded: Sequence[bytes],
    ) -> bytes | None:
        """Look up values in a set that has not changed since `log_position`.

        Returns None when the set has changed. This costs the server a fraction of what the script costs. Versions only
        increase: if the set has the version of `log_position` after the lookups, it did not change during the lookups.
        """
        command = generation.contains_command
        lookups = [(command, key, value) for key, value in zip(bucket_keys, encoded, strict=True)]
        read_log_position = ("HMGET", keys.metadata, "gen", "ver", "stamp")
        *are_members, (gen, version, stamp) = self._client.pipeline([*lookups, read_log_position])
        if gen is None or (int(gen), int(version), stamp or b"") != (generation.number, *log_position):
            return None
        return bytes(are_members)

    # Builds of filters.

    def _schedule_build_or_update(self, set_id: SetId, state: _SetState) -> None:
        """Schedule an update of the filter, or a build when the set is looked up often enough."""
        if state.bloom_filter is not None:
            self._submit(state, lambda: self._update(set_id, state))
        elif state.lookups >= state.lookups_before_build and self._clock() - state.build_began_at >= REBUILD_AFTER_S:
            self._submit(state, lambda: self._build(set_id, state))

    def _schedule_rebuild(self, set_id: SetId, state: _SetState, current: _SetBloomFilter) -> None:
        """Schedule a build of a new filter when this one has too many layers or values.

        A filter with too many layers is replaced only when the set does not grow any more.
        """
        has_too_many_layers = current.is_set_unchanged and current.bloom.layers > MAX_LAYERS
        is_due = self._clock() - state.build_began_at >= REBUILD_AFTER_S
        if is_due and (has_too_many_layers or current.bloom.is_over_capacity):
            self._submit(state, lambda: self._build(set_id, state))

    def _submit(self, state: _SetState, job: Callable[[], None]) -> None:
        """Submit a build or update, unless a job of this set still runs.

        Raises an unexpected error of the last job.
        """
        with self._lock:
            if self._closed.is_set() or (state.job is not None and not state.job.done()):
                return
            last, state.job = state.job, self._builder.submit(self._run, job)
        if last is not None:
            last.result()

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except RedisUnavailable as error:
            log.warning(
                "building or updating the Bloom filter of a set failed; a later lookup of the set tries again",
                reason=error.detail,
            )

    def _build(self, set_id: SetId, state: _SetState) -> None:
        """Build the filter of a set that is looked up often enough, if there is room for it."""
        keys = SetKeys.of(set_id)
        generation = keys.read_generation(self._client)
        if generation is None:
            state.lookups = 0
            return
        gen, version, stamp, count = self._client.call("HMGET", keys.metadata, "gen", "ver", "stamp", "count")
        if gen is None or int(gen) != generation.number or not int(version):
            return  # the set was replaced, or nothing was written yet, so the log has no entry to continue from
        state.lookups_before_build = max(MIN_LOOKUPS_BEFORE_BUILD, int(count) * LOOKUPS_PER_VALUE_BEFORE_BUILD)
        if state.bloom_filter is None and state.lookups < state.lookups_before_build:
            return
        capacity = int(int(count) * _ROOM_TO_GROW) + _MIN_FREE_CAPACITY
        if not self._make_room(set_id, capacity):
            state.lookups = 0
            return
        state.build_began_at = self._clock()
        new = _SetBloomFilter(generation, BloomFilter(capacity, self._may_grow), int(version), stamp or b"")
        self._unfinished_bloom = new.bloom
        try:
            pause_factor = PAUSE_FACTOR if state.bloom_filter is None else LONG_PAUSE_FACTOR
            has_all = self._read_all(keys, generation, new.bloom, int(count), pause_factor)
            if has_all and self._read_log_to_end(set_id, new):
                state.bloom_filter, state.lookups = new, 0
        finally:
            self._unfinished_bloom = None

    def _make_room(self, set_id: SetId, capacity: int) -> bool:
        """Drop the least recently used filters until there is room.

        The most recently used filters stay as long as they fit; the others are dropped. Returns False, and drops no
        filter, when the new filter alone is too large.
        """
        free_bytes = self._max_bloom_bytes - size_bytes(capacity)
        if free_bytes < 0:
            return False
        with self._lock:
            for other_id, state in reversed(self._sets.items()):
                if other_id != set_id and state.bloom_filter is not None:
                    free_bytes -= state.bloom_filter.bloom.size_bytes
                    if free_bytes < 0:
                        state.bloom_filter = None
        return True

    def _may_grow(self, by_bytes: int) -> bool:
        with self._lock:
            blooms = [state.bloom_filter.bloom for state in self._sets.values() if state.bloom_filter is not None]
            if self._unfinished_bloom is not None:
                blooms.append(self._unfinished_bloom)
        return sum(bloom.size_bytes for bloom in blooms) + by_bytes <= self._max_bloom_bytes

    def _read_all(
        self, keys: SetKeys, generation: SetGeneration, bloom: BloomFilter, count: int, pause_factor: float
    ) -> bool:
        """Add the values of all buckets to a filter.

        Return False when the generation was replaced, or after `close`. After each read it pauses for `pause_factor`
        times the duration of the read.
        """
        numbers = generation.nonempty(self._client.call("GET", generation.nonempty_bitmap) or b"", 0)
        per_read = max(1, int(VALUES_PER_READ / max(1.0, count / (1 << generation.bits))))
        while bucket_keys := generation.bucket_keys(islice(numbers, per_read)):
            read_began_at = self._clock()
            *lists, gen = self._client.pipeline(
                [*((generation.list_command, key) for key in bucket_keys), ("HGET", keys.metadata, "gen")]
            )
            if gen is None or int(gen) != generation.number:
                return False
            bloom.add(encoded_values.hashes(list(chain.from_iterable(lists)), generation.hash_seed))
            if self._closed.wait(pause_factor * (self._clock() - read_began_at)):
                return False
        return True

    def _update(self, set_id: SetId, state: _SetState) -> None:
        current = state.bloom_filter
        if current is not None and not self._read_log_to_end(set_id, current):
            state.drop_bloom_filter()

    def _read_log_to_end(self, set_id: SetId, current: _SetBloomFilter) -> bool:
        """Add the values that were added since the filter's version.

        Return False when the log is not complete.
        """
        while True:
            reply = self._look_up(set_id, current, current.log_position, (), _NO_HASHES)
            if reply is None or not reply.log_is_complete or self._closed.is_set():
                return False
            current.advance(reply.log_version, reply.log_stamp, reply.added)
            if reply.log_version == reply.version:
                return True


def _hashes(groups: Sequence[EncodedValues], count: int, hash_seed: int) -> Uint64Array:
    """Return the hash of each value, in the order of the values."""
    if len(groups) == 1:
        return groups[0].hashes(hash_seed)
    hashes = np.empty(count, np.uint64)
    for group in groups:
        hashes[group.rows] = group.hashes(hash_seed)
    return hashes


def _select(groups: Sequence[EncodedValues], mask: Any) -> tuple[Any, list[bytes]]:
    """Return the rows and the encodings of the values for which the mask is set."""
    rows: list[Any] = []
    encoded: list[bytes] = []
    for group in groups:
        selected = np.flatnonzero(mask if len(groups) == 1 else mask[group.rows])
        rows.append(group.rows[selected])
        encoded += EncodedValues(rows[-1], group.encoded[selected]).to_list()
    return rows[0] if len(rows) == 1 else np.concatenate(rows), encoded


def _distinct(encoded: Sequence[bytes]) -> tuple[list[bytes], Any, Any]:
    """Return the distinct values, their first indexes, and an index for each value.

    The index of a value is the index of the equal distinct value.
    """
    index_by_value: dict[bytes, int] = {}
    indexes = np.array([index_by_value.setdefault(value, len(index_by_value)) for value in encoded], np.intp)
    return list(index_by_value), np.unique(indexes, return_index=True)[1], indexes
