"""Price states in Valkey or Redis. All keys of a partition share one hash tag, so that a script can write them.

{px:P}:who       hash    `owner`, and `end`: the topic's id and the position on it that the states reach, with a colon
{px:P}:t:TOKEN   string  the state of a token
{px:P}:n:TOKEN   string  its tail; both expire 30 days after either was written last
{px:P}:unsettled set     the keys of quoted ticks of which some are unsettled
{px:P}:h:HOUR    hash    digest of a token → its ticks of an hour, which have left the state; with the number of one of
                         its minutes behind it: those of the minute; expires once nobody asks
{px}:chains      set     the chains of ticks
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TypeVar

from headwater.model.price.band import HOUR_MS
from headwater.model.price.left import WHOLE, Chunk, Leaving
from headwater.model.price.tick import partition_of, quoted_key
from headwater.stores.prices import PriceWrite, StoredToken
from headwater.stores.redis.client import Client, Command, Script, Word

TTL_S = 30 * 86_400
HOUR_TTL_S = 27 * 3600
"""From the start of the hour: readers ask for the hour of 24 h ago; clocks differ."""
PER_SCRIPT, BYTES_PER_SCRIPT = 500, 4 << 20
"""Entries that one script writes: some ms of the server's time; and where it ends sooner."""
_K = TypeVar("_K")
_CHAINS = "{px}:chains"
_TAKE, _WRITE = Script.load("take_prices"), Script.load("write_prices")


class RedisPrices:
    """PriceStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._taken: dict[int, tuple[str, str]] = {}

    def acquire_partitions(self, owner: str, topic_id: str, partitions: Collection[int]) -> Mapping[int, int]:
        """See PriceStore."""
        found = {p: (self._client.run(_TAKE, [_who(p)], [owner]) or b"").decode() for p in partitions}
        self._taken.update({p: (topic_id, end) for p, end in found.items()})
        ends = {p: end.rpartition(":") for p, end in found.items() if end}
        return {p: int(offset) for p, (of, _, offset) in ends.items() if of == topic_id}

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """See PriceStore."""
        return _pairs(self._client.call(*_get(partition, tokens))) if tokens else []

    def read_archived(self, leaving: Sequence[Leaving]) -> list[bytes | None]:
        """See PriceStore."""
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, (token, chunk) in enumerate(leaving):
            rows[_hour(partition_of(token), chunk.hour)].append(row)
        found: list[bytes | None] = [None] * len(leaving)
        commands = [[("HMGET", key, *(_field(*leaving[row]) for row in some))] for key, some in rows.items()]
        for some, [ticks] in zip(rows.values(), self._client.pipelines(commands), strict=True):
            for row, one in zip(some, ticks, strict=True):
                found[row] = one
        return found

    def write(self, partition: int, owner: str, written: PriceWrite) -> Mapping[bytes, int] | None:
        """See PriceStore."""
        topic_id, before = self._taken[partition]
        after = f"{topic_id}:{written.end}"
        tails = [*_parts(written.tails.items())]
        scripts: list[tuple[list[Word], list[Word]]] = [
            *(self._left(partition, some) for some in _parts(written.archived.items())),
            *_noted(written.unsettled, settled=False),
            *(self._tokens(partition, some, []) for some in _parts(written.states.items())),
            *(self._tokens(partition, [], some) for some in tails),
            *_noted(written.settled, settled=True),
            ([], [0, 0, 0, 0]),
        ]
        sizes: list[int] = []
        for number, (keys, args) in enumerate(scripts, 1):
            end = after if number == len(scripts) else ""
            grown = self._client.run(
                _WRITE, [_who(partition), _unsettled(partition), *keys], [owner, before, end, TTL_S, *args]
            )
            if grown is None:
                return None
            sizes += grown
        self._taken[partition] = topic_id, after
        return dict(zip(written.tails, sizes, strict=True))

    @staticmethod
    def _tokens(
        partition: int, states: Sequence[tuple[bytes, bytes]], tails: Sequence[tuple[bytes, bytes]]
    ) -> tuple[list[Word], list[Word]]:
        some = [*states, *tails]
        return _keys(partition, [token for token, _ in some]), [
            len(states),
            len(tails),
            0,
            0,
            *(data for _, data in some),
        ]

    @staticmethod
    def _left(partition: int, some: Sequence[tuple[Leaving, bytes]]) -> tuple[list[Word], list[Word]]:
        args: list[Word] = [0, 0, 0, 0]
        for (token, chunk), ticks in some:
            args += (_field(token, chunk), ticks, chunk.hour // 1000 + HOUR_TTL_S)
        return [_hour(partition, chunk.hour) for (_, chunk), _ in some], args

    def unsettled(self, partition: int) -> Collection[bytes]:
        """See PriceStore."""
        return frozenset(self._client.call("SMEMBERS", _unsettled(partition)))

    def note_chains(self, chains: Collection[str]) -> None:
        """See PriceStore."""
        self._client.call("SADD", _CHAINS, *chains)

    def chains(self) -> Collection[str]:
        """See PriceStore."""
        return frozenset(chain.decode() for chain in self._client.call("SMEMBERS", _CHAINS))

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[StoredToken]:
        """See PriceStore. The states first: what leaves one is in its hour by then."""
        rows: defaultdict[int, list[int]] = defaultdict(list)
        for row, token in enumerate(tokens):
            rows[partition_of(token)].append(row)
        chunk = Chunk(hour)
        commands: list[list[Command]] = [
            [
                _get(partition, [key for row in some for key in (tokens[row], quoted_key(tokens[row]))]),
                ("HMGET", _hour(partition, hour), *[_field(tokens[row], chunk) for row in some]),
            ]
            for partition, some in rows.items()
        ]
        found = [StoredToken()] * len(tokens)
        for some, (data, hours) in zip(rows.values(), self._client.pipelines(commands), strict=True):
            of_tokens = zip(data[::4], data[1::4], hours, data[2::4], data[3::4], strict=True)
            for row, of_token in zip(some, of_tokens, strict=True):
                found[row] = StoredToken(*of_token)
        return found


def _parts(entries: Iterable[tuple[_K, bytes]]) -> Iterator[list[tuple[_K, bytes]]]:
    """What one script writes."""
    part: list[tuple[_K, bytes]] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += len(entry[1])
        if len(part) == PER_SCRIPT or size >= BYTES_PER_SCRIPT:
            yield part
            part, size = [], 0
    if part:
        yield part


def _noted(keys: Collection[bytes], *, settled: bool) -> Iterator[tuple[list[Word], list[Word]]]:
    """Scripts that note keys with unsettled ticks, or with none any more."""
    rest = iter(keys)
    while some := [*islice(rest, PER_SCRIPT)]:
        counts = (0, len(some)) if settled else (len(some), 0)
        yield [], [0, 0, *counts, *some]


def _unsettled(partition: int) -> str:
    return f"{{px:{partition}}}:unsettled"


def _who(partition: int) -> str:
    return f"{{px:{partition}}}:who"


def _keys(partition: int, tokens: Iterable[bytes]) -> list[Word]:
    """State and tail of each token."""
    state, tail = b"{px:%d}:t:" % partition, b"{px:%d}:n:" % partition
    return [key for token in tokens for key in (state + token, tail + token)]


def _get(partition: int, tokens: Sequence[bytes]) -> Command:
    """One command, so that no tick is seen on its way from the tail into the state."""
    return ("MGET", *_keys(partition, tokens))


def _pairs(data: Sequence[bytes | None]) -> list[tuple[bytes | None, bytes | None]]:
    return [*zip(data[::2], data[1::2], strict=True)]


def _field(token: bytes, chunk: Chunk) -> bytes:
    """Short: an active token has one in each hour of the day."""
    digest = blake2b(token, digest_size=12).digest()
    return digest if chunk.minute == WHOLE else digest + bytes([chunk.minute])


def _hour(partition: int, hour: int) -> str:
    return f"{{px:{partition}}}:h:{hour // HOUR_MS}"
