"""The one way to a Valkey or Redis server: commands, pipelines and scripts, with errors told as SetStoreUnavailable.

Nothing is sent twice. A write whose answer is lost may have been done or not; sent again by this client it would be
done once, but its answer would say that nothing changed. So the caller is told, and sends its own request again: the
counts that it then gets are those of that request. Two things are safe and happen here: a pooled connection that the
server closed meanwhile is noticed and replaced before anything is written to it, and a script that the server does not
know (it was restarted) did not run and is sent in full.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from headwater.errors import SetStoreUnavailable, SetupError

CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 10.0

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


class Client:
    """A server. Thread-safe; every method may block for ANSWER_TIMEOUT_S and raises SetStoreUnavailable."""

    def __init__(self, server: redis.Redis) -> None:
        self._server: Any = server  # execute_command has no types

    def call(self, *command: Word) -> Any:
        """Send one command."""
        with _told():
            return self._server.execute_command(*command)

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Send several commands in one round trip. Without the client library's pipeline: this takes half the time."""
        [answers] = self.stream([packed(commands)])
        return answers

    def stream(self, parts: Iterable[Packed]) -> Iterator[list[Any]]:
        """Send packed commands and yield their answers, part by part.

        The next part is made while the server works on the one before.
        """
        pool = self._server.connection_pool
        with _told():
            connection = pool.get_connection()
            try:
                waiting = 0
                for commands, count in parts:
                    connection.send_packed_command([commands])
                    if waiting:
                        yield [connection.read_response() for _ in range(waiting)]
                    waiting = count
                yield [connection.read_response() for _ in range(waiting)]
            except BaseException:
                connection.disconnect()  # answers left unread would be taken for those of the next commands
                raise
            finally:
                pool.release(connection)

    def run(self, script: Script, keys: Sequence[Word], args: Sequence[Word]) -> Any:
        """Run a script on `keys`, which share one hash tag."""
        try:
            [answer] = self.pipeline([("EVALSHA", script.sha, len(keys), *keys, *args)])
        except redis.exceptions.NoScriptError:
            [answer] = self.pipeline([("EVAL", script.text, len(keys), *keys, *args)])
        return answer

    def version(self) -> tuple[int, int]:
        """Major and minor version of Redis that the server is compatible with."""
        told: dict[str, Any] = self.call("INFO", "server")
        major, minor, *_ = str(told["redis_version"]).split(".")
        return int(major), int(minor)

    def close(self) -> None:
        """Close all connections."""
        self._server.close()


def connect(url: str) -> Client:
    """A client of the server at `redis://`, `rediss://` or `unix://`; it connects when it is first used.

    Raises SetupError when the URL is none.
    """
    try:
        server = redis.Redis.from_url(
            url,
            protocol=2,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=ANSWER_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise SetupError("redis_url is no URL of the form redis://, rediss:// or unix://. Correct it.") from error
    return Client(server)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise SetStoreUnavailable(sentence) from error


def _sentence(error: redis.RedisError) -> str | None:
    """What to tell the reader; None when the server is well and the command was wrong."""
    for kind, code in _CLASSES.items():
        if isinstance(error, kind):
            return _SENTENCES[code]
    if isinstance(error, _AWAY_CLASSES):
        return _AWAY
    # Inside a script an older server puts the code behind its own words: "… -OOM command not allowed …".
    words = str(error).replace("-", " ").split()
    return next((_SENTENCES[word] for word in words if word in _SENTENCES), None)
