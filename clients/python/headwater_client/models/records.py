"""Records of streams, outputs and dead letters, read over HTTP."""

from datetime import datetime
from typing import Any

from headwater_client.model import Model


class Record(Model, frozen=True, kw_only=True):
    """A record.

    Attributes:
        record: The JSON value, with all digits of its integers; None for a record without a value.
        record_base64: In place of `record`, when the value is not JSON.
        timestamp: The Kafka timestamp of the record.
        key_base64: In place of `key`, when the key is not UTF-8.
        headers: The headers of an output or a dead letter.
        of: In a tail of several streams or sinks, the name of the one that has the record.
    """

    partition: int
    offset: int
    timestamp: datetime | None
    record: Any = None
    record_base64: str | None = None
    key: str | None = None
    key_base64: str | None = None
    headers: dict[str, str | None] | None = None
    headers_base64: dict[str, str] | None = None
    of: str | None = None


class Records(Model, frozen=True, kw_only=True):
    """Records, oldest first."""

    items: list[Record]


class Skipped(Model, frozen=True, kw_only=True):
    """The number of records of a stream or sink that a tail does not show."""

    of: str
    count: int


class TailEnd(Model, frozen=True, kw_only=True):
    """Why a tail has ended."""

    reason: str
    detail: str = ""
    of: str | None = None
