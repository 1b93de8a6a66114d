"""Sets in Valkey or Redis.

A keyed hash distributes the encoded values of a set over 2^18 buckets. `replace` fills the buckets of a new generation
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
from headwater.native import Uint64Array
from headwater.stores.protocols.sets import SetCount, SetWriteResult, ValuePage
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument
from headwater.stores.redis.sets import encoded_values
from headwater.stores.redis.sets.layout import (
    LISTPACK_SETS_SINCE,
    Keys,
    Kind,
    SetGeneration,
    SortedValues,
    chunks,
    new_stamp,
)
from headwater.stores.redis.sets.replacement import ABANDONED_AFTER_S, Replacement, drop, sweep_all
from headwater.stores.redis.sets.value_encoding import HASH_BITS, POSITION_BITS

VALUES_PER_WRITE = 250  # blocks the server for about 2 ms
SLOW_WRITE_S = 0.004
"""Back-pressure: after a write that took longer than this, the next write of the process waits for as long.

The server or the machine is overloaded then, and lookups have priority. Without this the p99 of lookups doubles, and
writes are not faster (`benches.live_lookups`).
"""
MAX_BACKPRESSURE_S = 0.1
VALUES_PER_LOOKUP = 4_000
BUCKETS_PER_READ = 4_000
VALUES_PER_READ = 50_000
_MAX_CACHED_GENERATIONS = 10_000

_WRITE = Script.load("write_values")
_CONTAINS = Script.load("contains_values")
_ADD, _REMOVE = "a", "r"


class RedisSetStore:
    """A SetStore on one server, replica group or cluster. Thread-safe.

    The current generation of a set is cached. A script that finds another generation to be the current one does
    nothing, and the method starts over with that generation. So no write is lost in the buckets of an old generation.
    """

    def __init__(self, client: Client, kind: Kind | None = None, clock: Callable[[], float] = time.time) -> None:
        """Create a store.

        Args:
            client: The client of the server.
            kind: The type of the buckets of new sets; None to choose it by the version of the server.
            clock: Seconds since the epoch. The clocks of the processes may differ by minutes.
        """
        self._client = client
        self._kind = kind
        self._clock = clock
        self._generations: dict[SetId, SetGeneration] = {}
        # At most one write per process is in flight, so that a read never waits behind many writes.
        self._write_lock = threading.Lock()

    def add(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore. Raises when a reply is lost; how many values were new is unknown then."""
        return self._write(target, _ADD, values)

    def remove(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore. Raises when a reply is lost; how many values were removed is unknown then."""
        return self._write(target, _REMOVE, values)

    def replace(self, target: SetId, values: Iterable[str]) -> SetWriteResult:
        """See SetStore. Concurrent writes go to the old values, and are removed with them."""
        generation = Keys.of(target).read(self._client) or self._create(target)
        written = Replacement(self._client, Keys.of(target), generation, self._clock).write(values)
        self._forget(target)
        return written

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetStore. One round trip for up to 4,000 distinct values."""
        distinct = list(dict.fromkeys(values))
        encoded = encoded_values.encode_all(distinct)
        while (generation := self._generation(target)) is not None:
            answers = self._contains(generation, Keys.of(target), encoded)
            if answers is not None:
                known = dict(zip(distinct, answers, strict=True))
                return [known[value] for value in values]
            self._forget(target)
        return [False] * len(values)

    def page(self, target: SetId, cursor: int | None, count: int) -> ValuePage:
        """See SetStore.

        A page has more than `count` values only if values share a position (2^-53 for each pair).
        """
        low = 0 if cursor is None else cursor + 1
        while (generation := self._generation(target)) is not None:
            page = self._page(generation, Keys.of(target), low, count)
            if page is not None:
                return page
            self._forget(target)
        return ValuePage([], None, 0)

    def count(self, target: SetId) -> SetCount:
        """See SetStore."""
        count, version = self._client.call("HMGET", Keys.of(target).metadata, "count", "ver")
        return SetCount(int(count or 0), int(version or 0))

    def counts(self, targets: Sequence[SetId]) -> Sequence[int]:
        """See SetCounts."""
        asked = self._client.pipelines([[("HGET", Keys.of(target).metadata, "count")] for target in targets])
        return [int(count or 0) for [count] in asked]

    def drop(self, target: SetId) -> None:
        """See SetStore.

        After an interruption, another call completes the removal. Concurrent calls are safe.
        """
        keys = Keys.of(target)
        if self._client.call("EXISTS", keys.metadata, keys.staging):
            drop(self._client, keys, self._clock())
        self._forget(target)

    def sweep(self) -> None:
        """See SetStore."""
        sweep_all(self._client, self._clock() - ABANDONED_AFTER_S)

    def _generation(self, target: SetId) -> SetGeneration | None:
        generation = self._generations.get(target) or Keys.of(target).read(self._client)
        return self._cache(target, generation) if generation is not None else None

    def _create(self, target: SetId) -> SetGeneration:
        if self._kind is None:
            self._kind = "set" if self._client.version() >= LISTPACK_SETS_SINCE else "hash"
        return self._cache(target, Keys.of(target).create(self._client, self._kind))

    def _cache(self, target: SetId, generation: SetGeneration) -> SetGeneration:
        if len(self._generations) >= _MAX_CACHED_GENERATIONS:
            self._generations.clear()
        self._generations[target] = generation
        return generation

    def _forget(self, target: SetId) -> None:
        self._generations.pop(target, None)

    def _write(self, target: SetId, operation: str, values: Sequence[str]) -> SetWriteResult:
        encoded = encoded_values.encode_all(list(set(values)))
        while encoded:
            generation = self._generation(target)
            if generation is None:
                if operation == _REMOVE:
                    break
                generation = self._create(target)
            written = self._write_to(generation, Keys.of(target), operation, encoded)
            if written is not None:
                return written
            self._forget(target)
        count, version = self.count(target)
        return SetWriteResult(0, version, count)

    def _write_to(
        self, generation: SetGeneration, keys: Keys, operation: str, encoded: list[bytes]
    ) -> SetWriteResult | None:
        """Write all values under one generation; None when it is no longer the current one."""
        changed = version = count = 0
        ordered = generation.sort(encoded)
        for at in range(0, len(encoded), VALUES_PER_WRITE):
            keys_and_args = _write_arguments(generation, keys, operation, ordered[at : at + VALUES_PER_WRITE])
            with self._write_lock:
                reply = self._write_with_backpressure(keys_and_args)
            if reply is None:
                return None
            newly, version, count = reply
            changed += newly
        return SetWriteResult(changed, version, count)

    def _write_with_backpressure(self, keys_and_args: tuple[list[Argument], list[Argument]]) -> Any:
        began = time.monotonic()
        reply = self._client.run(_WRITE, *keys_and_args)
        took_s = time.monotonic() - began
        if took_s > SLOW_WRITE_S:
            time.sleep(min(took_s, MAX_BACKPRESSURE_S))
        return reply

    def _contains(self, generation: SetGeneration, keys: Keys, encoded: list[bytes]) -> list[bool] | None:
        """Look up values in one version of the set.

        Returns None when the generation is no longer the current one. Many values are looked up by several scripts. If
        the version changes in between, they are looked up again, and the third time by a single script.
        """
        for size in (VALUES_PER_LOOKUP, VALUES_PER_LOOKUP, max(len(encoded), 1)):
            replies = []
            for part in chunks(encoded, size):
                reply = self._lookup(generation, keys, part)
                if reply is None:
                    return None
                replies.append(reply)
            if len({version for version, _ in replies}) <= 1:
                break
        return [answer == ord("1") for _, answers in replies for answer in answers]

    def _lookup(self, generation: SetGeneration, keys: Keys, encoded: list[bytes]) -> tuple[bytes, bytes] | None:
        """Return the version of the set and a digit per value, 1 for members.

        Returns None as in `_contains`.
        """
        buckets = generation.bucket_keys(encoded_values.hashes(encoded, generation.hash_key))
        reply = self._client.run(_CONTAINS, [keys.metadata, *buckets], [generation.number, generation.kind, *encoded])
        return (reply[0], reply[1]) if reply is not None else None

    def _page(self, generation: SetGeneration, keys: Keys, low: int, count: int) -> ValuePage | None:
        """Return a page from position `low` on.

        Returns None when the generation is no longer the current one.
        """
        first = low >> (POSITION_BITS - generation.bits)
        (gen, total), bitmap = self._client.pipeline(
            [("HMGET", keys.metadata, "gen", "count"), ("GETRANGE", generation.nonempty_bitmap, first >> 3, -1)]
        )
        if gen is None or int(gen) != generation.number:
            return None
        numbers = generation.nonempty(bitmap, first)
        per_call = _buckets_to_read(generation, int(total), count)
        found, wanted = generation.sort([]), 0
        while part := generation.buckets(islice(numbers, per_call)):
            # The generation is read last: buckets are deleted only after another generation became the current one.
            *lists, current = self._client.pipeline(
                [*((generation.list_command, key) for key in part), ("HGET", keys.metadata, "gen")]
            )
            if current is None or int(current) != generation.number:
                return None
            wanted = wanted or count + len(lists[0])  # some values of the first bucket may be below `low`
            found += generation.sort(list(chain.from_iterable(lists)))
            if len(found) > wanted:
                break
        start = int(np.searchsorted(_positions(found), np.uint64(low)))
        return _page_of(found[start:], count, int(total))


def _write_arguments(
    generation: SetGeneration, keys: Keys, operation: str, ordered: SortedValues
) -> tuple[list[Argument], list[Argument]]:
    """Return the keys and arguments of one run of the script write_values."""
    numbers = generation.bucket_numbers(ordered.hashes)
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    found: list[int] = numbers[edges[:-1]].tolist()
    args: list[Argument] = [
        generation.number,
        operation,
        generation.kind,
        new_stamp(),
        ordered.hashes.astype("<u8").tobytes(),
    ]
    for number, (start, end) in zip(found, pairwise(edges), strict=True):
        args += [number, end - start, *ordered.encoded[start:end]]
    return [keys.metadata, generation.nonempty_bitmap, keys.log, *generation.buckets(found)], args


def _buckets_to_read(generation: SetGeneration, total: int, count: int) -> int:
    """Return how many non-empty buckets hold about `count` + 1 values, within one read."""
    per_bucket = max(1.0, total / (1 << generation.bits))
    wanted = ceil((count + 1) / per_bucket * 1.1) + 1
    return min(wanted, BUCKETS_PER_READ, ceil(VALUES_PER_READ / per_bucket))


def _page_of(found: SortedValues, count: int, total: int) -> ValuePage:
    """Return the first `count` of the values that were found.

    Values that share a position are on the same page.
    """
    end = min(count, len(found))
    positions = _positions(found)
    while 0 < end < len(found) and positions[end] == positions[end - 1]:
        end += 1
    cursor = int(positions[end - 1]) if end < len(found) else None
    return ValuePage(encoded_values.decode(found.encoded[:end]), cursor, total)


def _positions(ordered: SortedValues) -> Uint64Array:
    return ordered.hashes >> np.uint64(HASH_BITS - POSITION_BITS)
