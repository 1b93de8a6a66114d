"""Backs up Headwater's data in Valkey or Redis, and restores it into another server.

Sets are dumped as their values, which any server accepts. All other keys are dumped with DUMP, whose result only a
server of the same or a newer version can restore.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import redis

from headwater.errors import RedisUnavailable, SetupError
from headwater.model.value_sets import DATASET, FILTER_SET, SetId
from headwater.stores.redis import reservations, tail_slots
from headwater.stores.redis.chunks import chunks
from headwater.stores.redis.client import Client
from headwater.stores.redis.sets import pending_sets
from headwater.stores.redis.sets.layout import SetKeys
from headwater.stores.redis.sets.set_store import RedisSetStore

VALUES_PER_ENTRY: Final = 10_000
KEYS_PER_ROUND_TRIP: Final = 500
MAX_ATTEMPTS: Final = 20
_SET_KINDS: Final = (FILTER_SET, DATASET)
_PRICE_KEYS: Final = ("{px:*}:who", "{px:*}:unsettled", "{px:*}:n:*", "{px:*}:t:*", "{px:*}:h:*", "{px}:*")
"""Patterns of the keys of prices (see stores/redis/prices.py), in the order in which they are dumped.

The offset up to which ticks of a partition are written is dumped first, so all further keys may contain ticks beyond
it. After a restore these ticks are folded again, and a tick that is folded twice counts once. A tick moves from a tail
to a state, and from there to an archive; a key leaves the unsettled ones when its ticks are settled. In this order, no
tick and no unsettled key is missed that moves during the dump.
"""
_OTHER_KEYS: Final = (*_PRICE_KEYS, "{dm:*", "{dn:*", "{headwater}:*")
"""Patterns of the keys of prices, metrics and redrives, dataset names, and the list of the sets to sweep."""
_NOT_DUMPED: Final = ("{rl:*", reservations.KEY, tail_slots.KEY)
"""Patterns of the keys of rate limits, quota reservations and live tails, which belong to requests in progress."""

Entry = dict[str, Any]
"""One line of a dump.

There are three kinds of entries:

- The beginning of a set, with the members `set` (kind and id) and `begin`.
- Values of a set, with the members `set` and `values`.
- Another key, with the members `key` and `dump` (both in base64) and `ttl_ms` (0 for a key that does not expire).
"""


def dump(client: Client) -> Iterator[Entry]:
    """Yield all data, a set in entries of bounded size. The server may be in use.

    The dump of a set contains each value that is a member during the whole read, and never mixes the values of two
    replacements. The list of pending sets is read before the sets, so that it contains a set whose configuration is
    saved meanwhile; the cleanup keeps saved sets.
    """
    yield from _dump_keys(client, [pending_sets.KEY.encode()])
    for kind in _SET_KINDS:
        for set_id in sorted(_sets(client, kind), key=lambda set_id: set_id.id):
            yield from _dump_set(client, set_id)
    for pattern in _OTHER_KEYS:
        yield from _dump_keys(client, sorted(set(client.scan(pattern))))


def _sets(client: Client, kind: str) -> set[SetId]:
    prefix, suffix = f"{{{kind}:".encode(), b"}:m"
    keys = client.scan(f"{{{kind}:*}}:m")
    return {SetId(kind, key.removeprefix(prefix).removesuffix(suffix).decode()) for key in keys}  # type: ignore[arg-type]  # one of _SET_KINDS


def _dump_set(client: Client, set_id: SetId) -> Iterator[Entry]:
    """Yield an entry that begins the set, and then its values.

    When the set is replaced meanwhile, all its entries are yielded again. The entry that begins the set lets `load`
    remove the values of the entries that were yielded before.
    """
    store = RedisSetStore(client)
    for _ in range(MAX_ATTEMPTS):
        before = SetKeys.of(set_id).read_generation(client)
        yield {"set": [set_id.kind, set_id.id], "begin": True}
        cursor: int | None = None
        while True:
            page = store.page(set_id, cursor, VALUES_PER_ENTRY)
            if page.values:
                yield {"set": [set_id.kind, set_id.id], "values": page.values}
            cursor = page.cursor
            if cursor is None:
                break
        after = SetKeys.of(set_id).read_generation(client)
        if (before and before.number) == (after and after.number):
            return
    raise RedisUnavailable(
        f"The set {set_id.id} was replaced during each of {MAX_ATTEMPTS} attempts to read it. "
        "Repeat the backup when it is replaced less often."
    )


def _dump_keys(client: Client, keys: Iterable[bytes]) -> Iterator[Entry]:
    for chunk in chunks(keys, KEYS_PER_ROUND_TRIP):
        replies = client.pipelines([[("DUMP", key), ("PTTL", key)] for key in chunk])
        for key, (content, ttl_ms) in zip(chunk, replies, strict=True):
            if content is not None and ttl_ms != 0:
                yield {"key": _text(key), "dump": _text(content), "ttl_ms": max(0, ttl_ms)}


def is_empty(client: Client) -> bool:
    """Return whether the server has no data of Headwater."""
    return next(_all_keys(client), None) is None


def clear(client: Client) -> None:
    """Remove all data of Headwater from a server. Other keys are kept."""
    for chunk in chunks(_all_keys(client), KEYS_PER_ROUND_TRIP):
        client.pipelines([[("UNLINK", key)] for key in chunk])


def _all_keys(client: Client) -> Iterator[bytes]:
    for pattern in (*(f"{{{kind}:*" for kind in _SET_KINDS), *_OTHER_KEYS, pending_sets.KEY, *_NOT_DUMPED):
        yield from client.scan(pattern)


@dataclass(slots=True)
class RestoreCounts:
    """How much was restored.

    Attributes:
        begun_sets: The number of entries that begin a set. A set that was replaced during the dump begins again.
        keys: The number of other keys.
        unreadable: The number of keys that were not restored, because they are from a newer version of the server.
    """

    begun_sets: int = 0
    keys: int = 0
    unreadable: int = 0


def load(client: Client, entries: Iterable[Entry]) -> RestoreCounts:
    """Restore a dump into a server that has no data of Headwater.

    Raises RedisUnavailable and SetupError.
    """
    loaded, store = RestoreCounts(), RedisSetStore(client)
    for entry in entries:
        if "key" in entry:
            _restore(client, entry, loaded)
            continue
        set_id = SetId(*entry["set"])
        if entry.get("begin"):
            store.replace(set_id, [])
            loaded.begun_sets += 1
        else:
            for values in chunks(entry["values"], VALUES_PER_ENTRY):
                store.add(set_id, values)
    return loaded


def _restore(client: Client, entry: Entry, loaded: RestoreCounts) -> None:
    try:
        client.call("RESTORE", _bytes(entry["key"]), entry["ttl_ms"], _bytes(entry["dump"]), "REPLACE")
    except redis.ResponseError as error:
        if "DUMP payload" not in str(error):
            raise SetupError(f"Valkey or Redis rejected a key of the backup ({error}).") from error
        loaded.unreadable += 1
    else:
        loaded.keys += 1


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
