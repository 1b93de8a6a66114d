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
    "NOREPLICAS": _NO_REPLY,
    "BUSY": _NO_REPLY,
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
    for error_class, code in _CODES_BY_CLASS.items():
        if isinstance(error, error_class):
            return _MESSAGES_BY_CODE[code]
    if isinstance(error, _UNAVAILABLE_CLASSES):
        return _NO_REPLY
    # When a command fails inside a script, older servers put the code in the middle: "… -OOM command not allowed …".
    words = str(error).replace("-", " ").split()
    return next((_MESSAGES_BY_CODE[word] for word in words if word in _MESSAGES_BY_CODE), None)
