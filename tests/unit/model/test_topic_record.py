"""The JSON form of records."""

import json
from typing import Any

import pytest

from headwater.model.topic_record import TopicRecord


def shown(value: bytes | None, **members: Any) -> dict[str, Any]:
    record = TopicRecord(1, 5, 1_767_323_045_678, b"k", value, **members)
    parsed: dict[str, Any] = json.loads(record.json_with_headers)
    return parsed


def test_a_record_with_all_members() -> None:
    record = TopicRecord(1, 5, 1_767_323_045_678, b"k", b'{"a":1}', (("headwater-src", b"t/1/2/0"),))
    members = b'"record":{"a":1},"partition":1,"offset":5,"timestamp":"2026-01-02T03:04:05.678Z","key":"k"'
    assert record.json == b"{" + members + b"}"
    assert record.json_with_headers == b"{" + members + b',"headers":{"headwater-src":"t/1/2/0"}}'


@pytest.mark.parametrize(
    "text", [b"12345678901234567890123", b"1.10", b"1e400", b"-0", b'{"a": [1.0,null]}', b"1" * 5_000]
)
def test_json_keeps_its_digits(text: bytes) -> None:
    assert b'"record":' + text + b"," in TopicRecord(0, 0, None, None, text).json


def test_an_unpaired_surrogate_stays_an_escape() -> None:
    assert b'"record":"\\ud83d",' in TopicRecord(0, 0, None, None, b'"\\ud83d"').json


def test_line_breaks_between_tokens_become_spaces() -> None:
    text = TopicRecord(0, 0, None, None, b'{\r\n"a":\n"b\\n"\r}').json
    assert b"\n" not in text
    assert b"\r" not in text
    assert json.loads(text)["record"] == {"a": "b\n"}


@pytest.mark.parametrize(
    ("value", "base64"),
    [
        (b"", ""),
        (b"\xff", "/w=="),
        (b'"\xff"', "Iv8i"),
        (b"NaN", "TmFO"),
        (b"{} {}", "e30ge30="),
        (b"\xef\xbb\xbf1", "77u/MQ=="),
    ],
)
def test_what_is_not_json_is_in_base64(value: bytes, base64: str) -> None:
    assert shown(value)["record_base64"] == base64
    assert "record" not in shown(value)


def test_json_that_is_nested_too_deeply_is_in_base64() -> None:
    assert "record_base64" in shown(b"[" * 100_000 + b"]" * 100_000)


def test_a_missing_value_key_and_time_are_null() -> None:
    record = json.loads(TopicRecord(0, 0, None, None, None).json)
    assert (record["record"], record["key"], record["timestamp"]) == (None, None, None)
    assert json.loads(TopicRecord(0, 0, 10**17, None, None).json)["timestamp"] is None


def test_keys_and_headers_that_are_not_text() -> None:
    record = TopicRecord(0, 0, 0, b"\xff", b"1", (("a", b"\xfe"), ("b", None), ("c", b"1"), ("c", b"2")))
    parsed = json.loads(record.json_with_headers)
    assert (parsed["key_base64"], parsed["headers_base64"]) == ("/w==", {"a": "/g=="})
    assert parsed["headers"] == {"b": None, "c": "2"}
    assert "key" not in parsed


def test_the_size_is_the_sum_of_all_parts() -> None:
    assert TopicRecord(0, 0, 0, b"key", b"value", (("name", b"text"), ("x", None))).size == 3 + 5 + 8 + 1
