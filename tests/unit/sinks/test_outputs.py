"""Sizes and ids of outputs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.outputs import MAX_OUTPUT_BYTES, MAX_RECORD_BYTES
from headwater.model.record import RecordBatch
from headwater.native import HeaderColumn, OutputIdColumn
from headwater.sinks.outputs import (
    MAX_TIMESTAMP_AGE_MS,
    MAX_TIMESTAMP_AHEAD_MS,
    OutputBatch,
    output_ids,
    output_timestamps,
    size_error,
)
from tests.support.columns import numbers

PAYLOAD = b"x" * (MAX_RECORD_BYTES + 10)
KEY_ROOM = MAX_RECORD_BYTES - MAX_OUTPUT_BYTES


@given(
    value=st.one_of(st.none(), st.integers(0, 1000), st.integers(MAX_OUTPUT_BYTES - 3, MAX_OUTPUT_BYTES + 3)),
    key=st.one_of(st.none(), st.integers(0, 1000), st.integers(KEY_ROOM - 10, KEY_ROOM + 3)),
    header=st.integers(0, 8),
)
def test_a_record_is_oversize_by_its_value_or_in_all(value: int | None, key: int | None, header: int) -> None:
    headers = [("h", PAYLOAD[:header])]
    total = (value or 0) + (key or 0) + 1 + header
    fault = size_error(None if value is None else PAYLOAD[:value], None if key is None else PAYLOAD[:key], headers)
    assert (fault is not None) == ((value or 0) > MAX_OUTPUT_BYTES or total > MAX_RECORD_BYTES)


def test_source_ids() -> None:
    batch = RecordBatch.of("stream.polygon.log", [b"v"] * 2, [None] * 2, [0] * 2, [3, 0], [1 << 40, 7], [12, 0])
    assert output_ids(batch) == [b"stream.polygon.log/3/1099511627776/12", b"stream.polygon.log/0/7/0"]
    assert output_ids(batch, lambda _: [b"m1", b"m2"]) == [b"m1/12", b"m2/0"]


def test_times_far_from_the_present_become_the_present() -> None:
    now = 1_800_000_000_000
    near = numbers([now - MAX_TIMESTAMP_AGE_MS, now, now + MAX_TIMESTAMP_AHEAD_MS])
    assert output_timestamps(near, lambda: now / 1000) == near
    assert output_timestamps(numbers([]), lambda: now / 1000) == numbers([])
    far = numbers([0, now - MAX_TIMESTAMP_AGE_MS - 1, now + 1, now + MAX_TIMESTAMP_AHEAD_MS + 1])
    assert output_timestamps(far, lambda: now / 1000) == numbers([now, now, now + 1, now])


@pytest.mark.parametrize("kind", ["", "sources", "origin"])
class TestOutputs:
    def outputs(self, kind: str, *rows: int) -> OutputBatch:
        names = [b"source %d" % row for row in rows] if kind == "sources" else []
        values, keys = [b"%d" % row if row % 3 else None for row in rows], [b"k%d" % row for row in rows]
        output_batch = OutputBatch.of("t", values, keys, [row % 2 for row in rows], [*rows], names, [("h", b"1")])
        if kind != "origin":
            return output_batch
        positions = OutputIdColumn("s", output_batch.partitions, numbers(row << 40 for row in rows), numbers(rows))
        return replace(output_batch, headers=[*output_batch.headers, HeaderColumn("headwater-src", positions)])

    def test_some_partitions(self, kind: str) -> None:
        """Outputs without a source record are kept: their repeats change nothing."""
        outputs = self.outputs(kind, *range(5))
        assert outputs.without_source_partitions([0]) == (self.outputs(kind, 1, 3) if kind else outputs)
        assert outputs.without_source_partitions([1, 7]) == (self.outputs(kind, 0, 2, 4) if kind else outputs)

    def test_all_partitions(self, kind: str) -> None:
        assert len(self.outputs(kind, 1).without_source_partitions([1])) == (0 if kind else 1)

    def test_headers(self, kind: str) -> None:
        source = {"sources": [("headwater-src", b"source 3")], "origin": [("headwater-src", b"s/1/%d/3" % (3 << 40))]}
        assert self.outputs(kind, 2, 3).headers_of(1) == [("h", b"1"), *source.get(kind, [])]
