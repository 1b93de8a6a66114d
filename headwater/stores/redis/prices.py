"""Prices in Valkey or Redis.

All keys of a partition share one hash tag, so that one script can write several.

{px:P}:who       hash    ownership: `owner` is the worker that writes partition P, and `end` is the position that the
                         states reach: the id of the ticks topic, a colon, and the offset
{px:P}:t:TOKEN   string  the state of a token
{px:P}:n:TOKEN   string  the tail of the token; state and tail expire 30 days after the last write to either
{px:P}:unsettled set     the keys of quoted ticks of which some are unsettled
{px:P}:h:HOUR    hash    archived ticks of an hour: the digest of a token → its ticks of the hour; digest and minute
                         (0 to 59) → its ticks of that minute. Expires when no reader needs it any more
{px}:chains      set     the chains of ticks
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TypeVar

from headwater.model.price.archive import WHOLE_HOUR, ArchiveKey, TimeBucket
from headwater.model.price.band import HOUR_MS
from headwater.model.price.tick import partition_of, quoted_key
from headwater.stores.protocols.prices import PriceWrite, StoredToken
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument, Command

TTL_S = 30 * 86_400
ARCHIVE_TTL_S = 27 * 3600
"""How long archived ticks are kept from the start of their hour.

Readers read the hour of 24 h ago, and the clocks of the machines differ.
"""
ENTRIES_PER_SCRIPT, BYTES_PER_SCRIPT = 500, 4 << 20
"""The most entries and bytes that one script writes, so that it blocks the server for a few ms only."""
_K = TypeVar("_K")
_CHAINS = "{px}:chains"
_ACQUIRE, _WRITE = Script.load("acquire_price_partition"), Script.load("write_prices")


class RedisPrices:
    """PriceStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last_positions: dict[int, tuple[str, str]] = {}

    def acquire_partitions(self, owner: str, topic_id: str, partitions: Collection[int]) -> Mapping[int, int]:
        """See PriceStore."""
        found = {p: (self._client.run(_ACQUIRE, [_ownership_key(p)], [owner]) or b"").decode() for p in partitions}
        self._last_positions.update({p: (topic_id, end) for p, end in found.items()})
        ends = {p: end.rpartition(":") for p, end in found.items() if end}
        return {p: int(offset) for p, (of, _, offset) in ends.items() if of == topic_id}

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """See PriceStore."""
        return _pairs(self._client.call(*_get(partition, tokens))) if tokens else []

    def read_archived(self, archive_keys: Sequence[ArchiveKey]) -> list[bytes | None]:
        """See PriceStore."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, (token, bucket) in enumerate(archive_keys):
            rows[_archive_key(partition_of(token), bucket.hour)].append(row)
        found: list[bytes | None] = [None] * len(archive_keys)
        commands = [
            [("HMGET", key, *(_archive_field(*archive_keys[row]) for row in some))] for key, some in rows.items()
        ]
        for some, [ticks] in zip(rows.values(), self._client.pipelines(commands), strict=True):
            for row, one in zip(some, ticks, strict=True):
                found[row] = one
        return found

    def write(self, partition: int, owner: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        """See PriceStore."""
        topic_id, before = self._last_positions[partition]
        after = f"{topic_id}:{written.end}"
        tails = [*_chunks(written.tails.items())]
        scripts: list[tuple[list[Argument], list[Argument]]] = [
            *(self._archive_arguments(partition, some) for some in _chunks(written.archived.items())),
            *_unsettled_arguments(written.unsettled, settled=False),
            *(self._state_arguments(partition, some, []) for some in _chunks(written.states.items())),
            *(self._state_arguments(partition, [], some) for some in tails),
            *_unsettled_arguments(written.settled, settled=True),
            ([], [0, 0, 0, 0]),
        ]
        sizes: list[int] = []
        for number, (keys, args) in enumerate(scripts, 1):
            end = after if number == len(scripts) else ""
            grown = self._client.run(
                _WRITE,
                [_ownership_key(partition), _unsettled_key(partition), *keys],
                [owner, before, end, TTL_S, *args],
            )
            if grown is None:
                return None
            sizes += grown
        self._last_positions[partition] = topic_id, after
        return dict(zip(written.tails, sizes, strict=True))

    @staticmethod
    def _state_arguments(
        partition: int, states: Sequence[tuple[bytes, bytes]], tails: Sequence[tuple[bytes, bytes]]
    ) -> tuple[list[Argument], list[Argument]]:
        some = [*states, *tails]
        return _keys(partition, [token for token, _ in some]), [
            len(states),
            len(tails),
            0,
            0,
            *(data for _, data in some),
        ]

    @staticmethod
    def _archive_arguments(
        partition: int, some: Sequence[tuple[ArchiveKey, bytes]]
    ) -> tuple[list[Argument], list[Argument]]:
        args: list[Argument] = [0, 0, 0, 0]
        for (token, bucket), ticks in some:
            args += (_archive_field(token, bucket), ticks, bucket.hour // 1000 + ARCHIVE_TTL_S)
        return [_archive_key(partition, bucket.hour) for (_, bucket), _ in some], args

    def unsettled(self, partition: int) -> Collection[bytes]:
        """See PriceStore."""
        return frozenset(self._client.call("SMEMBERS", _unsettled_key(partition)))

    def add_chains(self, chains: Collection[str]) -> None:
        """See PriceStore."""
        self._client.call("SADD", _CHAINS, *chains)

    def chains(self) -> Collection[str]:
        """See PriceStore."""
        return frozenset(chain.decode() for chain in self._client.call("SMEMBERS", _CHAINS))

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[StoredToken]:
        """See PriceStore.

        The states are read before the archived ticks, so a tick that is archived in between is in at least one of them.
        """
        rows: defaultdict[int, list[int]] = defaultdict(list)
        for row, token in enumerate(tokens):
            rows[partition_of(token)].append(row)
        bucket = TimeBucket(hour)
        commands: list[list[Command]] = [
            [
                _get(partition, [key for row in some for key in (tokens[row], quoted_key(tokens[row]))]),
                ("HMGET", _archive_key(partition, hour), *[_archive_field(tokens[row], bucket) for row in some]),
            ]
            for partition, some in rows.items()
        ]
        found = [StoredToken()] * len(tokens)
        for some, (data, hours) in zip(rows.values(), self._client.pipelines(commands), strict=True):
            of_tokens = zip(data[::4], data[1::4], hours, data[2::4], data[3::4], strict=True)
            for row, of_token in zip(some, of_tokens, strict=True):
                found[row] = StoredToken(*of_token)
        return found


def _chunks(entries: Iterable[tuple[_K, bytes]]) -> Iterator[list[tuple[_K, bytes]]]:
    """Yield the entries in chunks that one script writes."""
    part: list[tuple[_K, bytes]] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += len(entry[1])
        if len(part) == ENTRIES_PER_SCRIPT or size >= BYTES_PER_SCRIPT:
            yield part
            part, size = [], 0
    if part:
        yield part


def _unsettled_arguments(keys: Collection[bytes], *, settled: bool) -> Iterator[tuple[list[Argument], list[Argument]]]:
    """Yield keys and arguments of scripts that update the unsettled keys.

    The scripts add keys, or remove them when they are settled.
    """
    rest = iter(keys)
    while some := [*islice(rest, ENTRIES_PER_SCRIPT)]:
        counts = (0, len(some)) if settled else (len(some), 0)
        yield [], [0, 0, *counts, *some]


def _unsettled_key(partition: int) -> str:
    return f"{{px:{partition}}}:unsettled"


def _ownership_key(partition: int) -> str:
    return f"{{px:{partition}}}:who"


def _keys(partition: int, tokens: Iterable[bytes]) -> list[Argument]:
    """Return the keys of the state and the tail of each token."""
    state, tail = b"{px:%d}:t:" % partition, b"{px:%d}:n:" % partition
    return [key for token in tokens for key in (state + token, tail + token)]


def _get(partition: int, tokens: Sequence[bytes]) -> Command:
    """Return the command that reads states and tails.

    A single command reads both atomically, while a write moves ticks from a tail to its state.
    """
    return ("MGET", *_keys(partition, tokens))


def _pairs(data: Sequence[bytes | None]) -> list[tuple[bytes | None, bytes | None]]:
    return [*zip(data[::2], data[1::2], strict=True)]


def _archive_field(token: bytes, bucket: TimeBucket) -> bytes:
    """Return the hash field of archived ticks.

    It is a short digest, because an active token has one in every hour.
    """
    digest = blake2b(token, digest_size=12).digest()
    return digest if bucket.minute == WHOLE_HOUR else digest + bytes([bucket.minute])


def _archive_key(partition: int, hour: int) -> str:
    return f"{{px:{partition}}}:h:{hour // HOUR_MS}"
