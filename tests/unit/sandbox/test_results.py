import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.sandbox.frames import ProtocolError
from headwater.sandbox.results import ScriptFailure, parse_error, parse_lookup_request, parse_results


class TestResults:
    def test_all_records(self) -> None:
        results = parse_results(b'{"a":1}\n\n', b"2 0 0  ", 2)
        assert (results.record_count, results.interrupted, [*results.lines], results.logs) == (
            2,
            False,
            [b'{"a":1}', b""],
            [],
        )
        assert results.need_no_checks
        assert not results.has_multiple_outputs

    def test_interrupted_at_the_first(self) -> None:
        results = parse_results(b"", b"0 1 0  ", 3)
        assert (results.record_count, results.interrupted, [*results.lines]) == (0, True, [])

    def test_slow_records_errors_and_logs(self) -> None:
        results = parse_results(b'!"E","m",1,2\n{}\t{}\n', b'"said \\ud800"\n2 0 1 0,1 ', 2)
        assert results.slow_indexes == [0, 1]
        assert results.lines == [b'!"E","m",1,2', b"{}\t{}"]
        assert results.logs == ["said ?"]
        assert not results.need_no_checks
        assert results.has_multiple_outputs

    @pytest.mark.parametrize(
        ("payload", "summary"),
        [
            (b"", b""),
            (b"", b"1"),
            (b"{}\n", b"x 0 0  "),
            (b"{}\n{}\n{}\n", b"3 0 0  "),  # more than were sent
            (b"{}\n{}\n", b"1 0 0  "),  # more lines than records
            (b"{}\n{}", b"2 0 0  "),  # a line without an end
            (b"{}\n{}\n", b"2 1 0  "),  # interrupted after the last one
            (b"", b"0 0 0  "),  # no progress
            (b"\n", b"-1 0 0  "),
            (b"{}\n", b"1 0 0 1 "),  # an invalid slow record
            (b"{}\n", b"1 0 0 -1 "),
            (b"{}\n", b"1 0 1  "),  # no such log line
            (b"{}\n", b'"x"\n1 0 0  '),
            (b"{}\n", b"no JSON\n1 0 1  "),
            (b"{}\n", b"[]\n1 0 1  "),
        ],
    )
    def test_invalid_results(self, payload: bytes, summary: bytes) -> None:
        with pytest.raises(ProtocolError):
            parse_results(payload, summary, 2)

    @given(st.binary(max_size=60), st.binary(max_size=30))
    def test_any_bytes_parse_or_are_malformed(self, payload: bytes, summary: bytes) -> None:
        try:
            results = parse_results(payload, summary, 3)
        except ProtocolError:
            return
        assert len(results.lines) == results.record_count <= 3


class TestError:
    def test_with_and_without_a_place(self) -> None:
        assert parse_error(b'!"TypeError","x",3,14') == ScriptFailure("TypeError", "x", 3, 14)
        assert parse_error(b'!"Timeout","x",0,0') == ScriptFailure("Timeout", "x", None, None)

    def test_a_message_is_at_most_1024_bytes(self) -> None:
        message = parse_error(f'!"E",{json.dumps("é" * 1000, ensure_ascii=False)},0,0'.encode()).message
        assert message == "é" * 512

    @pytest.mark.parametrize(
        "line", [b"!", b"!1,2,3,4", b'!"a","b",0', b'!"a","b",0,0,0', b"![[[", b"!" + b"[" * 100_000]
    )
    def test_invalid_results(self, line: bytes) -> None:
        with pytest.raises(ProtocolError):
            parse_error(line)


class TestLookupRequest:
    def test_names_and_values(self) -> None:
        assert parse_lookup_request(b'["a",["x","y"],"b",[]]') == [("a", ["x", "y"]), ("b", [])]

    def test_lone_surrogates_are_members_of_nothing(self) -> None:
        assert parse_lookup_request(rb'["a",["x\ud800","?"],"\udfff",["y"]]') == [("a", ["", "?"]), ("", ["y"])]

    @pytest.mark.parametrize(
        "payload",
        [b"", b"{}", b'["a"]', b'[["a"],["b"]]', b'["a","b"]', b'["a",[1]]', rb'["\ud800",[1]]', rb'["\ud800"]'],
    )
    def test_invalid_results(self, payload: bytes) -> None:
        with pytest.raises(ProtocolError):
            parse_lookup_request(payload)
