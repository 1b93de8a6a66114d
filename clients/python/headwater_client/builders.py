"""Builds the parts of a configuration."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

Document: TypeAlias = Mapping[str, Any]
"""A JSON object, with the members that docs/reference/configuration.md describes."""


def without_none(members: Document) -> dict[str, Any]:
    """Return the members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def set_filter(
    expr: str, *, values: Iterable[str] | None = None, name: str | None = None, uid: str | None = None
) -> dict[str, Any]:
    """Return a filter that keeps the records whose selected value is in its set.

    Args:
        expr: Selects the value.
        values: The first values of a new filter, at most 250,000; `flow.filters[name].add` adds any number.
        name: Your own name of the filter.
        uid: The uid of the stored filter that this one replaces.

    >>> set_filter("root = this.token_address", values=["0x8335"], name="token")
    {'type': 'redis_set_filter', 'filter_expr': 'root = this.token_address', 'set_values': ['0x8335'], 'name': 'token'}
    """
    initial = None if values is None else list(values)
    return without_none(
        {"type": "redis_set_filter", "filter_expr": expr, "set_values": initial, "name": name, "uid": uid}
    )


def v8(script: str, *, name: str | None = None, uid: str | None = None) -> dict[str, Any]:
    """Return a transform that runs a script in JavaScript or TypeScript.

    >>> v8("function process(record) { return record; }")
    {'type': 'v8', 'script': 'function process(record) { return record; }'}
    """
    return without_none({"type": "v8", "script": script, "name": name, "uid": uid})


def kafka(
    name: str,
    *,
    partitions: int | None = None,
    retention_ms: int | None = None,
    retention_bytes: int | None = None,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None,
    cleanup_policy: Literal["delete", "compact", "compact,delete"] | None = None,
) -> dict[str, Any]:
    """Return a sink with a Kafka topic of its own.

    >>> kafka("usdc", compression="zstd")
    {'type': 'kafka', 'name': 'usdc', 'compression': 'zstd'}
    """
    return without_none(
        {
            "type": "kafka",
            "name": name,
            "partitions": partitions,
            "retention_ms": retention_ms,
            "retention_bytes": retention_bytes,
            "compression": compression,
            "cleanup_policy": cleanup_policy,
        }
    )


def prices(name: str) -> dict[str, Any]:
    """Return a sink whose records are ticks of the installation's token prices.

    >>> prices("ticks")
    {'type': 'prices', 'name': 'ticks'}
    """
    return {"type": "prices", "name": name}


def source(
    chain: str, entity: str, *, start_at: str | datetime | None = None, is_zerolag: bool | None = None
) -> dict[str, Any]:
    """Return a source.

    `start_at` is `latest`, `earliest` or a time, and says where a new deployment starts.

    >>> source("base", "log", start_at="earliest")
    {'chain': 'base', 'entity': 'log', 'start_at': 'earliest'}
    """
    start = start_at.isoformat() if isinstance(start_at, datetime) else start_at
    return without_none({"chain": chain, "entity": entity, "start_at": start, "is_zerolag": is_zerolag})


Source: TypeAlias = Document | tuple[str, str]
"""A source, or its chain and entity."""


def flow_document(
    name: str,
    from_source: Source,
    transforms: Sequence[Document],
    sinks: Sequence[Document],
    **members: Any,
) -> dict[str, Any]:
    """Return the body of a request that creates or replaces a configuration.

    >>> document = flow_document("usdc", ("base", "log"), [], [kafka("out")], tags=["x"], parallelism=2)
    >>> document["tags"], document["pipeline_config"]["parallelism"], document["pipeline_config"]["source"]
    (['x'], 2, {'chain': 'base', 'entity': 'log'})
    """
    pipeline = {
        "source": source(*from_source) if isinstance(from_source, tuple) else from_source,
        "transforms": list(transforms),
        "sinks": list(sinks),
        "parallelism": members.pop("parallelism", None),
        "delivery": members.pop("delivery", None),
    }
    return without_none({"name": name, **members, "pipeline_config": without_none(pipeline)})
