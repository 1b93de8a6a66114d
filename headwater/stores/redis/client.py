"""The client of a Valkey or Redis server or cluster: commands, pipelines and Lua scripts.

Errors of the connection or the server become RedisUnavailable.

Except in `pipelines`, whose commands must be idempotent, the client never repeats a command that a server may have
executed. When the reply to a write is lost, the write may or
may not have happened. Repeating it would be idempotent, but the reply would then say that nothing changed, although the
first write may have changed something. So the error goes to the caller of the API, who repeats the request and knows
that its counts leave out what the first request changed. The client does only these repetitions, which are safe:

- Before it writes to a pooled connection, it replaces the connection if the server has closed it.
- It sends a script in full when a restarted server does not know it, because the script did not run then.
- It sends commands again after a MOVED error; see ClusterClient.
"""

import hashlib
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from headwater.stores.redis.connection import Argument, Command, EncodedCommands, IdleConnections, encode_commands
from headwater.stores.redis.error_messages import translated_errors
from headwater.stores.redis.eviction import EvictionGuard

CONNECT_TIMEOUT_S = 3.0
REPLY_TIMEOUT_S = 10.0
DEFAULT_PORT = 6379
KEYS_PER_SCAN = 1_000

_CLUSTER_URL = re.compile(r"(rediss?)-cluster://((?:[^/?#]*@)?)([^/?#@]+)/?(\?[^#]*)?")
_INVALID_URL = (
    "redis_url is not a URL of the form redis://, rediss:// (TLS), unix://, redis-cluster://host:port,host:port or "
    "rediss-cluster://. Correct it."
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

    def call(self, *command: Argument) -> Any:
        """Send one command, whose first argument is its key, and return the reply."""
        with translated_errors():
            return self._node(command[1] if len(command) > 1 else "").execute_command(*command)

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send several commands in one round trip and return their replies.

        All keys must share one hash tag. This does not use the pipeline of redis-py, which takes three times as long.
        """
        return self._send(commands[0][1], commands)

    def pipelines(self, groups: Sequence[Sequence[Command]]) -> list[list[Any]]:
        """Send several pipelines in one round trip per server, and return their replies.

        The keys of each pipeline share one hash tag. The commands must be idempotent, because on a cluster all of them
        are sent again after a MOVED error of one of them.
        """
        indexes_by_server: defaultdict[Any, list[int]] = defaultdict(list)
        with translated_errors():
            for index, commands in enumerate(groups):
                indexes_by_server[self._node(commands[0][1])].append(index)
        replies: list[list[Any]] = [[]] * len(groups)
        for server, indexes in indexes_by_server.items():
            received = iter(self._exchange(server, [command for index in indexes for command in groups[index]]))
            for index in indexes:
                replies[index] = [*islice(received, len(groups[index]))]
        return replies

    def run(self, script: Script, keys: Sequence[Argument], args: Sequence[Argument]) -> Any:
        """Run a script on keys that share one hash tag, and return its reply."""
        try:
            [reply] = self._send(keys[0], [("EVALSHA", script.sha, len(keys), *keys, *args)])
        except redis.exceptions.NoScriptError:
            [reply] = self._send(keys[0], [("EVAL", script.text, len(keys), *keys, *args)])
        return reply

    def stream(self, key: Argument, parts: Iterable[EncodedCommands]) -> Iterator[list[Any]]:
        """Send encoded commands to the server of a key, and yield the replies to each part.

        The next part is taken from the iterable while the server works on the previous part.
        """
        with translated_errors(), self._connections.connection(self._node(key).connection_pool) as connection:
            unread = 0
            for data, count in parts:
                connection.send(data)
                if unread:
                    yield connection.read(unread)
                unread = count
            yield connection.read(unread)

    def _send(self, key: Argument, commands: Sequence[Command]) -> list[Any]:
        """Send commands to the server that holds a key, and return their replies."""
        with translated_errors():
            server = self._node(key)
        return self._exchange(server, commands)

    def _exchange(self, server: Any, commands: Sequence[Command]) -> list[Any]:
        """Send commands to a server in one round trip, and return their replies."""
        data, count = encode_commands(commands)
        with translated_errors(), self._connections.connection(server.connection_pool) as connection:
            connection.send(data)
            return connection.read(count)

    def _node(self, key: Argument) -> Any:  # noqa: ARG002  # there is one server
        """Return the server that holds a key. Raises RedisEvicts."""
        self._guard.check(self._server)
        return self._server

    def scan(self, pattern: str) -> Iterator[bytes]:
        """Yield the keys that match a pattern of SCAN.

        A key that is written during the scan may be missing, and any key may be yielded twice.
        """
        with translated_errors():
            for server in self._primaries():
                yield from server.scan_iter(match=pattern, count=KEYS_PER_SCAN)

    def _primaries(self) -> list[Any]:
        """Return all servers that are no replicas."""
        return [self._server]

    def version(self) -> tuple[int, int]:
        """Return the major and minor version of Redis with which the server is compatible."""
        with translated_errors():
            return _version(self._server)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()
        self._server.close()


class ClusterClient(Client):
    """A client of a cluster. All keys of a set are on the same server.

    The client loads the map of slots at the first command, and again after a failed command. After a MOVED error it
    loads the map and sends the commands once more. This is safe, because the keys of all methods except `pipelines`
    share one slot, and the server that replied MOVED executed no command of this slot.
    """

    def __init__(self, open_cluster: Callable[[], Any]) -> None:
        """open_cluster: Creates the cluster client of redis-py, which connects."""
        self._connections = IdleConnections()
        self._guard = EvictionGuard()
        self._open_cluster = open_cluster
        self._cluster: Any = None
        self._is_slot_map_stale = False
        self._lock = threading.Lock()

    def call(self, *command: Argument) -> Any:
        """See Client."""
        return self._following_moved(partial(super().call, *command))

    def pipelines(self, groups: Sequence[Sequence[Command]]) -> list[list[Any]]:
        """See Client."""
        replies: list[list[Any]] = self._following_moved(partial(super().pipelines, groups))
        return replies

    def stream(self, key: Argument, parts: Iterable[EncodedCommands]) -> Iterator[list[Any]]:
        """See Client. A MOVED error is not followed, because `parts` can be consumed only once."""
        try:
            yield from super().stream(key, parts)
        except RedisUnavailable:
            self._is_slot_map_stale = True
            raise

    def _send(self, key: Argument, commands: Sequence[Command]) -> list[Any]:
        replies: list[Any] = self._following_moved(partial(super()._send, key, commands))
        return replies

    def _following_moved(self, send: Callable[[], Any]) -> Any:
        """Call `send`, and call it once more after a MOVED error."""
        try:
            return send()
        except RedisUnavailable as error:
            self._is_slot_map_stale = True
            if not isinstance(error.__cause__, redis.exceptions.MovedError):
                raise
        return send()

    def _node(self, key: Argument) -> Any:
        with self._lock:
            if self._cluster is None:
                self._cluster = self._open_cluster()
            elif self._is_slot_map_stale:
                self._cluster.nodes_manager.initialize()
            self._is_slot_map_stale = False
            server = self._cluster.get_redis_connection(self._cluster.get_node_from_key(key))
        self._guard.check(server)
        return server

    def _primaries(self) -> list[Any]:
        """See Client."""
        self._node("")
        return [self._cluster.get_redis_connection(node) for node in self._cluster.get_primaries()]

    def version(self) -> tuple[int, int]:
        """Return the lowest version among the primaries."""
        with translated_errors():
            return min(map(_version, self._primaries()))

    def close(self) -> None:
        """See Client."""
        self._connections.close()
        if self._cluster is not None:
            self._cluster.close()


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
        if cluster_url := _CLUSTER_URL.fullmatch(url):
            return _cluster_client(cluster_url, options)
        return Client(redis.Redis.from_url(url, **options))
    except ValueError as error:
        raise SetupError(_INVALID_URL) from error


def _cluster_client(url: re.Match[str], options: dict[str, Any]) -> ClusterClient:
    scheme, user, hosts, query = url.groups(default="")
    servers = [dict(parse_url(f"{scheme}://{user}{host}{query}")) for host in hosts.split(",")]  # type: ignore[no-untyped-call]
    nodes = [ClusterNode(server.get("host", "localhost"), server.get("port", DEFAULT_PORT)) for server in servers]  # type: ignore[no-untyped-call]
    common = {name: value for name, value in servers[0].items() if name not in ("host", "port", "connection_class")}
    return ClusterClient(lambda: redis.RedisCluster(startup_nodes=nodes, ssl=scheme == "rediss", **common, **options))


def _version(server: Any) -> tuple[int, int]:
    info: dict[str, Any] = server.execute_command("INFO", "server")
    major, minor, *_ = str(info["redis_version"]).split(".")
    return int(major), int(minor)
