"""Reads all of Headwater's data out of a Valkey or Redis, and writes it into another one.

Sets travel as their values, so any server takes them. All else travels as the server's own DUMP of a key, which a
server of the same version or a newer one takes.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import redis

from headwater.errors import SetStoreUnavailable, SetupError
from headwater.model.dataset import SetId
from headwater.stores.redis.client import Client
from headwater.stores.redis.sets.layout import Keys
from headwater.stores.redis.sets.set_store import RedisSetStore

VALUES_PER_ENTRY: Final = 10_000
KEYS_PER_TURN: Final = 500
TRIES: Final = 20
_SETS: Final = ("fs", "ds")
_PLAIN: Final = ("{px*", "{dm:*", "{dn:*", "{headwater}:*")
"""Price states, metrics, names of datasets, and the notes of unfinished writes. Rate limits are not kept."""

Entry = dict[str, Any]
"""One line of a dump: values of a set (`set`, `values`), or a key (`key`, `dump`, `ttl_ms`)."""


def dump(client: Client) -> Iterator[Entry]:
    """All data, in parts of bounded size. The server may be in use.

    Each set is whole: all values that were in it during the whole reading, and never a mix of two replaces. The
    position that price states reach is read before the states: what they hold beyond it is counted once all the same.
    """
    for kind in _SETS:
        for target in sorted(_sets(client, kind), key=lambda one: one.id):
            yield from _values(client, target)
    for pattern in _PLAIN:
        keys = sorted(set(client.scan(pattern)), key=lambda key: (not key.endswith(b":who"), key))
        yield from _dumped(client, keys)


def _sets(client: Client, kind: str) -> set[SetId]:
    prefix, suffix = f"{{{kind}:".encode(), b"}:m"
    found = client.scan(f"{{{kind}:*}}:m")
    return {SetId(kind, key.removeprefix(prefix).removesuffix(suffix).decode()) for key in found}  # type: ignore[arg-type]  # one of _SETS


def _values(client: Client, target: SetId) -> Iterator[Entry]:
    """The values of a set, after an entry that begins it anew when another replace came between."""
    store = RedisSetStore(client)
    for _ in range(TRIES):
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
        if (before and before.gen) == (after and after.gen):
            return
    raise SetStoreUnavailable(f"The set {target.id} is replaced all the time. Make the backup when that has ended.")


def _dumped(client: Client, keys: Iterable[bytes]) -> Iterator[Entry]:
    todo = iter(keys)
    while some := list(islice(todo, KEYS_PER_TURN)):
        answers = client.pipelines([[("DUMP", key), ("PTTL", key)] for key in some])
        for key, (content, ttl_ms) in zip(some, answers, strict=True):
            if content is not None and ttl_ms != 0:
                yield {"key": _text(key), "dump": _text(content), "ttl_ms": max(0, ttl_ms)}


def is_empty(client: Client) -> bool:
    """Whether the server holds nothing of Headwater's."""
    return next(_all_keys(client), None) is None


def clear(client: Client) -> None:
    """Remove all of Headwater's data from a server; what others keep there stays."""
    todo = _all_keys(client)
    while some := list(islice(todo, KEYS_PER_TURN)):
        client.pipelines([[("UNLINK", key)] for key in some])


def _all_keys(client: Client) -> Iterator[bytes]:
    for pattern in (*(f"{{{kind}:*" for kind in _SETS), *_PLAIN, "{rl:*"):
        yield from client.scan(pattern)


@dataclass(slots=True)
class Loaded:
    """What was written: sets, values of sets, other keys, and keys of a newer server that this one can't read."""

    sets: int = 0
    values: int = 0
    keys: int = 0
    unreadable: int = 0


def load(client: Client, entries: Iterable[Entry]) -> Loaded:
    """Write a dump into a server that holds nothing of Headwater's. Raises SetStoreUnavailable."""
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
            raise SetupError(f"The set store refuses a key of the backup ({error}).") from error
        loaded.unreadable += 1
    else:
        loaded.keys += 1


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
