"""Price states in Valkey or Redis. All keys of a partition share one hash tag, so that a script can write them.

{px:P}:who       hash    `owner`, and `end`: the position on the ticks topic that the states reach
{px:P}:t:TOKEN   string  the state of a token; expires 30 days after it was written last
{px:P}:h:HOUR    hash    token → its ticks of an hour, which have left the state; expires when nobody can ask for it
{px}:chains      set     the chains of ticks
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from headwater.model.price.tick import partition_of
from headwater.stores.base import PriceWrite
from headwater.stores.redis.client import Client, Command, Script, Word

STATE_TTL_S = 30 * 86_400
HOUR_TTL_S = 27 * 3600
"""From the start of the hour: readers ask for the hour of 24 h ago; clocks differ."""
PER_SCRIPT = 500
"""Entries that one script writes: some ms of the server's time."""
_CHAINS = "{px}:chains"
_TAKE, _WRITE = Script.load("take_prices"), Script.load("write_prices")


class RedisPrices:
    """PriceStore on one server, replica group or cluster. Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def take(self, owner: str, partitions: Collection[int]) -> Mapping[int, int]:
        """See PriceStore."""
        ends = {p: self._client.run(_TAKE, [_who(p)], [owner]) for p in partitions}
        return {p: int(end) for p, end in ends.items() if end is not None}

    def read(self, partition: int, tokens: Sequence[bytes]) -> list[bytes | None]:
        """See PriceStore."""
        found: list[bytes | None] = self._client.call("MGET", *(_state(partition, t) for t in tokens)) if tokens else []
        return found

    def read_hours(self, partition: int, hours: Sequence[tuple[int, bytes]]) -> list[bytes | None]:
        """See PriceStore."""
        commands = [("HGET", _hour(partition, hour), token) for hour, token in hours]
        return self._client.pipeline(commands) if commands else []

    def write(self, partition: int, owner: str, written: PriceWrite) -> bool:
        """See PriceStore."""
        states, hours = iter(written.states.items()), iter(written.hours.items())
        while some := [*islice(states, PER_SCRIPT)]:
            if not self._write(partition, owner, some, ()):
                return False
        while ticks := [*islice(hours, PER_SCRIPT)]:
            if not self._write(partition, owner, (), ticks):
                return False
        return self._write(partition, owner, (), (), str(written.end))

    def _write(
        self,
        partition: int,
        owner: str,
        states: Sequence[tuple[bytes, bytes]],
        hours: Sequence[tuple[tuple[int, bytes], bytes]],
        end: str = "",
    ) -> bool:
        keys: list[Word] = [_who(partition), *(_state(partition, token) for token, _ in states)]
        keys += [_hour(partition, hour) for (hour, _), _ in hours]
        args: list[Word] = [owner, end, STATE_TTL_S, len(states), *(state for _, state in states)]
        for (hour, token), ticks in hours:
            args += (token, ticks, hour // 1000 + HOUR_TTL_S)
        return bool(self._client.run(_WRITE, keys, args))

    def note_chains(self, chains: Collection[str]) -> None:
        """See PriceStore."""
        self._client.call("SADD", _CHAINS, *chains)

    def chains(self) -> Collection[str]:
        """See PriceStore."""
        return frozenset(chain.decode() for chain in self._client.call("SMEMBERS", _CHAINS))

    def look_up(self, tokens: Sequence[bytes], hour: int) -> list[tuple[bytes | None, bytes | None]]:
        """See PriceStore. The states first: what leaves one is in its hour by then."""
        rows: defaultdict[int, list[int]] = defaultdict(list)
        for row, token in enumerate(tokens):
            rows[partition_of(token)].append(row)
        commands: list[list[Command]] = [
            [
                ("MGET", *(_state(partition, tokens[row]) for row in some)),
                ("HMGET", _hour(partition, hour), *(tokens[row] for row in some)),
            ]
            for partition, some in rows.items()
        ]
        found: list[tuple[bytes | None, bytes | None]] = [(None, None)] * len(tokens)
        for some, (states, hours) in zip(rows.values(), self._client.pipelines(commands), strict=True):
            for row, state, ticks in zip(some, states, hours, strict=True):
                found[row] = state, ticks
        return found


def _who(partition: int) -> str:
    return f"{{px:{partition}}}:who"


def _state(partition: int, token: bytes) -> bytes:
    return b"{px:%d}:t:%b" % (partition, token)


def _hour(partition: int, hour: int) -> str:
    return f"{{px:{partition}}}:h:{hour // 3_600_000}"
