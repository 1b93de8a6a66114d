"""Sets in Valkey or Redis: binary values in 2^18 buckets by a keyed hash, in a generation that replace flips."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, pairwise
from math import ceil
from typing import Any

import numpy as np

from headwater.model.dataset import SetId
from headwater.native import Uint64Array
from headwater.stores.base import SetWriteResult, ValuePage
from headwater.stores.redis.client import Client, Script, Word
from headwater.stores.redis.sets import encoded_values
from headwater.stores.redis.sets.layout import COMPACT_SETS_SINCE, Keys, Kind, Layout, Placed, new_stamp, parts
from headwater.stores.redis.sets.replacement import GIVEN_UP_AFTER_S, Replacement, drop, sweep_all
from headwater.stores.redis.sets.value_encoding import HASH_BITS, POSITION_BITS

VALUES_PER_WRITE = 250  # holds the server for about 2 ms
SLOW_S, LONGEST_REST_S = 0.004, 0.1
"""After a write that took longer than SLOW_S the next one waits for as long: the server, or the machine, has more to do
than it can, and lookups go first. Without it their p99 doubles, and writes are no faster (`benches.live_lookups`).
"""
VALUES_PER_LOOKUP = 4_000
BUCKETS_PER_READ = 4_000
VALUES_PER_READ = 50_000
_MAX_REMEMBERED = 10_000

_WRITE = Script.load("write")
_CONTAINS = Script.load("contains")
_ADD, _REMOVE = "a", "r"


class RedisSetStore:
    """A SetStore on one server or replica group. Thread-safe.

    Layouts are remembered. A script that meets another generation than the remembered one does nothing, and the call
    starts over with the new one; so a write is never lost in buckets that a replace left behind.
    """

    def __init__(self, client: Client, kind: Kind | None = None, clock: Callable[[], float] = time.time) -> None:
        """kind: how new sets are stored; None asks the server once. clock: epoch seconds, give or take minutes."""
        self._client = client
        self._kind = kind
        self._clock = clock
        self._layouts: dict[SetId, Layout] = {}
        self._write_turn = threading.Lock()  # reads wait behind one write of each process, however many there are

    def add(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore. When an answer is lost this raises: how many values were new is then unknown."""
        return self._write(target, _ADD, values)

    def remove(self, target: SetId, values: Sequence[str]) -> SetWriteResult:
        """See SetStore. When an answer is lost this raises: how many values were there is then unknown."""
        return self._write(target, _REMOVE, values)

    def replace(self, target: SetId, values: Iterable[str]) -> SetWriteResult:
        """See SetStore. Writes meanwhile go to the old values and vanish with them."""
        layout = Keys.of(target).read(self._client) or self._create(target)
        written = Replacement(self._client, Keys.of(target), layout, self._clock).write(values)
        self._forget(target)
        return written

    def contains_many(self, target: SetId, values: Sequence[str]) -> list[bool]:
        """See SetStore. One round trip for up to 4,000 distinct values."""
        distinct = list(dict.fromkeys(values))
        stored = encoded_values.encode_all(distinct)
        while (layout := self._layout(target)) is not None:
            answers = self._contains(layout, Keys.of(target), stored)
            if answers is not None:
                known = dict(zip(distinct, answers, strict=True))
                return [known[value] for value in values]
            self._forget(target)
        return [False] * len(values)

    def page(self, target: SetId, cursor: int | None, count: int) -> ValuePage:
        """See SetStore. A page grows beyond `count` only where two values share a position (2^-53 per pair)."""
        low = 0 if cursor is None else cursor + 1
        while (layout := self._layout(target)) is not None:
            page = self._page(layout, Keys.of(target), low, count)
            if page is not None:
                return page
            self._forget(target)
        return ValuePage([], None, 0)

    def count(self, target: SetId) -> tuple[int, int]:
        """See SetStore."""
        count, version = self._client.call("HMGET", Keys.of(target).m, "count", "ver")
        return int(count or 0), int(version or 0)

    def counts(self, targets: Sequence[SetId]) -> Sequence[int]:
        """See SetCounts."""
        asked = self._client.pipelines([[("HGET", Keys.of(target).m, "count")] for target in targets])
        return [int(count or 0) for [count] in asked]

    def drop(self, target: SetId) -> None:
        """See SetStore. Killed half-way, another call finishes it; two at once are one."""
        keys = Keys.of(target)
        if self._client.call("EXISTS", keys.m, keys.staging):
            drop(self._client, keys, self._clock())
        self._forget(target)

    def sweep(self) -> None:
        """See SetStore."""
        sweep_all(self._client, self._clock() - GIVEN_UP_AFTER_S)

    def _layout(self, target: SetId) -> Layout | None:
        layout = self._layouts.get(target) or Keys.of(target).read(self._client)
        return self._remember(target, layout) if layout is not None else None

    def _create(self, target: SetId) -> Layout:
        if self._kind is None:
            self._kind = "set" if self._client.version() >= COMPACT_SETS_SINCE else "hash"
        return self._remember(target, Keys.of(target).create(self._client, self._kind))

    def _remember(self, target: SetId, layout: Layout) -> Layout:
        if len(self._layouts) >= _MAX_REMEMBERED:
            self._layouts.clear()
        self._layouts[target] = layout
        return layout

    def _forget(self, target: SetId) -> None:
        self._layouts.pop(target, None)

    def _write(self, target: SetId, operation: str, values: Sequence[str]) -> SetWriteResult:
        stored = encoded_values.encode_all(list(set(values)))
        while stored:
            layout = self._layout(target)
            if layout is None:
                if operation == _REMOVE:
                    break
                layout = self._create(target)
            written = self._write_under(layout, Keys.of(target), operation, stored)
            if written is not None:
                return written
            self._forget(target)
        count, version = self.count(target)
        return SetWriteResult(0, version, count)

    def _write_under(self, layout: Layout, keys: Keys, operation: str, stored: list[bytes]) -> SetWriteResult | None:
        """Write all values under one generation; None when it is no longer the current one."""
        changed = version = count = 0
        placed = layout.place(stored)
        for at in range(0, len(stored), VALUES_PER_WRITE):
            keys_and_args = _write_call(layout, keys, operation, placed[at : at + VALUES_PER_WRITE])
            with self._write_turn:
                reply = self._write_and_rest(keys_and_args)
            if reply is None:
                return None
            newly, version, count = reply
            changed += newly
        return SetWriteResult(changed, version, count)

    def _write_and_rest(self, keys_and_args: tuple[list[Word], list[Word]]) -> Any:
        began = time.monotonic()
        reply = self._client.run(_WRITE, *keys_and_args)
        took_s = time.monotonic() - began
        if took_s > SLOW_S:
            time.sleep(min(took_s, LONGEST_REST_S))
        return reply

    def _contains(self, layout: Layout, keys: Keys, stored: list[bytes]) -> list[bool] | None:
        """Answers from one version of the set; None when the generation is no longer the current one."""
        for size in (VALUES_PER_LOOKUP, VALUES_PER_LOOKUP, max(len(stored), 1)):
            replies = []
            for part in parts(stored, size):
                reply = self._lookup(layout, keys, part)
                if reply is None:
                    return None
                replies.append(reply)
            if len({version for version, _ in replies}) <= 1:
                break
        return [answer == ord("1") for _, answers in replies for answer in answers]

    def _lookup(self, layout: Layout, keys: Keys, stored: list[bytes]) -> tuple[bytes, bytes] | None:
        buckets = layout.bucket_keys(encoded_values.hashes(stored, layout.hash_key))
        reply = self._client.run(_CONTAINS, [keys.m, *buckets], [layout.gen, layout.kind, *stored])
        return (reply[0], reply[1]) if reply is not None else None

    def _page(self, layout: Layout, keys: Keys, low: int, count: int) -> ValuePage | None:
        """The first values at position `low` or after; None when the generation is no longer the current one."""
        first = low >> (POSITION_BITS - layout.bits)
        (gen, total), bitmap = self._client.pipeline(
            [("HMGET", keys.m, "gen", "count"), ("GETRANGE", layout.nz, first >> 3, -1)]
        )
        if gen is None or int(gen) != layout.gen:
            return None
        numbers = layout.nonempty(bitmap, first)
        per_call = _buckets_to_read(layout, int(total), count)
        found, wanted = layout.place([]), 0
        while part := layout.buckets(islice(numbers, per_call)):
            # The generation is asked last: buckets go only after another one became the current one.
            *lists, current = self._client.pipeline(
                [*((layout.list_command, key) for key in part), ("HGET", keys.m, "gen")]
            )
            if current is None or int(current) != layout.gen:
                return None
            wanted = wanted or count + len(lists[0])  # in the first bucket are values below `low`
            found += layout.place(list(chain.from_iterable(lists)))
            if len(found) > wanted:
                break
        start = int(np.searchsorted(_positions(found), np.uint64(low)))
        return _cut(found[start:], count, int(total))


def _write_call(layout: Layout, keys: Keys, operation: str, placed: Placed) -> tuple[list[Word], list[Word]]:
    """Keys and arguments of one write script."""
    numbers = layout.numbers(placed.hashes)
    edges = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    found: list[int] = numbers[edges[:-1]].tolist()
    args: list[Word] = [layout.gen, operation, layout.kind, new_stamp(), placed.hashes.astype("<u8").tobytes()]
    for number, (start, end) in zip(found, pairwise(edges), strict=True):
        args += [number, end - start, *placed.stored[start:end]]
    return [keys.m, layout.nz, keys.log, *layout.buckets(found)], args


def _buckets_to_read(layout: Layout, total: int, count: int) -> int:
    """How many non-empty buckets hold about `count` + 1 values, within what one round trip may read."""
    per_bucket = max(1.0, total / (1 << layout.bits))
    wanted = ceil((count + 1) / per_bucket * 1.1) + 1
    return min(wanted, BUCKETS_PER_READ, ceil(VALUES_PER_READ / per_bucket))


def _cut(found: Placed, count: int, total: int) -> ValuePage:
    """The page in values found up to the end of a bucket; values that share a position are never parted."""
    end = min(count, len(found))
    positions = _positions(found)
    while 0 < end < len(found) and positions[end] == positions[end - 1]:
        end += 1
    cursor = int(positions[end - 1]) if end < len(found) else None
    return ValuePage(encoded_values.decode(found.stored[:end]), cursor, total)


def _positions(placed: Placed) -> Uint64Array:
    return placed.hashes >> np.uint64(HASH_BITS - POSITION_BITS)
