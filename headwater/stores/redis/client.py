"""The client of a Valkey or Redis server or cluster: commands, pipelines and Lua scripts.

Errors of the connection or the server become RedisUnavailable.

The client never repeats a command. When the reply to a write is lost, the write may or may not have happened. Repeating
it would be idempotent, but the reply would then say that nothing changed. So the error goes to the caller of the API,
who repeats the whole request and gets the counts of that request. Two repetitions are safe, and the client does them:
it replaces a pooled connection that the server has closed before it writes to it, and it sends a script in full when a
restarted server does not know it, because the script did not run then.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import parse_url
from redis.retry import Retry

from headwater.errors import RedisUnavailable, SetupError
from headwater.stores.redis.connection import Command, EncodedCommands, IdleConnections, encode_commands
from headwater.stores.redis.eviction import EvictionGuard

CONNECT_TIMEOUT_S = 3.0
REPLY_TIMEOUT_S = 10.0
DEFAULT_PORT = 6379

Word = bytes | str | int

_UNAVAILABLE = "Valkey or Redis does not answer. Send the same request again."
_MESSAGES = {
    "LOADING": "Valkey or Redis is still reading its files. Send the same request again.",
    "READONLY": "Valkey or Redis accepts no writes: it is a replica. Wait until its failover ends.",
    "OOM": "Valkey or Redis is out of memory. Remove values, or raise its maxmemory.",
    "MISCONF": "Valkey or Redis accepts no writes: it can't write to its disk. Free some space.",
    "NOAUTH": "Valkey or Redis requires a user and password. Add them to redis_url.",
    "WRONGPASS": "Valkey or Redis rejected the user or password in redis_url. Correct them.",
    "NOPERM": (
        "Valkey or Redis denies the user in redis_url a command or a key. Give this user all commands and all keys "
        "(ACL SETUSER … allcommands allkeys)."
    ),
    "NOREPLICAS": _UNAVAILABLE,
    "BUSY": _UNAVAILABLE,
}
_CODES_BY_CLASS: dict[type[redis.RedisError], str] = {
    redis.BusyLoadingError: "LOADING",
    redis.ReadOnlyError: "READONLY",
    redis.OutOfMemoryError: "OOM",
    redis.AuthenticationError: "WRONGPASS",
    redis.exceptions.NoPermissionError: "NOPERM",
}
_UNAVAILABLE_CLASSES = (
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
    """A Lua script of this package, and the SHA-1 by which a server knows it."""

    text: str
    sha: str

    @classmethod
    def load(cls, name: str) -> "Script":
        """Read the script from lua/<name>.lua."""
        text = (Path(__file__).parent / "lua" / f"{name}.lua").read_text()
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


class Client:
    """A client of one server or replica group. Thread-safe.

    All methods may block for REPLY_TIMEOUT_S, and raise RedisUnavailable.
    """

    def __init__(self, server: redis.Redis) -> None:
        self._server: Any = server  # execute_command has no types
        self._connections = IdleConnections()
        self._guard = EvictionGuard()

    def call(self, *command: Word) -> Any:
        """Send one command, whose first argument is its key, and return the reply."""
        with _translated_errors():
            return self._node(command[1] if len(command) > 1 else "").execute_command(*command)

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send several commands in one round trip and return their replies.

        All keys must share one hash tag. This does not use the pipeline of redis-py, which takes twice the time.
        """
        return self._send(commands[0][1], commands)

    def pipelines(self, groups: Sequence[Sequence[Command]]) -> list[list[Any]]:
        """Send several pipelines in one round trip per server.

        The keys of each pipeline share one hash tag.
        """
        together: dict[Any, list[int]] = {}
        with _translated_errors():
            for number, commands in enumerate(groups):
                together.setdefault(self._node(commands[0][1]), []).append(number)
        answers: list[list[Any]] = [[]] * len(groups)
        for numbers in together.values():
            replies = iter(self.pipeline([command for number in numbers for command in groups[number]]))
            for number in numbers:
                answers[number] = [*islice(replies, len(groups[number]))]
        return answers

    def run(self, script: Script, keys: Sequence[Word], args: Sequence[Word]) -> Any:
        """Run a script on keys that share one hash tag, and return its reply."""
        try:
            [answer] = self._send(keys[0], [("EVALSHA", script.sha, len(keys), *keys, *args)])
        except redis.exceptions.NoScriptError:
            [answer] = self._send(keys[0], [("EVAL", script.text, len(keys), *keys, *args)])
        return answer

    def stream(self, key: Word, parts: Iterable[EncodedCommands]) -> Iterator[list[Any]]:
        """Send encoded commands to the server of a key, and yield the replies to each part.

        The next part is taken from the iterable while the server works on the previous part.
        """
        with _translated_errors(), self._connections.connection(self._node(key).connection_pool) as connection:
            waiting = 0
            for data, count in parts:
                connection.send(data)
                if waiting:
                    yield connection.read(waiting)
                waiting = count
            yield connection.read(waiting)

    def _send(self, key: Word, commands: Sequence[Command]) -> list[Any]:
        data, count = encode_commands(commands)
        with _translated_errors(), self._connections.connection(self._node(key).connection_pool) as connection:
            connection.send(data)
            return connection.read(count)

    def _node(self, key: Word) -> Any:  # noqa: ARG002  # there is one
        """Return the server that holds a key. Raises RedisEvicts."""
        self._guard.check(self._server)
        return self._server

    def scan(self, pattern: str) -> Iterator[bytes]:
        """Yield the keys that match a pattern of SCAN.

        A key that is written during the scan may be missing, and any key may be yielded twice.
        """
        with _translated_errors():
            for server in self._servers():
                yield from server.scan_iter(match=pattern, count=KEYS_PER_SCAN)

    def _servers(self) -> list[Any]:
        """Return all servers that are no replicas."""
        return [self._server]

    def version(self) -> tuple[int, int]:
        """Return the major and minor version of Redis with which the server is compatible."""
        with _translated_errors():
            return _version(self._server)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()
        self._server.close()


class ClusterClient(Client):
    """A client of a cluster. All keys of a set are on the same server.

    The client loads the map of slots at the first command, and again after a failed command.
    """

    def __init__(self, open_cluster: Callable[[], Any]) -> None:
        """open_cluster: Creates the cluster client of redis-py, which connects."""
        self._connections = IdleConnections()
        self._guard = EvictionGuard()
        self._open = open_cluster
        self._cluster: Any = None
        self._stale = False
        self._lock = threading.Lock()

    def call(self, *command: Word) -> Any:
        """See Client."""
        return self._following_moved(partial(super().call, *command))

    def stream(self, key: Word, parts: Iterable[EncodedCommands]) -> Iterator[list[Any]]:
        """See Client."""
        try:
            yield from super().stream(key, parts)
        except RedisUnavailable:
            self._stale = True
            raise

    def _send(self, key: Word, commands: Sequence[Command]) -> list[Any]:
        answers: list[Any] = self._following_moved(partial(super()._send, key, commands))
        return answers

    def _following_moved(self, send: Callable[[], Any]) -> Any:
        """Send commands, and once more after a MOVED error.

        The server that replied MOVED did not execute them.
        """
        try:
            return send()
        except RedisUnavailable as error:
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
        """Return the lowest version among the primaries."""
        with _translated_errors():
            return min(map(_version, self._servers()))

    def close(self) -> None:
        """See Client."""
        self._connections.close()
        if self._cluster is not None:
            self._cluster.close()


KEYS_PER_SCAN = 1_000
_CLUSTER = re.compile(r"(rediss?)-cluster://((?:[^/?#]*@)?)([^/?#@]+)/?(\?[^#]*)?")
_BAD_URL = (
    "redis_url is not a URL of the form redis://, rediss:// (TLS), unix://, redis-cluster://host:port,host:port or "
    "rediss-cluster://. Correct it."
)


def connect(url: str, *, reply_timeout_s: float = REPLY_TIMEOUT_S) -> Client:
    """Return a client of the server or cluster at a URL.

    The client connects when it is first used. The URL of one server is `redis://…`, `rediss://…` (TLS) or `unix://…`.
    The URL of a cluster is `redis-cluster://…` or `rediss-cluster://…` with some of its servers:
    `[user:password@]host:port,host:port[?ssl_ca_certs=FILE]`. Raises SetupError when the URL has another form.
    """
    options = {
        "protocol": 2,
        "socket_connect_timeout": min(CONNECT_TIMEOUT_S, reply_timeout_s),
        "socket_timeout": reply_timeout_s,
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
    info: dict[str, Any] = server.execute_command("INFO", "server")
    major, minor, *_ = str(info["redis_version"]).split(".")
    return int(major), int(minor)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Translate the errors of redis-py to RedisUnavailable.

    Raises the error itself when the server is healthy and the command was wrong.
    """
    try:
        yield
    except (redis.RedisError, redis.exceptions.RedisClusterException) as error:
        message = _message(error)
        if message is None:
            raise
        raise RedisUnavailable(message) from error


def _message(error: Exception) -> str | None:
    """Return the error message for the user.

    Returns None when the server is healthy and the command was wrong.
    """
    for kind, code in _CODES_BY_CLASS.items():
        if isinstance(error, kind):
            return _MESSAGES[code]
    if isinstance(error, _UNAVAILABLE_CLASSES):
        return _UNAVAILABLE
    # When a command fails inside a script, older servers put the code in the middle: "… -OOM command not allowed …".
    words = str(error).replace("-", " ").split()
    return next((_MESSAGES[word] for word in words if word in _MESSAGES), None)
