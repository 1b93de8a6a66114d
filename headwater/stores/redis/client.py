"""The one way to a Valkey or Redis server or cluster: commands, pipelines, scripts; errors are SetStoreUnavailable.

Nothing is sent twice. A write whose answer is lost may have been done or not; sent again by this client it would be
done once, but its answer would say that nothing changed. So the caller is told, and sends its own request again: the
counts that it then gets are those of that request. Two things are safe and happen here: a pooled connection that the
server closed meanwhile is noticed and replaced before anything is written to it, and a script that the server does not
know (it was restarted) did not run and is sent in full.
"""

import hashlib
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import hiredis
import redis
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import parse_url
from redis.retry import Retry

from headwater.errors import SetStoreUnavailable, SetupError
from headwater.stores.redis.eviction import EvictionGuard

CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 10.0
DEFAULT_PORT = 6379

Word = bytes | str | int
Command = tuple[Any, ...]  # words
Packed = tuple[bytes, int]  # commands as the server reads them, and their number

_AWAY = "The set store (Valkey or Redis) does not answer. Send the same request again."
_SENTENCES = {
    "LOADING": "The set store (Valkey or Redis) is still reading its files. Send the same request again.",
    "READONLY": "The set store (Valkey or Redis) accepts no writes: it is a replica. Wait for the end of its failover.",
    "OOM": "The set store (Valkey or Redis) is out of memory. Remove values, or raise its maxmemory.",
    "MISCONF": "The set store (Valkey or Redis) can't write to its disk and accepts no writes. Free some space.",
    "NOAUTH": "The set store (Valkey or Redis) wants a user and password. Name them in redis_url.",
    "WRONGPASS": "The set store (Valkey or Redis) refuses our user or password. Correct redis_url.",
    "NOPERM": "The set store (Valkey or Redis) denies our user a command or key. Give it all commands and keys.",
    "NOREPLICAS": _AWAY,
    "BUSY": _AWAY,
}
_CLASSES: dict[type[redis.RedisError], str] = {
    redis.BusyLoadingError: "LOADING",
    redis.ReadOnlyError: "READONLY",
    redis.OutOfMemoryError: "OOM",
    redis.AuthenticationError: "WRONGPASS",
    redis.exceptions.NoPermissionError: "NOPERM",
}
_AWAY_CLASSES = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.MasterDownError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
    redis.exceptions.AskError,  # and MovedError
    redis.exceptions.RedisClusterException,
)


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script of this package and its SHA-1, by which servers know it."""

    text: str
    sha: str

    @classmethod
    def load(cls, name: str) -> "Script":
        """Read lua/<name>.lua."""
        text = (Path(__file__).parent / "lua" / f"{name}.lua").read_text()
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def packed(commands: Sequence[Command]) -> Packed:
    """Commands as the server reads them."""
    return b"".join([hiredis.pack_command(command) for command in commands]), len(commands)


class _Lines:
    """Connections between two uses, by their pool. A pool's own way of lending takes as long as a round trip."""

    def __init__(self) -> None:
        self._idle: WeakKeyDictionary[Any, deque[Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @contextmanager
    def one(self, pool: Any) -> Iterator[Any]:
        """A connection that nobody else uses meanwhile."""
        connection, idle = self.take(pool)
        try:
            yield connection
        except BaseException:
            connection.disconnect()  # answers left unread would be taken for those of the next commands
            raise
        finally:
            idle.append(connection)

    def take(self, pool: Any) -> tuple[Any, deque[Any]]:
        """A connection, and where to append it afterwards."""
        with self._lock:
            idle = self._idle.setdefault(pool, deque())
        try:
            connection = idle.pop()
        except IndexError:
            return pool.get_connection(), idle
        _drop_if_dead(connection)
        return connection, idle


def _drop_if_dead(connection: Any) -> None:
    """A connection that the server closed is readable. It connects again when something is sent."""
    try:
        dead = connection.can_read()
    except (redis.ConnectionError, redis.TimeoutError, OSError):
        dead = True
    if dead:
        connection.disconnect()


def _answers(connection: Any, count: int) -> list[Any]:
    """Read the answers to so many commands. Raises the first error among them, once all are read.

    From what the connection's parser has read: its `read_response` adds about half a microsecond to each answer.
    """
    parser = connection._parser
    try:
        answers = [parser.read_response()]
        while len(answers) < count:
            answers += islice(iter(parser._reader.gets, NOT_ENOUGH_DATA), count - len(answers))
            if len(answers) < count:
                answers.append(parser.read_response())
    except OSError as error:
        raise redis.ConnectionError("the connection broke") from error
    if any(issubclass(kind, redis.RedisError) for kind in {*map(type, answers)}):
        raise next(answer for answer in answers if isinstance(answer, redis.RedisError))
    return answers


class Client:
    """A server or replica group. Thread-safe; methods may block for ANSWER_TIMEOUT_S and raise SetStoreUnavailable."""

    def __init__(self, server: redis.Redis) -> None:
        self._server: Any = server  # execute_command has no types
        self._lines = _Lines()
        self._guard = EvictionGuard()

    def call(self, *command: Word) -> Any:
        """Send one command. Its first argument is its key."""
        with _told():
            return self._node(command[1] if len(command) > 1 else "").execute_command(*command)

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send several commands in one round trip, on keys of one hash tag, which is the first argument of the first.

        Without the client library's pipeline: this takes half the time.
        """
        return self._send(commands[0][1], commands)

    def pipelines(self, groups: Sequence[Sequence[Command]]) -> list[list[Any]]:
        """Send several pipelines, each on keys of its own hash tag, in one round trip per server."""
        together: dict[Any, list[int]] = {}
        with _told():
            for number, commands in enumerate(groups):
                together.setdefault(self._node(commands[0][1]), []).append(number)
        answers: list[list[Any]] = [[]] * len(groups)
        for numbers in together.values():
            told = iter(self.pipeline([command for number in numbers for command in groups[number]]))
            for number in numbers:
                answers[number] = [*islice(told, len(groups[number]))]
        return answers

    def run(self, script: Script, keys: Sequence[Word], args: Sequence[Word]) -> Any:
        """Run a script on `keys`, which share one hash tag."""
        try:
            [answer] = self._send(keys[0], [("EVALSHA", script.sha, len(keys), *keys, *args)])
        except redis.exceptions.NoScriptError:
            [answer] = self._send(keys[0], [("EVAL", script.text, len(keys), *keys, *args)])
        return answer

    def stream(self, key: Word, parts: Iterable[Packed]) -> Iterator[list[Any]]:
        """Send packed commands to the server of a key and yield their answers, part by part.

        The next part is made while the server works on the one before.
        """
        with _told(), self._lines.one(self._node(key).connection_pool) as connection:
            waiting = 0
            for commands, count in parts:
                connection.send_packed_command([commands])
                if waiting:
                    yield _answers(connection, waiting)
                waiting = count
            yield _answers(connection, waiting)

    def _send(self, key: Word, commands: Sequence[Command]) -> list[Any]:
        """As `stream` does with one part. Without its generators: each lookup comes through here."""
        data, count = packed(commands)
        try:
            connection, idle = self._lines.take(self._node(key).connection_pool)
            try:
                connection.send_packed_command([data])
                return _answers(connection, count)
            except BaseException:
                connection.disconnect()
                raise
            finally:
                idle.append(connection)
        except _ERRORS as error:
            _tell(error)

    def _node(self, key: Word) -> Any:  # noqa: ARG002  # there is one
        """The server that holds a key. Raises SetStoreEvicts."""
        self._guard.check(self._server)
        return self._server

    def scan(self, pattern: str) -> Iterator[bytes]:
        """The keys that match a pattern of SCAN; one that is written meanwhile may come twice, or not at all."""
        with _told():
            for server in self._servers():
                yield from server.scan_iter(match=pattern, count=KEYS_PER_SCAN)

    def _servers(self) -> list[Any]:
        """All servers that hold keys of their own."""
        return [self._server]

    def version(self) -> tuple[int, int]:
        """Major and minor version of Redis that the server is compatible with."""
        with _told():
            return _version(self._server)

    def close(self) -> None:
        """Close all connections."""
        self._server.close()


class ClusterClient(Client):
    """A cluster: every set lives on one of its servers, with all its keys.

    Where slots are is learnt at the first command and anew after one that failed. open_cluster: connects.
    """

    def __init__(self, open_cluster: Callable[[], Any]) -> None:
        self._lines = _Lines()
        self._guard = EvictionGuard()
        self._open = open_cluster
        self._cluster: Any = None
        self._stale = False
        self._lock = threading.Lock()

    def call(self, *command: Word) -> Any:
        """See Client."""
        return self._where_it_is(partial(super().call, *command))

    def stream(self, key: Word, parts: Iterable[Packed]) -> Iterator[list[Any]]:
        """See Client."""
        try:
            yield from super().stream(key, parts)
        except SetStoreUnavailable:
            self._stale = True
            raise

    def _send(self, key: Word, commands: Sequence[Command]) -> list[Any]:
        answers: list[Any] = self._where_it_is(partial(super()._send, key, commands))
        return answers

    def _where_it_is(self, send: Callable[[], Any]) -> Any:
        """Send again what went to a server that the slot has left: it was not done there."""
        try:
            return send()
        except SetStoreUnavailable as error:
            self._stale = True
            if not isinstance(error.__cause__, redis.exceptions.MovedError):
                raise
        return send()

    def _node(self, key: Word) -> Any:
        with self._lock:
            if self._cluster is None:
                self._cluster = self._open()
            elif self._stale:
                self._cluster.nodes_manager.initialize()
            self._stale = False
            server = self._cluster.get_redis_connection(self._cluster.get_node_from_key(key))
        self._guard.check(server)
        return server

    def _servers(self) -> list[Any]:
        """See Client."""
        self._node("")
        return [self._cluster.get_redis_connection(node) for node in self._cluster.get_primaries()]

    def version(self) -> tuple[int, int]:
        """That of the oldest primary."""
        with _told():
            return min(map(_version, self._servers()))

    def close(self) -> None:
        """See Client."""
        if self._cluster is not None:
            self._cluster.close()


KEYS_PER_SCAN = 1_000
_CLUSTER = re.compile(r"(rediss?)-cluster://((?:[^/?#]*@)?)([^/?#@]+)/?(\?[^#]*)?")
_BAD_URL = (
    "redis_url is no URL of the form redis://, rediss:// (TLS), unix://, redis-cluster://host:port,host:port or "
    "rediss-cluster://. Correct it."
)


def connect(url: str, *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> Client:
    """A client of the server or cluster at a URL; it connects when it is first used.

    One server: `redis://`, `rediss://` (TLS) or `unix://`. A cluster: `redis-cluster://` or `rediss-cluster://` with
    some of its servers, `[user:password@]host:port,host:port[?ssl_ca_certs=FILE]`. Raises SetupError when it is none.
    """
    options = {
        "protocol": 2,
        "socket_connect_timeout": min(CONNECT_TIMEOUT_S, answer_timeout_s),
        "socket_timeout": answer_timeout_s,
        "retry": Retry(NoBackoff(), 0),
    }
    try:
        if cluster := _CLUSTER.fullmatch(url):
            return _cluster_client(cluster, options)
        return Client(redis.Redis.from_url(url, **options))
    except ValueError as error:
        raise SetupError(_BAD_URL) from error


def _cluster_client(url: re.Match[str], options: dict[str, Any]) -> ClusterClient:
    scheme, user, hosts, query = url.groups(default="")
    given = [dict(parse_url(f"{scheme}://{user}{host}{query}")) for host in hosts.split(",")]  # type: ignore[no-untyped-call]
    at = [ClusterNode(one.get("host", "localhost"), one.get("port", DEFAULT_PORT)) for one in given]  # type: ignore[no-untyped-call]
    common = {name: value for name, value in given[0].items() if name not in ("host", "port", "connection_class")}
    return ClusterClient(lambda: redis.RedisCluster(startup_nodes=at, ssl=scheme == "rediss", **common, **options))


def _version(server: Any) -> tuple[int, int]:
    told: dict[str, Any] = server.execute_command("INFO", "server")
    major, minor, *_ = str(told["redis_version"]).split(".")
    return int(major), int(minor)


_ERRORS = (redis.RedisError, redis.exceptions.RedisClusterException)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        _tell(error)


def _tell(error: Exception) -> NoReturn:
    """Raise SetStoreUnavailable, or the error itself when the server is well and the command was wrong."""
    sentence = _sentence(error)
    if sentence is None:
        raise error
    raise SetStoreUnavailable(sentence) from error


def _sentence(error: Exception) -> str | None:
    """What to tell the reader; None when the server is well and the command was wrong."""
    for kind, code in _CLASSES.items():
        if isinstance(error, kind):
            return _SENTENCES[code]
    if isinstance(error, _AWAY_CLASSES):
        return _AWAY
    # Inside a script an older server puts the code behind its own words: "… -OOM command not allowed …".
    words = str(error).replace("-", " ").split()
    return next((_SENTENCES[word] for word in words if word in _SENTENCES), None)
