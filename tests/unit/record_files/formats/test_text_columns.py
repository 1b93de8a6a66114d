"""The conversion of text columns to JSON."""

import pytest

from headwater.record_files.formats.text_columns import converter_of


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("string", "17", b'"17"'),
        ("string", 'a "b"', rb'"a \"b\""'),
        ("integer", "17", b"17"),
        ("integer", "-0", b"-0"),
        ("integer", "17.0", b"17"),
        ("integer", "1.25E3", b"1250"),
        ("integer", "1.5", b"1.5"),
        ("integer", "115792089237316195423570985008687907853269984665640564039457584007913129639935", None),
        ("integer", "1e999999999", b"1e999999999"),
        ("integer", "1e99999999999999999999", b"1e99999999999999999999"),
        ("number", "1250000000.0", b"1250000000.0"),
        ("number", "0.10", b"0.10"),
        ("boolean", "True", b"true"),
        ("boolean", "FALSE", b"false"),
        ("boolean", "t", b"true"),
        ("boolean", "f", b"false"),
        ("boolean", "1", b"true"),
        ("boolean", "0", b"false"),
        (None, "17", b'"17"'),
        ("array", '["a", 1]', b'["a", 1]'),
        ("array", "0x1,0x2", b'["0x1","0x2"]'),
        ("array", "0x1, 0x2", b'["0x1","0x2"]'),
        ("array", "{0x1,0x2}", b'["0x1","0x2"]'),
        ("array", "{}", b"[]"),
        ("array", '{"a b","c,\\"d\\"",NULL}', rb'["a b","c,\"d\"",null]'),
        ("array", '{"NULL",null, a\\,b , "" }', rb'["NULL",null,"a,b",""]'),
        ("object", '{"a": 12345678901234567890}', b'{"a": 12345678901234567890}'),
    ],
)
def test_to_json(type_: str | None, text: str, expected: bytes | None) -> None:
    result = converter_of(type_)(text)
    assert result == (expected or (text.encode() if text[0] == "1" else b'"' + text.encode() + b'"'))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("integer", "0x11"),
        ("integer", "017"),
        ("integer", "NaN"),
        ("integer", " 1"),
        ("integer", "١"),
        ("number", "inf"),
        ("boolean", "2"),
        ("boolean", "yes"),
        ("object", "x"),
        ("array", "{{0x1},{0x2}}"),
        ("array", "{0x1"),
        ("array", "{0x1,}"),
        ("array", '{"0x1}'),
        ("array", '{"a":1}'),
        ("array", "[1,]"),
    ],
)
def test_values_of_another_type(type_: str | None, text: str) -> None:
    with pytest.raises(ValueError, match=r"is (no|neither)"):
        converter_of(type_)(text)
