"""The event time of records."""

import json

import pytest

from headwater.engine.metrics.event_time import EventTime
from headwater.model.stream import CATALOG

AT_MS = 1767323045678.0


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        (1767323045678, AT_MS),
        (1767323045, 1767323045000.0),
        (1767323045.678, AT_MS),
        (1767323045678901, AT_MS + 0.901),
        (1767323045678901234, AT_MS + 0.901234),
        ("2026-01-02T03:04:05.678Z", AT_MS),
        ("2026-01-02T03:04:05.678901234", AT_MS + 0.901),
        ("2026-01-02T05:04:05.678+02:00", AT_MS),
        ("2026-01-02 03:04:05 UTC", 1767323045000.0),
    ],
)
def test_times(time: object, ms: float) -> None:
    value = json.dumps({"a": [{"time": 1}], "time": time, "b": None}).encode()
    assert EventTime("time").read(value) == pytest.approx(ms, abs=0.01)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"time":null}',
        b'{"time":"soon"}',
        b'{"time":true}',
        b'{"time":{}}',
        b'{"time":1e999}',
    ],
)
def test_records_without_an_event_time(value: bytes | None) -> None:
    assert EventTime("time").read(value) is None


def test_a_stream_without_such_a_field() -> None:
    assert EventTime(None).read(b'{"time":1}') is None


def test_every_stream_of_the_catalog_has_an_event_time() -> None:
    for entity in (entity for chain in CATALOG for entity in chain.entities):
        assert EventTime(entity.event_time_field).read(json.dumps(entity.example).encode()) is not None
