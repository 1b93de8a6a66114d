"""Sets in Valkey or Redis.

A seeded hash distributes the encoded values of a set over 2^18 buckets. `replace` fills the buckets of a new generation
and then makes it the current one; see replacement.py.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, pairwise
from math import ceil
from typing import Any

import numpy as np

from headwater.model.value_sets import SetId
from headwater.stores.protocols.sets import SetCount, SetSummary, SetWriteResult, ValuePage
from headwater.stores.redis.chunks import chunks
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument
from headwater.stores.redis.sets import encoded_values, set_digest
from headwater.stores.redis.sets.layout import (
    LISTPACK_SETS_SINCE,
    BucketKind,
    SetGeneration,
    SetKeys,
    SortedValues,
    new_stamp,
)
from headwater.stores.redis.sets.replacement import ABANDONED_AFTER_S, Replacement, drop, sweep_all
from headwater.stores.redis.sets.value_encoding import POSITION_BITS

VALUES_PER_WRITE = 250  # blocks the server for about 2 ms
SLOW_WRITE_S = 0.004
"""Back-pressure: after a write that took longer than this, the next write waits for as long as that write took. The
wait is at most MAX_BACKPRESSURE_S.

A slow write shows that the server or the machine is overloaded, and lookups have priority. Without the wait, the p99 of
lookups doubles, and writes are not faster (`benches.live_lookups`).
"""
MAX_BACKPRESSURE_S = 0.1
VALUES_PER_LOOKUP = 4_000
"""The most values that one script looks up, except in the last attempt, which looks up all values at once."""
BUCKETS_PER_READ = 4_000
VALUES_PER_READ = 50_000
_MAX_CACHED_GENERATIONS = 10_000
MAX_DIGEST_ATTEMPTS = 3
"""How often all values are read to compute a digest while the set changes."""

_WRITE = Script.load("write_values")
_CONTAINS = Script.load("contains_values")
_STORE_DIGEST = Script.load("store_digest")
_ADD, _REMOVE = "a", "r"


class RedisSetStore:
    """A SetStore on one server, replica group or cluster. Thread-safe.

    The current generation of a set is cached. A script does nothing when another generation is the current one, and the
    method starts over with that generation. So no write is lost in the buckets of an old generation.
    """

    def __init__(self, client: Client, kind: BucketKind | None = None, clock: Callable[[], float] = time.time) -> None:
        """Create a store.

        Args:
            client: The client of the server.
            kind: The type of the buckets of new sets; None to choose it by the version of the server.
            clock: Returns seconds since the epoch. The clocks of the processes may differ by minutes.
        """
        self._client = client
        self._kind = kind
        self._clock = clock
        self._generations: dict[SetId, SetGeneration] = {}
        # At most one write per process is in flight, so that a read never waits behind many writes.
        self._write_lock = threading.Lock()

    def add(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore.

        Raises RedisUnavailable when a reply is lost; how many values were new is unknown then.
        """
        return self._write(set_id, _ADD, values)

    def remove(self, set_id: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore.

        Raises RedisUnavailable when a reply is lost; how many values were removed is unknown then.
        """
        return self._write(set_id, _REMOVE, values)

    def replace(self, set_id: SetId, values: Iterable[str]) -> SetWriteResult:
        """See SetStore. Concurrent writes go to the old values, and are removed with them."""
        generation = SetKeys.of(set_id).read_generation(self._client) or self._create(set_id)
        result = Replacement(self._client, SetKeys.of(set_id), generation, self._clock).write(values)
        self._forget(set_id)
        return result

    def contains_many(self, set_id: SetId, values: Sequence[str]) -> list[bool]:
        """See SetStore. One round trip for up to 4,000 distinct values."""
        distinct = list(dict.fromkeys(values))
        encoded = encoded_values.encode_all(distinct)
        while (generation := self._generation(set_id)) is not None:
            are_members = self._contains(generation, SetKeys.of(set_id), encoded)
            if are_members is not None:
                is_member = dict(zip(distinct, are_members, strict=True))
                return [is_member[value] for value in values]
            self._forget(set_id)
        return [False] * len(values)

    def page(self, set_id: SetId, cursor: int | None, count: int) -> ValuePage:
        """See SetStore.

        A page has more than `count` values only if values share a position (probability: 2^-53 for each pair).
        """
        low = 0 if cursor is None else cursor + 1
        while (generation := self._generation(set_id)) is not None:
            page = self._page(generation, SetKeys.of(set_id), low, count)
            if page is not None:
                return page
            self._forget(set_id)
        return ValuePage([], None, 0)

    def count(self, set_id: SetId) -> SetCount:
        """See SetStore."""
        count, version = self._client.call("HMGET", SetKeys.of(set_id).metadata, "count", "ver")
        return SetCount(int(count or 0), int(version or 0))

    def summary(self, set_id: SetId) -> SetSummary:
        """See SetStore.

        The digest of a set that an older version of Headwater has written is computed once.
        """
        keys = SetKeys.of(set_id)
        for _ in range(MAX_DIGEST_ATTEMPTS):
            count, ver, stored = self._client.call("HMGET", keys.metadata, "count", "ver", "digest")
            if count is None:
                return SetSummary(0, 0, set_digest.EMPTY)
            known = set_digest.stored_digest(stored, int(ver))
            if known is not None:
                return SetSummary(int(count), int(ver), known)
            self._store_digest(keys, int(ver))
        return SetSummary(int(count), int(ver), None)

    def _store_digest(self, keys: SetKeys, version: int) -> None:
        """Compute the digest of a version, and store it unless the set changes meanwhile."""
        generation = keys.read_generation(self._client)
        if generation is not None:
            numbers = generation.nonempty(self._client.call("GET", generation.nonempty_bitmap) or b"", 0)
            total = sum(map(set_digest.hash_sum, generation.read_buckets(self._client, numbers)))
            self._client.run(_STORE_DIGEST, [keys.metadata], [generation.number, version, set_digest.pack(total)])

    def counts(self, set_ids: Sequence[SetId]) -> Sequence[int]:
        """See SetCounts."""
        replies = self._client.pipelines([[("HGET", SetKeys.of(set_id).metadata, "count")] for set_id in set_ids])
        return [int(count or 0) for [count] in replies]

    def drop(self, set_id: SetId) -> None:
        """See SetStore.

        After an interruption, another call completes the removal. Concurrent calls are safe.
        """
        keys = SetKeys.of(set_id)
        if self._client.call("EXISTS", keys.metadata, keys.staging):
            drop(self._client, keys, self._clock())
        self._forget(set_id)

    def sweep(self) -> None:
        """See SetStore."""
        sweep_all(self._client, self._clock() - ABANDONED_AFTER_S)

    def _generation(self, set_id: SetId) -> SetGeneration | None:
        generation = self._generations.get(set_id) or SetKeys.of(set_id).read_generation(self._client)
        return self._cache(set_id, generation) if generation is not None else None

    def _create(self, set_id: SetId) -> SetGeneration:
        if self._kind is None:
            self._kind = "set" if self._client.version() >= LISTPACK_SETS_SINCE else "hash"
        return self._cache(set_id, SetKeys.of(set_id).create_set(self._client, self._kind))

    def _cache(self, set_id: SetId, generation: SetGeneration) -> SetGeneration:
        if len(self._generations) >= _MAX_CACHED_GENERATIONS:
            self._generations.clear()
        self._generations[set_id] = generation
        return generation

    def _forget(self, set_id: SetId) -> None:
        self._generations.pop(set_id, None)

    def _write(self, set_id: SetId, operation: str, values: Sequence[str]) -> SetWriteResult:
        encoded = encoded_values.encode_all(list(set(values)))
        while encoded:
            generation = self._generation(set_id)
            if generation is None:
                if operation == _REMOVE:
                    break
                generation = self._create(set_id)
            result = self._write_to(generation, SetKeys.of(set_id), operation, encoded)
            if result is not None:
                return result
            self._forget(set_id)
        count, version = self.count(set_id)
        return SetWriteResult(0, version, count)

    def _write_to(
        self, generation: SetGeneration, keys: SetKeys, operation: str, encoded: list[bytes]
    ) -> SetWriteResult | None:
        """Write all values to one generation. Returns None when it is no longer current."""
        changed = version = count = 0
        ordered = generation.sort(encoded)
        for start in range(0, len(encoded), VALUES_PER_WRITE):
            keys_and_args = _write_arguments(generation, keys, operation, ordered[start : start + VALUES_PER_WRITE])
            with self._write_lock:
                reply = self._write_with_backpressure(keys_and_args)
            if reply is None:
                return None
            changed_now, version, count = reply
            changed += changed_now
        return SetWriteResult(changed, version, count)

    def _write_with_backpressure(self, keys_and_args: tuple[list[Argument], list[Argument]]) -> Any:
        began = time.monotonic()
        reply = self._client.run(_WRITE, *keys_and_args)
        took_s = time.monotonic() - began
        if took_s > SLOW_WRITE_S:
            time.sleep(min(took_s, MAX_BACKPRESSURE_S))
        return reply

    def _contains(self, generation: SetGeneration, keys: SetKeys, encoded: list[bytes]) -> list[bool] | None:
        """Look up values in one version of the set.

        Returns None when the generation is no longer current. Many values are looked up by several runs of the
        script. If the version changes between two runs, the values are looked up again, and the third time by one run.
        """
        for size in (VALUES_PER_LOOKUP, VALUES_PER_LOOKUP, max(len(encoded), 1)):
            replies = []
            for chunk in chunks(encoded, size):
                reply = self._run_contains_script(generation, keys, chunk)
                if reply is None:
                    return None
                replies.append(reply)
            if len({version for version, _ in replies}) <= 1:
                break
        return [digit == ord("1") for _, digits in replies for digit in digits]

    def _run_contains_script(
        self, generation: SetGeneration, keys: SetKeys, encoded: list[bytes]
    ) -> tuple[bytes, bytes] | None:
        """Return the version of the set and a digit per value, 1 for members.

        Returns None when the generation is no longer current.
        """
        bucket_keys = generation.bucket_keys_of_values(encoded_values.hashes(encoded, generation.hash_seed))
        reply = self._client.run(
            _CONTAINS, [keys.metadata, *bucket_keys], [generation.number, generation.kind, *encoded]
        )
        return (reply[0], reply[1]) if reply is not None else None

    def _page(self, generation: SetGeneration, keys: SetKeys, low: int, count: int) -> ValuePage | None:
        """Return a page from position `low` on.

        Returns None when the generation is no longer current.
        """
        first = low >> (POSITION_BITS - generation.bits)
        (gen, total), bitmap = self._client.pipeline(
            [("HMGET", keys.metadata, "gen", "count"), ("GETRANGE", generation.nonempty_bitmap, first >> 3, -1)]
        )
        if gen is None or int(gen) != generation.number:
            return None
        numbers = generation.nonempty(bitmap, first)
        per_call = _buckets_to_read(generation, int(total), count)
        values, enough = generation.sort([]), 0
        while len(values) <= enough and (bucket_keys := generation.bucket_keys(islice(numbers, per_call))):
            # The generation is read last: buckets are deleted only after another generation became the current one.
            *lists, current = self._client.pipeline(
                [*((generation.list_command, key) for key in bucket_keys), ("HGET", keys.metadata, "gen")]
            )
            if current is None or int(current) != generation.number:
                return None
            if not values:
                enough = count + len(lists[0])  # some values of the first bucket may be below `low`
            # One value more than `enough` shows whether another page follows.
            values += generation.sort(list(chain.from_iterable(lists)))
        start = int(np.searchsorted(values.positions, np.uint64(low)))
        return _page_of(values[start:], count, int(total))


def _write_arguments(
    generation: SetGeneration, keys: SetKeys, operation: str, ordered: SortedValues
) -> tuple[list[Argument], list[Argument]]:
    """Return the keys and arguments of one run of the script write_values."""
    numbers = generation.bucket_numbers(ordered.hashes)
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    distinct_numbers: list[int] = numbers[edges[:-1]].tolist()
    packed_hashes = set_digest.packed_hashes(encoded_values.decode(ordered.encoded))
    args: list[Argument] = [
        generation.number,
        operation,
        generation.kind,
        new_stamp(),
        ordered.hashes.astype("<u8").tobytes(),
        packed_hashes,
        *set_digest.word_sums(packed_hashes),
    ]
    for number, (start, end) in zip(distinct_numbers, pairwise(edges), strict=True):
        args += [number, end - start, *ordered.encoded[start:end]]
    return [keys.metadata, generation.nonempty_bitmap, keys.log, *generation.bucket_keys(distinct_numbers)], args


def _buckets_to_read(generation: SetGeneration, total: int, count: int) -> int:
    """Return how many non-empty buckets hold about `count` + 1 values, within one read."""
    values_per_bucket = max(1.0, total / (1 << generation.bits))
    needed = ceil((count + 1) / values_per_bucket * 1.1) + 1
    return min(needed, BUCKETS_PER_READ, ceil(VALUES_PER_READ / values_per_bucket))


def _page_of(values: SortedValues, count: int, total: int) -> ValuePage:
    """Return a page of the first `count` values.

    Values that share a position are on the same page.
    """
    end = min(count, len(values))
    positions = values.positions
    while 0 < end < len(values) and positions[end] == positions[end - 1]:
        end += 1
    cursor = int(positions[end - 1]) if end < len(values) else None
    return ValuePage(encoded_values.decode(values.encoded[:end]), cursor, total)
