"""The catalog of streams."""

from typing import Any

from headwater_client.model import Model


class Stream(Model, frozen=True, kw_only=True):
    """A stream of records that a pipeline can read.

    Attributes:
        event_time: The field with the record's own time; None when there is none.
        key: The fields that identify a record.
        prices: The price recipes that read this stream.
        record_schema: The JSON Schema of a record.
        example: An example record.
    """

    chain: str
    entity: str
    type: str
    has_zerolag: bool
    event_time: str | None
    description: str
    key: list[str]
    prices: list[str]
    record_schema: dict[str, Any]
    example: dict[str, Any]
