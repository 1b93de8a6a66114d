"""Translates the errors of redis-py to RedisUnavailable.

The message tells the reader what to do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from headwater.errors import RedisUnavailable

_NO_REPLY = "Valkey or Redis does not answer. Send the same request again."
_MESSAGES_BY_CODE = {
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
    "NOREPLICAS": (
        "Valkey or Redis accepts no writes: fewer replicas are connected than min-replicas-to-write requires. Check "
        "the replicas."
    ),
    "BUSY": "Valkey or Redis is busy with a script. Send the same request again.",
    "CLUSTERDOWN": "The cluster of Valkey or Redis is down, or has no server for some keys. Check its servers.",
    "MASTERDOWN": "Valkey or Redis is a replica that has lost its primary. Wait until its failover ends.",
    "TRYAGAIN": "The cluster of Valkey or Redis moves keys to another server. Send the same request again.",
}
_CODES_BY_CLASS: dict[type[redis.RedisError], str] = {
    redis.BusyLoadingError: "LOADING",
    redis.ReadOnlyError: "READONLY",
    redis.OutOfMemoryError: "OOM",
    redis.AuthenticationError: "WRONGPASS",
    redis.exceptions.NoPermissionError: "NOPERM",
    redis.exceptions.MasterDownError: "MASTERDOWN",  # a subclass of the next one
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
    redis.exceptions.AskError: "TRYAGAIN",  # also for its subclass MovedError
}
_UNAVAILABLE_CLASSES = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.RedisClusterException,
)


@contextmanager
def translated_errors() -> Iterator[None]:
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
    if isinstance(error, redis.RedisError) and error.status_code in _MESSAGES_BY_CODE:
        return _MESSAGES_BY_CODE[error.status_code]
    for error_class, code in _CODES_BY_CLASS.items():
        if isinstance(error, error_class):
            return _MESSAGES_BY_CODE[code]
    if isinstance(error, _UNAVAILABLE_CLASSES):
        return _NO_REPLY
    # When a command fails inside a script, older servers put the code in the middle: "… -OOM command not allowed …".
    words = str(error).replace("-", " ").split()
    return next((_MESSAGES_BY_CODE[word] for word in words if word in _MESSAGES_BY_CODE), None)
