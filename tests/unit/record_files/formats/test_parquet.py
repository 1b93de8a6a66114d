"""The conversion of every Parquet type to JSON."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from headwater.errors import SetupError
from headwater.record_files.record_file import RecordFile
from tests.support.entities import like

TIME = dt.datetime(2026, 1, 2, 3, 4, 5, 120_000, dt.UTC)
NANOSECONDS = pa.scalar(1_767_323_045_678_901_234, pa.timestamp("ns"))
WIDE = 2**240 + 1
NOT_UTF8 = pa.array([b"\xff"]).view(pa.string())
STRUCT = pa.array([{"a": 1, "b": TIME}], pa.struct([("a", pa.int8()), ("b", pa.timestamp("s"))]))


def read_back(folder: Path, array: pa.Array, example: Any) -> Any:
    pyarrow.parquet.write_table(pa.table({"v": array}), folder / "a.parquet")
    record, *_ = RecordFile(folder / "a.parquet", entity=like(v=example))
    return json.loads(record, parse_float=str)["v"]


@pytest.mark.parametrize(
    ("array", "example", "expected"),
    [
        (pa.array([2**64 - 1], pa.uint64()), 1, 2**64 - 1),
        (pa.array([-5], pa.int8()), 1, -5),
        (pa.array([17]), "17", "17"),
        (pa.array([0.5], pa.float32()), None, "0.5"),
        (pa.array([float("nan")]), None, None),
        (pa.array([float("-inf")]), 1.0, None),
        (pa.array([True]), False, True),
        (pa.array([True, False]), "x", "true"),
        (pa.array([True]), 1, 1),
        (pa.array([True]).dictionary_encode(), "x", "true"),
        (pa.array([{"a": False}]), {"a": "x"}, {"a": "false"}),
        (pa.array([None], pa.null()), None, None),
        (pa.array(["17"]), "17", "17"),
        (pa.array(["17"]), None, "17"),
        (pa.array([17]), None, "17"),
        (pa.array([str(WIDE)], pa.large_string()), 1, WIDE),
        (pa.array(['["a"]']), ["b"], ["a"]),
        (pa.array(["true"]), True, True),
        (pa.array([""]), 1, None),
        (pa.array([Decimal(WIDE)], pa.decimal256(76)), 1, WIDE),
        (pa.array([Decimal(WIDE)], pa.decimal256(76)), "1", str(WIDE)),
        (pa.array([Decimal("1.10")]), 1.0, "1.10"),
        (pa.array([Decimal(17)], pa.decimal128(38, 9)), 1, 17),
        (pa.array([Decimal(17)], pa.decimal128(38, 9)), "1", "17"),
        (pa.array([Decimal(-10)], pa.decimal128(38, 9)), 1, -10),
        (pa.array([Decimal("17.5")], pa.decimal128(38, 9)), 1, "17.500000000"),
        (pa.array([Decimal("17.5")], pa.decimal128(38, 9)), "1", "17.500000000"),
        (pa.array([Decimal("1E-7")], pa.decimal128(20, 9)), 1.0, "0.000000100"),
        (pa.array([b"\x00\xff"]), None, "0x00ff"),
        (pa.array([b"\x00\xff"], pa.binary(2)), "0x", "0x00ff"),
        (pa.array([TIME], pa.timestamp("ms", "UTC")), None, "2026-01-02T03:04:05.120Z"),
        (pa.array([TIME], pa.timestamp("ms", "Europe/Berlin")), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.120Z"),
        (pa.array([TIME.replace(microsecond=0)], pa.timestamp("us")), None, "2026-01-02T03:04:05Z"),
        (pa.array([NANOSECONDS]), "2026-01-02T03:04:05.678901234", "2026-01-02T03:04:05.678901234"),
        (pa.array([NANOSECONDS]), 1767323045678, 1767323045678),
        (pa.array([NANOSECONDS]), 1767323045, 1767323045),
        (pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]), None, "1969-12-31T23:59:59.999999Z"),
        (pa.array([dt.date(2026, 1, 2)]), None, "2026-01-02"),
        (pa.array([dt.time(3, 4, 5, 6)]), None, "03:04:05.000006"),
        (pa.array([dt.timedelta(milliseconds=5)], pa.duration("ms")), 1, 5),
        (pa.array([["a", None]]), ["x"], ["a", None]),
        (pa.array([[TIME, TIME]], pa.list_(pa.timestamp("s"), 2)), [], ["2026-01-02T03:04:05Z"] * 2),
        (STRUCT, {"a": "1"}, {"a": "1", "b": "2026-01-02T03:04:05Z"}),
        (pa.array([[("k", TIME)]], pa.map_(pa.string(), pa.timestamp("s"))), {}, {"k": "2026-01-02T03:04:05Z"}),
        (pa.array([[(1, "x"), (2, None)]], pa.map_(pa.int8(), pa.string())), [], [[1, "x"], [2, None]]),
        (pa.array([[("k", 1)]], pa.map_(pa.dictionary(pa.int32(), pa.string()), pa.int8())), {}, {"k": 1}),
        (pa.array([1767323045]), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        (pa.array([1767323045678]), "2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05.678Z"),
        (pa.array([1767323045.5]), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.500Z"),
        (pa.array([TIME], pa.timestamp("ms")), "2026-01-02T03:04:05.000Z", "2026-01-02T03:04:05.120Z"),
        (pa.array([dt.timedelta(milliseconds=5)], pa.duration("ms")), "x", "5"),
        (pa.array(["a"]).dictionary_encode(), None, "a"),
        (pa.array([b"\x01\x02"], pa.binary_view()), "0x", "0x0102"),
        (pa.array(["0xaa"], pa.string_view()), "0x", "0xaa"),
        (pa.array([["a", "b"]], pa.list_view(pa.string())), ["x"], ["a", "b"]),
        (pa.array([b"0xaaBB"]), "0x", "0xaaBB"),
        (pa.array([b"386A"]), "0x", "0x33383641"),
        (pa.array([b"usd coin"]), "wrapped ether", "usd coin"),
        (pa.array([b"17"]), 1, 17),
        (pa.array([b"caf\xc3\xa9"]), "tea", "0x636166c3a9"),
        (pa.array([17.0]), 1, 17),
        (pa.array([1.5]), 1, "1.5"),
        (pa.array([17.0]), "17", "17"),
        (pa.array([0.5]), "1", "0.5"),
        (pa.array([1e21]), 1, 10**21),
        (pa.array([1e21]), "1", "1000000000000000000000"),
        (pa.array([1], pa.int8()), False, True),
        (pa.array([0.0]), False, False),
    ],
)  # fmt: skip
def test_types(tmp_path: Path, array: pa.Array, example: Any, expected: Any) -> None:
    assert read_back(tmp_path, array, example) == expected


def test_the_first_year(tmp_path: Path) -> None:
    array = pa.array([-62135596800], pa.timestamp("s"))
    assert read_back(tmp_path, array, "2026-01-02T03:04:05Z") == "0001-01-01T00:00:00Z"


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(SetupError, match="can't be read"):
        list(RecordFile(tmp_path / "a.parquet"))


def test_many_row_groups(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"n": range(5000)}), tmp_path / "a.parquet", row_group_size=700)
    file = RecordFile(tmp_path / "a.parquet")
    shares = [file.bytes_read() / file.size() for _ in file]
    assert shares == [pytest.approx((n + 1) / 5000) for n in range(5000)]


@pytest.mark.parametrize(
    ("array", "example", "fault"),
    [
        (pa.array([2]), True, "record 1: v: 2 is neither true nor false"),
        (pa.array(["a"]).dictionary_encode(), 1, "record 1: v: 'a' is not a number"),
        (pa.array([b"\xff"]), 1, "record 1: v: the bytes are not the text of a value of the type integer"),
        (pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8())), {}, "record 1: v: the map has the key 'k'"),
        (NOT_UTF8, "x", "record 1: v: 'utf-8' codec can't decode"),
        (pa.array([10**8], pa.int32()).cast(pa.date32()), "x", "record 1: v: date value out of range"),
        (pa.array([{"a": 1}]), 1, "v has the type struct<a: int64>, and the stream has v as integer: write the column"),
        (pa.array([{"a": 1}]), "x", "as string: write the column"),
        (pa.array([[1]]), "x", "as string: write the column"),
        (pa.array([1]), ["x"], "as array: write the column"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), [], "as array: write the column"),
        (pa.array([[(1, 1)]], pa.map_(pa.int8(), pa.int8())), {}, "as object: write the column"),
        (pa.array([dt.date(2026, 1, 2)]), 1, "as integer: write the column"),
        (pa.array([TIME]), True, "as boolean: write the column"),
        (pa.array([True]).dictionary_encode(), ["x"], "as array: write the column"),
        (pa.array([-62135596801], pa.timestamp("s")), "2026-01-02T03:04:05Z", "out of range"),
    ],
)
def test_columns_that_the_stream_does_not_have(tmp_path: Path, array: pa.Array, example: Any, fault: str) -> None:
    with pytest.raises(SetupError, match=fault):
        read_back(tmp_path, array, example)


def test_white_space_around_the_name_of_a_column(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"value": [1], "w ": [1]}), tmp_path / "a.parquet")
    with pytest.raises(SetupError, match="'w ' begins or ends with white space"):
        list(RecordFile(tmp_path / "a.parquet"))


def test_no_column_of_the_stream(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"w": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(SetupError, match="no column of the file is a member"):
        list(RecordFile(tmp_path / "a.parquet", entity=like(v="a")))


def test_an_undecodable_value_affects_only_its_record(tmp_path: Path) -> None:
    texts = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    pyarrow.parquet.write_table(pa.table({"v": texts}), tmp_path / "a.parquet")
    file = RecordFile(tmp_path / "a.parquet", entity=like(v="x"), skip_bad=True)
    assert [*file] == [b'{"v":"a"}', b'{"v":"b"}']
    assert file.skipped == 1
