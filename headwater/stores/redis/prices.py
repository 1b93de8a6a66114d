"""Prices in Valkey or Redis.

All keys of a partition share one hash tag, so that one script can write several.

{px:P}:who       hash    ownership: `owner` is the worker that writes partition P, and `end` is the position up to which
                         ticks are written: the id of the ticks topic, a colon, and the offset
{px:P}:t:TOKEN   string  the state of a token
{px:P}:n:TOKEN   string  the tail of the token; state and tail expire 30 days after the last write to either
{px:P}:unsettled set     the keys that have unsettled quoted ticks
{px:P}:h:HOUR    hash    archived ticks of an hour: digest of a token → the token's ticks of the hour; digest and minute
                         (0 to 59) → the token's ticks of that minute. A tick is in the field of its minute if the
                         token's state divides this hour into minutes, otherwise in the field of the hour; after an
                         interrupted write it may be in both. The hash expires when no reader needs it any more
{px}:chains      set     the chains of ticks
{px}:l:PERIOD    zset    the tokens with ticks in a period, all with the score 0, so that they are sorted by name;
                         expires at the end of the next period
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

from headwater.model.price.archive import WHOLE_HOUR, ArchiveKey, TimeBucket
from headwater.model.price.band import HOUR_MS
from headwater.model.price.tick import key_of_quoted_ticks, partition_of
from headwater.stores.protocols.prices import LIST_PERIOD_S, PriceWrite, StoredToken
from headwater.stores.redis.chunks import chunks
from headwater.stores.redis.client import Client, Script
from headwater.stores.redis.connection import Argument, Command

TTL_S = 30 * 86_400
ARCHIVE_TTL_S = 27 * 3600
"""How long archived ticks are kept from the start of their hour.

Readers read the hour of 24 h ago, and the clocks of the machines differ.
"""
ENTRIES_PER_SCRIPT, BYTES_PER_SCRIPT = 500, 4 << 20
"""The most entries and bytes that one script writes, so that it blocks the server for a few ms only."""
_ABOVE_UTF_8 = b"\xff"
"""A byte that is greater than all bytes of a token."""
_K = TypeVar("_K")
_CHAINS = "{px}:chains"
_ACQUIRE, _WRITE = Script.load("acquire_price_partition"), Script.load("write_prices")


class RedisPrices:
    """PriceStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last_positions: dict[int, tuple[str, str]] = {}

    def acquire_partitions(self, writer: str, topic_id: str, partitions: Collection[int]) -> Mapping[int, int]:
        """See PriceStore."""
        replies = {p: self._client.run(_ACQUIRE, [_ownership_key(p)], [writer]) for p in partitions}
        positions = {p: (position or b"").decode() for p, position in replies.items()}
        self._last_positions.update({p: (topic_id, position) for p, position in positions.items()})
        parts = {p: position.rpartition(":") for p, position in positions.items() if position}
        return {p: int(offset) for p, (stored_topic_id, _, offset) in parts.items() if stored_topic_id == topic_id}

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """See PriceStore."""
        if not tokens:
            return []
        data = self._client.call(*_get(partition, tokens))
        return [*zip(data[::2], data[1::2], strict=True)]

    def read_archived(self, archive_keys: Sequence[ArchiveKey]) -> list[bytes | None]:
        """See PriceStore."""
        rows_by_key: defaultdict[str, list[int]] = defaultdict(list)
        for row, (token, bucket) in enumerate(archive_keys):
            rows_by_key[_archive_key(partition_of(token), bucket.hour)].append(row)
        commands = [
            [("HMGET", key, *(_archive_field(*archive_keys[row]) for row in rows))] for key, rows in rows_by_key.items()
        ]
        archived: list[bytes | None] = [None] * len(archive_keys)
        for rows, [values] in zip(rows_by_key.values(), self._client.pipelines(commands), strict=True):
            for row, ticks in zip(rows, values, strict=True):
                archived[row] = ticks
        return archived

    def write(self, partition: int, writer: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        """See PriceStore."""
        topic_id, before = self._last_positions[partition]
        after = f"{topic_id}:{written.end}"
        runs = [
            *(_ScriptRun(archived=chunk) for chunk in _data_chunks(written.archived.items())),
            *(_ScriptRun(unsettled=chunk) for chunk in chunks(written.unsettled, ENTRIES_PER_SCRIPT)),
            *(_ScriptRun(states=chunk) for chunk in _data_chunks(written.states.items())),
            *(_ScriptRun(tails=chunk) for chunk in _data_chunks(written.tails.items())),
            *(_ScriptRun(settled=chunk) for chunk in chunks(written.settled, ENTRIES_PER_SCRIPT)),
        ]
        last_run = _ScriptRun()  # writes the new position only
        tail_sizes: list[int] = []
        for run in (*runs, last_run):
            keys: list[Argument] = [_ownership_key(partition), _unsettled_key(partition), *run.keys(partition)]
            args: list[Argument] = [writer, before, after if run is last_run else "", TTL_S, *run.args()]
            sizes = self._client.run(_WRITE, keys, args)
            if sizes is None:
                return None
            tail_sizes += sizes
        self._last_positions[partition] = topic_id, after
        return dict(zip(written.tails, tail_sizes, strict=True))

    def unsettled(self, partition: int) -> Collection[bytes]:
        """See PriceStore."""
        return frozenset(self._client.call("SMEMBERS", _unsettled_key(partition)))

    def add_chains(self, chains: Collection[str]) -> None:
        """See PriceStore."""
        self._client.call("SADD", _CHAINS, *chains)

    def chains(self) -> Collection[str]:
        """See PriceStore."""
        return frozenset(chain.decode() for chain in self._client.call("SMEMBERS", _CHAINS))

    def add_tokens(self, tokens: Collection[bytes], period: int) -> None:
        """See PriceStore."""
        key = _list_key(period)
        for chunk in chunks(tokens, ENTRIES_PER_SCRIPT):
            self._client.call("ZADD", key, *(argument for token in chunk for argument in (0, token)))
        self._client.call("EXPIREAT", key, (period + 2) * LIST_PERIOD_S)

    def tokens_after(self, after: bytes, prefix: bytes, count: int, period: int) -> list[bytes]:
        """See PriceStore."""
        first = b"(" + after if after >= prefix else b"[" + prefix
        last = b"(" + prefix + _ABOVE_UTF_8
        commands: list[list[Command]] = [
            [("ZRANGEBYLEX", _list_key(number), first, last, "LIMIT", 0, count)] for number in (period, period - 1)
        ]
        found = {token for [tokens] in self._client.pipelines(commands) for token in tokens}
        return sorted(found)[:count]

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[StoredToken]:
        """See PriceStore.

        The states are read before the archived ticks. So a tick that is archived in between is read at least once.
        """
        rows_by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for row, token in enumerate(tokens):
            rows_by_partition[partition_of(token)].append(row)
        bucket = TimeBucket(hour)
        commands: list[list[Command]] = [
            [
                _get(partition, [key for row in rows for key in (tokens[row], key_of_quoted_ticks(tokens[row]))]),
                ("HMGET", _archive_key(partition, hour), *[_archive_field(tokens[row], bucket) for row in rows]),
            ]
            for partition, rows in rows_by_partition.items()
        ]
        stored = [StoredToken()] * len(tokens)
        for rows, (data, ticks) in zip(rows_by_partition.values(), self._client.pipelines(commands), strict=True):
            fields = zip(data[::4], data[1::4], ticks, data[2::4], data[3::4], strict=True)
            for row, fields_of_token in zip(rows, fields, strict=True):
                stored[row] = StoredToken(*fields_of_token)
        return stored


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _ScriptRun:
    """The entries that one run of the script write_prices writes."""

    states: Sequence[tuple[bytes, bytes]] = ()
    tails: Sequence[tuple[bytes, bytes]] = ()
    unsettled: Sequence[bytes] = ()
    settled: Sequence[bytes] = ()
    archived: Sequence[tuple[ArchiveKey, bytes]] = ()

    def keys(self, partition: int) -> list[Argument]:
        """Return the keys of states and tails, and of archived ticks."""
        archive_keys = [_archive_key(partition, bucket.hour) for (_, bucket), _ in self.archived]
        return [*_keys(partition, [token for token, _ in (*self.states, *self.tails)]), *archive_keys]

    def args(self) -> list[Argument]:
        """Return the arguments from the number of states on."""
        args: list[Argument] = [len(self.states), len(self.tails), len(self.unsettled), len(self.settled)]
        args += [data for _, data in (*self.states, *self.tails)]
        args += [*self.unsettled, *self.settled]
        for (token, bucket), ticks in self.archived:
            args += (_archive_field(token, bucket), ticks, bucket.hour // 1000 + ARCHIVE_TTL_S)
        return args


def _data_chunks(entries: Iterable[tuple[_K, bytes]]) -> Iterator[list[tuple[_K, bytes]]]:
    """Yield the entries in chunks that one script writes."""
    chunk: list[tuple[_K, bytes]] = []
    size = 0
    for entry in entries:
        chunk.append(entry)
        size += len(entry[1])
        if len(chunk) == ENTRIES_PER_SCRIPT or size >= BYTES_PER_SCRIPT:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _list_key(period: int) -> str:
    return f"{{px}}:l:{period}"


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


def _archive_field(token: bytes, bucket: TimeBucket) -> bytes:
    """Return the hash field of archived ticks.

    It is a short digest, because an active token has a field in every hour.
    """
    digest = blake2b(token, digest_size=12).digest()
    return digest if bucket.minute == WHOLE_HOUR else digest + bytes([bucket.minute])


def _archive_key(partition: int, hour: int) -> str:
    return f"{{px:{partition}}}:h:{hour // HOUR_MS}"
