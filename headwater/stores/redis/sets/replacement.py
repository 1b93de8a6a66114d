"""Replaces all values of a set: fills a new generation, and activates it with one script.

Nobody reads a generation that is being filled, so plain pipelined writes are sufficient. Its bitmap is written before
its buckets, and its number is in `staging`. So after an interruption the next replacement, drop or sweep finds and
deletes the leftovers.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np
import structlog

from headwater.errors import RedisUnavailable, UploadAborted
from headwater.native import Uint8Array
from headwater.stores.protocols.sets import SetWriteResult
from headwater.stores.redis.chunks import chunks
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument, EncodedCommands, encode_commands
from headwater.stores.redis.sets import bucket_filling, set_digest
from headwater.stores.redis.sets.encoded_values import EncodedValues, encode
from headwater.stores.redis.sets.layout import SETS_TO_SWEEP, SetGeneration, SetKeys, new_stamp

VALUES_PER_FILL = 500_000
"""How many values are encoded at once, which takes about 100 MB. With more values, commands are fewer and longer."""
VALUES_PER_ENCODE = 10_000
KEYS_PER_UNLINK = 4_096
ABANDONED_AFTER_S = 3600.0
GENERATION_STEP_BITS = 24
"""Generation numbers grow by random steps of up to this many bits.

So a server that lost writes does not assign the same number again.
"""

_BEGIN = Script.load("begin_generation")
_HEARTBEAT = Script.load("record_heartbeat")
_ACTIVATE = Script.load("activate_generation")
_MARK_DEAD = Script.load("mark_generation_dead")
_DROP = Script.load("drop_set")
_REMOVE_SWEPT = Script.load("remove_swept_set")

log = structlog.get_logger(__name__)


class Replacement:
    """One replacement of the values of a set."""

    def __init__(self, client: Client, keys: SetKeys, generation: SetGeneration, clock: Callable[[], float]) -> None:
        self._client = client
        self._keys = keys
        self._generation = generation
        self._clock = clock
        self._bitmap = np.zeros(1 << generation.bits, bool)

    def write(self, values: Iterable[str]) -> SetWriteResult:
        """Replace all values.

        Raises UploadAborted when the set was removed meanwhile, or when another process has swept this replacement as
        abandoned. Raises RedisUnavailable, or what the iterable raises. In all cases the set is unchanged; only when
        the reply to the last script is lost may the values have been replaced.
        """
        sweep(self._client, self._keys, self._clock() - ABANDONED_AFTER_S)
        staged = self._begin()
        try:
            return self._activate(staged, *self._fill(staged, values))
        except BaseException:
            with suppress(RedisUnavailable):  # the next replacement or sweep deletes the leftovers then
                self._delete_staged(staged)
            raise

    def _begin(self) -> SetGeneration:
        self._client.call("ZADD", SETS_TO_SWEEP, self._now(), self._keys.name)
        step = 1 + secrets.randbits(GENERATION_STEP_BITS)
        gen = self._client.run(
            _BEGIN, [self._keys.metadata, self._keys.staging], [self._generation.hash_seed, self._now(), step]
        )
        if gen is None:
            raise UploadAborted
        return replace(self._generation, number=gen)

    def _fill(self, staged: SetGeneration, values: Iterable[str]) -> tuple[int, int]:
        """Write all values.

        Return the number of distinct values, and the sum of their hashes for the digest.
        """
        count = given = total = 0

        def counted() -> Iterator[list[str]]:
            nonlocal given, total
            for part in chunks(values, VALUES_PER_ENCODE):
                given += len(part)
                total += set_digest.hash_sum(part)
                yield part

        rest = counted()
        while batches := _encode_next(rest):
            if not self._client.run(_HEARTBEAT, [self._keys.staging], [staged.number, self._now()]):
                raise UploadAborted
            replies = self._client.stream(staged.nonempty_bitmap, self._commands(staged, batches))
            _reply_of_bitmap, *new_values_by_part = replies
            count += sum(map(sum, new_values_by_part))
        if count < given:  # repeated values are in the sum several times
            total = self._hash_sum_of_filled(staged)
        return count, total

    def _hash_sum_of_filled(self, staged: SetGeneration) -> int:
        numbers = np.flatnonzero(self._bitmap).tolist()
        return sum(set_digest.hash_sum(values) for values in staged.read_buckets(self._client, numbers))

    def _commands(self, staged: SetGeneration, batches: list[EncodedValues]) -> Iterator[EncodedCommands]:
        """Yield the command that writes the bitmap, then the commands that write the values."""
        hashes = [batch.hashes(staged.hash_seed) for batch in batches]
        for batch_hashes in hashes:
            self._bitmap[staged.bucket_numbers(batch_hashes)] = True
        yield encode_commands([("SET", staged.nonempty_bitmap, np.packbits(self._bitmap).tobytes())])
        for batch, batch_hashes in zip(batches, hashes, strict=True):
            yield from bucket_filling.commands(staged, batch.encoded, batch_hashes)

    def _activate(self, staged: SetGeneration, count: int, total: int) -> SetWriteResult:
        keys = self._keys
        reply = self._client.run(
            _ACTIVATE,
            [keys.metadata, keys.staging, keys.log],
            [staged.number, count, new_stamp(), set_digest.pack(total)],
        )
        if reply is None:
            raise UploadAborted
        version, old = reply
        try:
            _delete_generation(self._client, keys, keys.dead_generation(int(old)))
        except RedisUnavailable:
            log.warning(
                "the old values of a replaced set could not be deleted; the next sweep deletes them", set=keys.tag
            )
        return SetWriteResult(count, version, count)

    def _delete_staged(self, staged: SetGeneration) -> None:
        """Delete the buckets that were filled.

        Another process may have marked the generation as dead and deleted its buckets. Buckets that were written after
        that still exist, so this call deletes them too.
        """
        if self._client.run(_MARK_DEAD, [self._keys.metadata, self._keys.staging], [staged.number, self._now()]):
            _delete_buckets(self._client, self._keys, staged, np.flatnonzero(self._bitmap).tolist())

    def _now(self) -> int:
        return int(self._clock()) + 1  # never 0, which marks a dead generation


def drop(client: Client, keys: SetKeys, now: float) -> None:
    """Remove a set, and abort its replacements that are in progress.

    Args:
        now: Seconds since the epoch.
    """
    began = int(now)
    client.call("ZADD", SETS_TO_SWEEP, began, keys.name)
    client.run(_DROP, [keys.metadata, keys.log, keys.staging], [])
    sweep(client, keys, now + ABANDONED_AFTER_S)  # all generations, because no heartbeat is later
    _remove_swept(client, keys, began)


def sweep_all(client: Client, before: float) -> None:
    """Sweep every set whose last replacement or drop began before a time.

    The time is in seconds since the epoch.
    """
    names_and_times = iter(client.call("ZRANGE", SETS_TO_SWEEP, "-inf", int(before), "BYSCORE", "WITHSCORES"))
    for name, began in zip(names_and_times, names_and_times, strict=True):
        keys = SetKeys(name.decode())
        sweep(client, keys, before)
        _remove_swept(client, keys, began)


def _remove_swept(client: Client, keys: SetKeys, began: Argument) -> None:
    """Remove a set from the list of the sets to sweep.

    The set stays in the list when it has leftovers or another replacement has begun.
    """
    if not client.call("EXISTS", keys.staging):
        client.run(_REMOVE_SWEPT, [SETS_TO_SWEEP], [keys.name, began])


def sweep(client: Client, keys: SetKeys, before: float) -> None:
    """Delete generations that are not current and whose last heartbeat was before a time.

    Args:
        client: The client of the server.
        keys: The keys of the set.
        before: The time, in seconds since the epoch.
    """
    for gen in client.call("HKEYS", keys.staging):
        if client.run(_MARK_DEAD, [keys.metadata, keys.staging], [gen, int(before)]):
            _delete_generation(client, keys, keys.dead_generation(int(gen)))


def _delete_generation(client: Client, keys: SetKeys, dead: SetGeneration) -> None:
    """Delete the buckets in the bitmap of a generation, the bitmap, and the entry in `staging`."""
    bitmap = client.call("GET", dead.nonempty_bitmap) or b""
    _delete_buckets(client, keys, dead, dead.nonempty(bitmap, 0))


def _delete_buckets(client: Client, keys: SetKeys, dead: SetGeneration, numbers: Iterable[int]) -> None:
    """Delete these buckets, the bitmap of the generation, and its entry in `staging`.

    The buckets are deleted by several commands, each of which blocks the server for a few ms.
    """
    for chunk in chunks(numbers, KEYS_PER_UNLINK):
        client.call("UNLINK", *dead.bucket_keys(chunk))
    client.pipeline([("UNLINK", dead.nonempty_bitmap), ("HDEL", keys.staging, dead.number)])


def _encode_next(parts: Iterator[list[str]]) -> list[EncodedValues]:
    """Encode the next VALUES_PER_FILL values. The result has one item per length.

    Args:
        parts: The values, in parts of VALUES_PER_ENCODE.
    """
    arrays_by_length: defaultdict[int, list[Uint8Array]] = defaultdict(list)
    for values in islice(parts, VALUES_PER_FILL // VALUES_PER_ENCODE):
        for batch in encode(values):
            arrays_by_length[batch.encoded.shape[1]].append(batch.encoded)
    return [EncodedValues.of(np.concatenate(arrays)) for arrays in arrays_by_length.values()]
