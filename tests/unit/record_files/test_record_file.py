"""Record files give equal records in every format and compression.

Invalid records are reported with their position.
"""

import bz2
import csv
import gzip
import inspect
import io
import json
import lzma
import sys
from collections.abc import Callable
from io import DEFAULT_BUFFER_SIZE
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.cli.replay import replay
from headwater.errors import SetupError
from headwater.model.outputs import MAX_OUTPUT_BYTES
from headwater.model.stream import CATALOG, Entity
from headwater.record_files.formats import FORMATS, format_of
from headwater.record_files.formats.base import Dialect
from headwater.record_files.record_file import STDIN, RecordFile, read_lines
from tests.examples import examples
from tests.support.entities import like

ENTITIES = [entity for chain in CATALOG for entity in chain.entities]
Record = dict[str, Any]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "boolean": st.booleans(),
    "integer": st.integers(-(2**63), 2**63 - 1) | st.integers(2**64, 2**256),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "array": st.lists(TEXT | st.integers() | st.lists(st.booleans()), max_size=3),
    "object": st.dictionaries(TEXT, TEXT | st.integers() | st.none(), max_size=3),
}


def records_of(entity: Entity) -> st.SearchStrategy[list[Record]]:
    members = {name: st.none() | VALUES[field.type] for name, field in entity.fields.items()}
    return st.lists(st.fixed_dictionaries(members), min_size=1, max_size=5)


def as_text(value: Any) -> str:
    """Return a value as programs write it to a text column."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def json_lines(records: list[Record], _entity: Entity) -> tuple[str, bytes]:
    return "r.jsonl", b"".join(json.dumps(record).encode() + b"\n" for record in records)


def comma_separated(records: list[Record], entity: Entity) -> tuple[str, bytes]:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(entity.fields)
    writer.writerows([as_text(record[name]) for name in entity.fields] for record in records)
    return "r.csv", file.getvalue().encode()


def parquet(records: list[Record], entity: Entity) -> tuple[str, bytes]:
    """Return columns of the fields' types if Arrow has them, and of text otherwise."""
    kinds = {"boolean": pa.bool_(), "number": pa.float64()}
    columns = {}
    for name, field in entity.fields.items():
        values = [record[name] for record in records]
        kind = kinds.get(field.type)
        if field.type == "integer" and all(one is None or abs(one) < 2**63 for one in values):
            kind = pa.int64()
        columns[name] = pa.array(values if kind else [as_text(one) or None for one in values], kind or pa.string())
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), file)
    return "r.parquet", file.getvalue()


def zstandard(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


def lz4(data: bytes) -> bytes:
    """Compress each half as a separate frame, like the concatenation of two files."""
    half = len(data) // 2
    packed: bytes = pa.compress(data[:half], "lz4", asbytes=True) + pa.compress(data[half:], "lz4", asbytes=True)
    return packed


def read(path: Path, **options: Any) -> list[Record]:
    return [json.loads(record) for record in RecordFile(path, **options)]


class TestFormats:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("a.csv", "csv"), ("a.csv.gz", "csv"), ("A.CSV", "csv"), ("a.pq", "parquet"), ("a", "jsonl"),
            ("trades.csv.jsonl", "jsonl"), ("export.parquet.json.zst", "jsonl"), ("a.csv.ndjson", "jsonl"),
        ],
    )  # fmt: skip
    def test_the_last_known_suffix_is_the_format(self, name: str, expected: str) -> None:
        assert format_of(Path(name)) == expected

    @pytest.mark.parametrize("write", [json_lines, comma_separated, parquet])
    @settings(max_examples=examples(40))
    @given(data=st.data())
    def test_every_format_gives_the_same_records(
        self, tmp_path_factory: pytest.TempPathFactory, write: Callable[..., tuple[str, bytes]], data: st.DataObject
    ) -> None:
        entity = data.draw(st.sampled_from(ENTITIES))
        records = data.draw(records_of(entity))
        name, content = write(records, entity)
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(content)
        assert read(path, entity=entity) == records

    @pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstandard, lz4])
    @pytest.mark.parametrize("write", [json_lines, comma_separated, parquet])
    def test_every_packing(
        self, tmp_path: Path, write: Callable[..., tuple[str, bytes]], pack: Callable[[bytes], bytes]
    ) -> None:
        records = [{"a": n, "b": "x" * n or None} for n in range(50)]
        name, content = write(records, like(a=1, b="x"))
        path = tmp_path / f"{name}.packed"
        path.write_bytes(pack(content))
        file = RecordFile(path, entity=like(a=1, b="x"))
        assert [json.loads(record) for record in file] == records
        assert file.bytes_read() == file.size() == path.stat().st_size

    @pytest.mark.parametrize("write", [json_lines, comma_separated, parquet])
    def test_standard_input(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., tuple[str, bytes]]
    ) -> None:
        name, content = write([{"a": 1}, {"a": 2}], like(a=1))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
        file = RecordFile(STDIN, name.partition(".")[2], like(a=1))
        assert [json.loads(record) for record in file] == [{"a": 1}, {"a": 2}]
        assert file.size() == file.bytes_read() == 0

    def test_lines_are_left_as_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{ "a" : 1e2 }\r\n\n \n{"b":123456789012345678901234567890}')
        assert list(RecordFile(tmp_path / "a.jsonl")) == [b'{ "a" : 1e2 }', b'{"b":123456789012345678901234567890}']

    def test_text_of_columns_stays_text_without_an_entity(self, tmp_path: Path) -> None:
        (tmp_path / "a.tsv").write_text("a\tb\n1\t\n")
        assert read(tmp_path / "a.tsv") == [{"a": "1", "b": None}]


class TestBadRecords:
    @pytest.mark.parametrize(
        ("name", "content", "fault"),
        [
            ("a.jsonl", b'{"n":1}\n[1]\n{"n":2}', "line 2: it is not a JSON object"),
            ("a.jsonl", b'{"n":1}\n{"n":\n{"n":2}', "line 2: it is not valid JSON: Input data was truncated"),
            ("a.jsonl", b'{"n":1}\n{"n":"\xff"}\n{"n":2}', "line 2: it is not valid JSON: 'utf-8' codec"),
            ("a.jsonl", b'{"n":1}\n{"s":"%b"}\n{"n":2}' % (b"x" * MAX_OUTPUT_BYTES), "line 2: it has 1000008 bytes"),
            ("a.csv", b"n\n1\nx\n2\n", "line 3: n: 'x' is not a number"),
            ("a.csv", b"n\n1\n1,1\n2\n", "line 3: it has 2 fields, the header has 1"),
            ("a.csv", b'n\n1\n"1"1\n2\n', "line 3: ',' expected after '\"'"),
            ("a.csv", b"n,s\n1,\n1,\xff\n2,\n", "line 3: s is not in UTF-8"),
            ("a.csv", b"n,b\n1,\n1,yes\n2,\n", "line 3: b: 'yes' is neither true nor false"),
            ("a.csv", b'n,l\n1,\n1,"[1"\n2,\n', r"line 3: l: '\[1' is not a JSON list"),
            ("a.csv", b'n,o\n1,\n1,"[1]"\n2,\n', r"line 3: o: '\[1\]' is not a JSON object"),
        ],
    )
    def test_invalid_records_are_located_or_counted(
        self, tmp_path: Path, name: str, content: bytes, fault: str
    ) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        entity = like(n=1, b=True, l=[], o={})
        with pytest.raises(SetupError, match=f"{name}, {fault}"):
            list(RecordFile(path, entity=entity))
        file = RecordFile(path, entity=entity, skip_bad=True)
        assert [json.loads(record)["n"] for record in file] == [1, 2]
        assert file.skipped == 1

    def test_of_parquet(self, tmp_path: Path) -> None:
        pyarrow.parquet.write_table(pa.table({"n": ["1", "x", "2"]}), tmp_path / "a.parquet")
        with pytest.raises(SetupError, match=r"a\.parquet, record 2: n: 'x' is not a number"):
            list(RecordFile(tmp_path / "a.parquet", entity=like(n=1)))
        assert read(tmp_path / "a.parquet", entity=like(n=1), skip_bad=True) == [{"n": 1}, {"n": 2}]

    def test_unchecked(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_bytes(b"nonsense\n")
        assert list(RecordFile(tmp_path / "a.jsonl", check=False)) == [b"nonsense"]


class TestUnreadable:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.jsonl.gz", gzip.compress(b"{}\n" * 1000, mtime=0)[:20]),
            ("a.jsonl.bz2", bz2.compress(b"{}\n" * 1000)[:20]),
            ("a.jsonl.xz", lzma.compress(b"{}\n" * 1000)[:40]),
            ("a.jsonl.gz", b"\x1f\x8bnonsense"),
            ("a.csv", b"a,a\n1,2\n"),
            ("a.csv", b'"a'),
            ("a.csv", b"n;s\n1;2\n"),
            ("a.csv", b"sep=,\nn,s\n1,2\n"),
            ("a.csv", b"n, s\n1, 2\n"),
            ("a.parquet", b"nonsense"),
            ("a.parquet", b""),
        ],
    )
    def test_damage(self, tmp_path: Path, name: str, content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SetupError, match=f"{name} can't be read"):
            list(RecordFile(tmp_path / name, entity=like(n=1, s="")))

    @pytest.mark.parametrize(
        ("header", "advice"),
        [
            (b"n;s", "Did you mean --delimiter ';'"),
            (b"n\ts", r"Did you mean --delimiter '\\t'"),
            (b"sep=,\nn,s", "Excel's own: remove it"),
            (b"n, s", "' s' begins or ends with white space"),
            (b"a,b", "Members are n, s"),
        ],
    )
    def test_the_advice_for_a_header(self, tmp_path: Path, header: bytes, advice: str) -> None:
        (tmp_path / "a.csv").write_bytes(header + b"\n")
        with pytest.raises(SetupError, match=advice):
            list(RecordFile(tmp_path / "a.csv", entity=like(n=1, s="")))

    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard, lz4])
    @pytest.mark.parametrize("count", [3, 100_000])
    def test_records_before_the_damage_are_read(
        self, tmp_path: Path, pack: Callable[[bytes], bytes], count: int
    ) -> None:
        lines = b"".join(b'{"n":%d}\n' % n for n in range(count))
        whole = pack(lines)
        (tmp_path / "a").write_bytes(whole[: len(whole) * 2 // 3])
        read: list[bytes] = []
        with pytest.raises(SetupError, match="can't be read"):
            read.extend(RecordFile(tmp_path / "a", check=False))
        assert lines.startswith(b"".join(line + b"\n" for line in read[:-1]))

    @pytest.mark.parametrize("count", [3, 100_000])
    def test_gzip_with_trailing_garbage(self, tmp_path: Path, count: int) -> None:
        lines = b"".join(b'{"n":%d}\n' % n for n in range(count))
        (tmp_path / "a.gz").write_bytes(gzip.compress(lines) + b"garbage")
        file = RecordFile(tmp_path / "a.gz")
        assert b"".join(line + b"\n" for line in file) == lines
        assert (
            file.warning == f"{tmp_path / 'a.gz'}: the data after the end of the gzip data is not gzip, and is ignored"
        )

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match=r"absent can't be read: No such file or directory\.$"):
            list(RecordFile(tmp_path / "absent"))

    @pytest.mark.parametrize("content", [b"PAR1", zstandard(b"{}"), lz4(b"{}")])
    def test_without_the_extra(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(SetupError, match=r"needs the extra `parquet`"):
            list(RecordFile(tmp_path / "a.parquet"))


def test_columns_as_a_dialect_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n;b;s\n17;f;\\N\nnan;t;x\n")
    dialect = Dialect(";", frozenset({"\\N", "nan"}))
    assert read(tmp_path / "a.csv", entity=like(n=1, b=True, s=""), dialect=dialect) == [
        {"n": 17, "b": False, "s": None},
        {"n": None, "b": True, "s": "x"},
    ]
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(SetupError, match="are for CSV and TSV"):
        read(tmp_path / "a.jsonl", dialect=dialect)


@pytest.mark.parametrize("digits", [600_000, 1_100_000])
def test_huge_fields(tmp_path: Path, digits: int) -> None:
    (tmp_path / "a.csv").write_text(f"n,data\n1,0x\n2,0x{'ab' * (digits // 2)}\n")
    records = iter(RecordFile(tmp_path / "a.csv", entity=like(n=1, data="0x")))
    next(records)
    if digits < MAX_OUTPUT_BYTES:
        assert len(json.loads(next(records))["data"]) == digits + 2
    else:
        with pytest.raises(SetupError, match=r"a\.csv, line 3: it has 11000\d\d bytes"):
            next(records)


@pytest.mark.parametrize("pack", [zstandard, lz4, gzip.compress])
@pytest.mark.parametrize("nibble", [0x50, 0x5F])
def test_frames_that_are_skipped(tmp_path: Path, pack: Callable[[bytes], bytes], nibble: int) -> None:
    frame = bytes([nibble]) + b"\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"\x28\xb5\x2f\xfd"
    (tmp_path / "a").write_bytes(frame * 2 + pack(b'{"a":1}\n'))
    assert read(tmp_path / "a") == [{"a": 1}]


@pytest.mark.parametrize("rest", [1, 2, 3])
def test_a_skipped_frame_that_ends_just_before_the_end_of_the_buffer(tmp_path: Path, rest: int) -> None:
    size = DEFAULT_BUFFER_SIZE - 8 - rest
    (tmp_path / "a").write_bytes(
        b"\x50\x2a\x4d\x18" + size.to_bytes(4, "little") + bytes(size) + zstandard(b'{"a":1}\n')
    )
    assert read(tmp_path / "a") == [{"a": 1}]


def test_the_legacy_format_of_lz4_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "9.lz4").write_bytes(b"\x02\x21\x4c\x18" + bytes(20))
    with pytest.raises(SetupError, match="legacy format"):
        read(tmp_path / "9.lz4")


def test_lines(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    plain.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\n{"a":2}')
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_lines(plain)) == list(read_lines(packed)) == [b'{"a":1}', b'{"a":2}']


def test_the_command_offers_every_format() -> None:
    [offered, *_] = get_args(get_args(inspect.signature(replay).parameters["format_"].annotation)[0])
    assert get_args(offered) == tuple(FORMATS)
