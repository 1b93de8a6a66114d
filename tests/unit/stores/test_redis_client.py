"""The translation of errors by the client."""

import pytest
import redis

from headwater.errors import RedisUnavailable, SetupError
from headwater.stores.redis.client import Client, connect


class Broken(redis.Redis):
    """A server that replies to every command with the same error."""

    def __init__(self, error: redis.RedisError) -> None:
        super().__init__()
        self.error = error

    def execute_command(self, *args: object, **options: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (redis.ConnectionError("Error 111 connecting to secret.example:6379"), "does not answer"),
        (redis.TimeoutError("Timeout reading from secret.example"), "does not answer"),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), "reading its files"),
        (redis.ReadOnlyError("You can't write against a read only replica."), "replica"),
        (redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "out of memory"),
        (redis.AuthenticationError("invalid username-password pair"), "user or password"),
        (redis.exceptions.NoPermissionError("this user has no permissions"), "denies"),
        (redis.ResponseError("MISCONF Errors writing to the AOF file"), "disk"),
        (redis.ResponseError("ERR Error running script: -OOM command not allowed"), "out of memory"),
        (redis.ResponseError("NOREPLICAS Not enough good replicas to write."), "min-replicas-to-write"),
        (redis.ResponseError("BUSY Redis is busy running a script."), "busy with a script"),
        (redis.exceptions.ClusterDownError("The cluster is down"), "cluster of Valkey or Redis is down"),
        (redis.exceptions.MasterDownError("Link with MASTER is down"), "lost its primary"),
        (redis.exceptions.TryAgainError("Multiple keys request during rehashing of slot"), "moves keys"),
        (redis.exceptions.MovedError("3999 127.0.0.1:6381"), "moves keys"),
    ],
)
def test_an_unavailable_server(error: redis.RedisError, words: str) -> None:
    with pytest.raises(RedisUnavailable) as caught:
        Client(Broken(error)).call("PING")
    assert words in caught.value.detail
    assert "secret" not in caught.value.detail
    assert caught.value.__cause__ is error


def test_a_wrong_command_is_our_fault() -> None:
    with pytest.raises(redis.ResponseError):
        Client(Broken(redis.ResponseError("WRONGTYPE Operation against a key"))).call("GET", "x")


@pytest.mark.parametrize(
    "url", ["", "localhost:6379", "http://localhost", "redis-cluster://", "redis-cluster://host:port"]
)
def test_no_url(url: str) -> None:
    with pytest.raises(SetupError, match="redis_url"):
        connect(url)


def test_no_server_listens(tmp_path: object) -> None:
    with pytest.raises(RedisUnavailable):
        connect(f"unix://{tmp_path}/none.sock").call("PING")


@pytest.mark.parametrize("url", ["redis-cluster://127.0.0.1:1,127.0.0.1:2", "rediss-cluster://me:secret@127.0.0.1:1"])
def test_no_server_of_the_cluster_listens(url: str) -> None:
    client = connect(url)
    attempts = (
        lambda: client.call("PING"),
        lambda: client.pipeline([("GET", "x")]),
        lambda: client.pipelines([[("GET", "x")]]),
        client.version,
    )
    for attempt in attempts:
        with pytest.raises(RedisUnavailable, match="does not answer"):
            attempt()
    client.close()
