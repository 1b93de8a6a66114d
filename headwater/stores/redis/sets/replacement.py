"""Replacing a set: a new generation is filled beside the current one, then one script makes it current.

Nobody reads a generation that is being filled, so plain pipelined writes do. Its bitmap is written ahead of its
buckets, and `staging` names it; so whatever a kill leaves is found and removed by the next replace or drop.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np
import structlog

from headwater.errors import SetStoreUnavailable, Superseded
from headwater.native import Uint8Array
from headwater.stores.base import SetWriteResult
from headwater.stores.redis.client import Client, Packed, Script, Word, packed
from headwater.stores.redis.sets import bucket_filling
from headwater.stores.redis.sets.encoded_values import Batch, encode
from headwater.stores.redis.sets.layout import REPLACED, Keys, Layout, new_stamp, parts

VALUES_PER_FILL = 500_000
"""More values at once are fewer and longer commands; these take about 100 MB."""
VALUES_PER_ENCODE = 10_000
KEYS_PER_UNLINK = 4_096
GIVEN_UP_AFTER_S = 3600.0
GENERATION_STEP_BITS = 24
"""Numbers are counted on by random steps: a server that lost its last writes does not give the same number again."""

_STAGE = Script.load("stage")
_RENEW = Script.load("renew")
_FLIP = Script.load("flip")
_CONDEMN = Script.load("condemn")
_DROP = Script.load("drop")
_SETTLE = Script.load("settle")

log = structlog.get_logger(__name__)


class Replacement:
    """One replace of one set."""

    def __init__(self, client: Client, keys: Keys, layout: Layout, clock: Callable[[], float]) -> None:
        self._client = client
        self._keys = keys
        self._layout = layout
        self._clock = clock
        self._bitmap = np.zeros(1 << layout.bits, bool)

    def write(self, values: Iterable[str]) -> SetWriteResult:
        """Replace all values. Raises Superseded, SetStoreUnavailable, what the iterable raises; all stays as it was.

        One exception: when the answer of the last script is lost, the values may have been replaced.
        """
        sweep(self._client, self._keys, self._clock() - GIVEN_UP_AFTER_S)
        staged = self._stage()
        try:
            return self._flip(staged, self._fill(staged, values))
        except BaseException:
            with suppress(SetStoreUnavailable):  # the next replace removes it then
                self._abandon(staged)
            raise

    def _stage(self) -> Layout:
        self._client.call("ZADD", REPLACED, self._now(), self._keys.member)
        step = 1 + secrets.randbits(GENERATION_STEP_BITS)
        gen = self._client.run(_STAGE, [self._keys.m, self._keys.staging], [self._layout.hash_key, self._now(), step])
        if gen is None:
            raise Superseded
        return replace(self._layout, gen=gen)

    def _fill(self, staged: Layout, values: Iterable[str]) -> int:
        """Write all values and return the number of distinct ones."""
        count = 0
        rest = iter(values)
        while batches := _encoded(rest):
            if not self._client.run(_RENEW, [self._keys.staging], [staged.gen, self._now()]):
                raise Superseded
            _, *added = self._client.stream(staged.nz, self._commands(staged, batches))
            count += sum(map(sum, added))
        return count

    def _commands(self, staged: Layout, batches: list[Batch]) -> Iterator[Packed]:
        """The bitmap, then the values."""
        hashes = [batch.hashes(staged.hash_key) for batch in batches]
        for some in hashes:
            self._bitmap[staged.numbers(some)] = True
        yield packed([("SET", staged.nz, np.packbits(self._bitmap).tobytes())])
        for batch, some in zip(batches, hashes, strict=True):
            yield from bucket_filling.commands(staged, batch.stored, some)

    def _flip(self, staged: Layout, count: int) -> SetWriteResult:
        keys = self._keys
        reply = self._client.run(_FLIP, [keys.m, keys.staging, keys.log], [staged.gen, count, new_stamp()])
        if reply is None:
            raise Superseded
        version, old = reply
        try:
            _remove_all(self._client, keys, keys.dead(int(old)))
        except SetStoreUnavailable:
            log.warning("the old values of a set stay until it is replaced again", set=keys.tag)
        return SetWriteResult(count, version, count)

    def _abandon(self, staged: Layout) -> None:
        """Remove what was filled. Who removed the set, or gave this up, did not see what was written after that."""
        if self._client.run(_CONDEMN, [self._keys.m, self._keys.staging], [staged.gen, self._now()]):
            _remove(self._client, self._keys, staged, np.flatnonzero(self._bitmap).tolist())

    def _now(self) -> int:
        return int(self._clock()) + 1  # 0 is the mark of the dead


def drop(client: Client, keys: Keys, now: float) -> None:
    """Remove a set, with what is being uploaded to it. now: epoch seconds."""
    began = int(now)
    client.call("ZADD", REPLACED, began, keys.member)
    client.run(_DROP, [keys.m, keys.log, keys.staging], [])
    sweep(client, keys, now + GIVEN_UP_AFTER_S)  # all of them
    _settle(client, keys, began)


def sweep_all(client: Client, seen_before: float) -> None:
    """Sweep every set whose last replace or drop began before `seen_before`, in epoch seconds."""
    replaced = iter(client.call("ZRANGE", REPLACED, "-inf", int(seen_before), "BYSCORE", "WITHSCORES"))
    for member, began in zip(replaced, replaced, strict=True):
        keys = Keys(member.decode())
        sweep(client, keys, seen_before)
        _settle(client, keys, began)


def _settle(client: Client, keys: Keys, began: Word) -> None:
    """Nothing more is to be swept, unless another replace has begun."""
    if not client.call("EXISTS", keys.staging):
        client.run(_SETTLE, [REPLACED], [keys.member, began])


def sweep(client: Client, keys: Keys, seen_before: float) -> None:
    """Remove the generations that are not current and gave no sign of life since `seen_before`, in epoch seconds."""
    for gen in client.call("HKEYS", keys.staging):
        if client.run(_CONDEMN, [keys.m, keys.staging], [gen, int(seen_before)]):
            _remove_all(client, keys, keys.dead(int(gen)))


def _remove_all(client: Client, keys: Keys, dead: Layout) -> None:
    """Remove the buckets that a generation's bitmap names, and its traces."""
    bitmap = client.call("GET", dead.nz) or b""
    _remove(client, keys, dead, list(dead.nonempty(bitmap, 0)))


def _remove(client: Client, keys: Keys, dead: Layout, buckets: list[int]) -> None:
    """Remove a generation's buckets, in slices that hold the server for a few ms, then its traces."""
    for numbers in parts(buckets, KEYS_PER_UNLINK):
        client.call("UNLINK", *dead.buckets(numbers))
    client.pipeline([("UNLINK", dead.nz), ("HDEL", keys.staging, dead.gen)])


def _encoded(rest: Iterator[str]) -> list[Batch]:
    """The stored forms of the next VALUES_PER_FILL values, one batch per width."""
    taken = islice(rest, VALUES_PER_FILL)
    found: defaultdict[int, list[Uint8Array]] = defaultdict(list)
    while part := list(islice(taken, VALUES_PER_ENCODE)):
        for batch in encode(part):
            found[batch.stored.shape[1]].append(batch.stored)
    return [Batch.of(np.concatenate(stored)) for stored in found.values()]
