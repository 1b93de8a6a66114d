"""Backs up Headwater's data in Valkey or Redis, and restores it into another server.

Sets are dumped as their values, which any server accepts. All other keys are dumped with DUMP, whose result only a
server of the same or a newer version can restore.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import redis

from headwater.errors import RedisUnavailable, SetupError
from headwater.model.value_sets import SetId
from headwater.stores.redis import reservations
from headwater.stores.redis.client import Client
from headwater.stores.redis.sets import unsaved_sets
from headwater.stores.redis.sets.layout import Keys
from headwater.stores.redis.sets.set_store import RedisSetStore

VALUES_PER_ENTRY: Final = 10_000
KEYS_PER_ROUND_TRIP: Final = 500
MAX_ATTEMPTS: Final = 20
_SET_KINDS: Final = ("fs", "ds")
_OTHER_KEYS: Final = ("{px*", "{dm:*", "{dn:*", "{headwater}:*")
"""Patterns of the keys of prices, metrics, names of datasets, and the list of replaced sets."""
_NOT_DUMPED: Final = ("{rl:*", reservations.KEY)
"""Patterns of the keys of rate limits and quota reservations, which belong to requests in progress."""

Entry = dict[str, Any]
"""One line of a dump.

An entry is either part of a set, with the members `set` (kind and id) and `values`, or `begin` where the set begins; or
it is another key, with the members `key` and `dump` (both in base64) and `ttl_ms` (0 for a key that does not expire).
"""


def dump(client: Client) -> Iterator[Entry]:
    """Yield all data in entries of bounded size. The server may be in use.

    The dump of a set contains each value that is a member during the whole read, and never mixes the values of two
    replacements. The positions of prices are read before the states. A state may contain ticks beyond its position;
    after a restore they are folded again, and a tick that is folded twice counts once. The list of unsaved sets is read
    before the sets, so that it contains a set whose configuration is saved meanwhile; the cleanup keeps saved sets.
    """
    yield from _dumped(client, [unsaved_sets.KEY.encode()])
    for kind in _SET_KINDS:
        for target in sorted(_sets(client, kind), key=lambda one: one.id):
            yield from _values(client, target)
    for pattern in _OTHER_KEYS:
        keys = sorted(set(client.scan(pattern)), key=lambda key: (not key.endswith(b":who"), key))
        yield from _dumped(client, keys)


def _sets(client: Client, kind: str) -> set[SetId]:
    prefix, suffix = f"{{{kind}:".encode(), b"}:m"
    found = client.scan(f"{{{kind}:*}}:m")
    return {SetId(kind, key.removeprefix(prefix).removesuffix(suffix).decode()) for key in found}  # type: ignore[arg-type]  # one of _SET_KINDS


def _values(client: Client, target: SetId) -> Iterator[Entry]:
    """Yield the values of a set, after an entry that begins the set.

    When the set is replaced meanwhile, it is yielded again from its beginning, which replaces the values that were
    yielded before.
    """
    store = RedisSetStore(client)
    for _ in range(MAX_ATTEMPTS):
        before = Keys.of(target).read(client)
        yield {"set": [target.kind, target.id], "begin": True}
        cursor: int | None = None
        while True:
            page = store.page(target, cursor, VALUES_PER_ENTRY)
            if page.values:
                yield {"set": [target.kind, target.id], "values": page.values}
            cursor = page.cursor
            if cursor is None:
                break
        after = Keys.of(target).read(client)
        if (before and before.number) == (after and after.number):
            return
    raise RedisUnavailable(
        f"The set {target.id} was replaced during each of {MAX_ATTEMPTS} attempts to read it. "
        "Repeat the backup when it is replaced less often."
    )


def _dumped(client: Client, keys: Iterable[bytes]) -> Iterator[Entry]:
    todo = iter(keys)
    while some := list(islice(todo, KEYS_PER_ROUND_TRIP)):
        answers = client.pipelines([[("DUMP", key), ("PTTL", key)] for key in some])
        for key, (content, ttl_ms) in zip(some, answers, strict=True):
            if content is not None and ttl_ms != 0:
                yield {"key": _text(key), "dump": _text(content), "ttl_ms": max(0, ttl_ms)}


def is_empty(client: Client) -> bool:
    """Return whether the server has no data of Headwater."""
    return next(_all_keys(client), None) is None


def clear(client: Client) -> None:
    """Remove all data of Headwater from a server. Other keys are kept."""
    todo = _all_keys(client)
    while some := list(islice(todo, KEYS_PER_ROUND_TRIP)):
        client.pipelines([[("UNLINK", key)] for key in some])


def _all_keys(client: Client) -> Iterator[bytes]:
    for pattern in (*(f"{{{kind}:*" for kind in _SET_KINDS), *_OTHER_KEYS, unsaved_sets.KEY, *_NOT_DUMPED):
        yield from client.scan(pattern)


@dataclass(slots=True)
class Loaded:
    """How much was restored.

    Attributes:
        sets: The number of sets.
        values: The number of values in all sets.
        keys: The number of other keys.
        unreadable: The number of keys that were not restored, because they are from a newer version of the server.
    """

    sets: int = 0
    values: int = 0
    keys: int = 0
    unreadable: int = 0


def load(client: Client, entries: Iterable[Entry]) -> Loaded:
    """Restore a dump into a server that has no data of Headwater.

    Raises RedisUnavailable and SetupError.
    """
    loaded, store = Loaded(), RedisSetStore(client)
    for entry in entries:
        if "key" in entry:
            _restore(client, entry, loaded)
            continue
        target = SetId(*entry["set"])
        if entry.get("begin"):
            loaded.sets += 1
            store.replace(target, [])
        else:
            for start in range(0, len(entry["values"]), VALUES_PER_ENTRY):
                loaded.values += store.add(target, entry["values"][start : start + VALUES_PER_ENTRY]).changed
    return loaded


def _restore(client: Client, entry: Entry, loaded: Loaded) -> None:
    try:
        client.call("RESTORE", _bytes(entry["key"]), entry["ttl_ms"], _bytes(entry["dump"]), "REPLACE")
    except redis.ResponseError as error:
        if "DUMP payload" not in str(error):
            raise SetupError(f"The set store rejected a key of the backup ({error}).") from error
        loaded.unreadable += 1
    else:
        loaded.keys += 1


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
