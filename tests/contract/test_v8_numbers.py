"""Numbers in scripts: integers of any size are exact, and other numbers are doubles."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.support.v8 import Bench

MAX_SAFE = 2**53 - 1


def scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(), st.booleans(), st.text(), st.integers(-(2**300), 2**300), st.integers(MAX_SAFE - 3, MAX_SAFE + 3),
        st.floats(allow_nan=False, allow_infinity=False),
    )  # fmt: skip


def trees() -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )


def same(given_: Any, left: Any) -> bool:
    """Return whether integers have equal digits and floats are equal doubles."""
    if isinstance(given_, float):
        return float(left) == given_
    if isinstance(given_, dict) and isinstance(left, dict):
        return given_.keys() == left.keys() and all(same(given_[key], left[key]) for key in given_)
    if isinstance(given_, list) and isinstance(left, list):
        return len(given_) == len(left) and all(map(same, given_, left))
    return type(given_) is type(left) and bool(given_ == left)


def near(number: int) -> st.SearchStrategy[int]:
    """Generate integers that round to the same double.

    A literal from a wrong position is detected by them.
    """
    return st.integers(number - 2, number + 2)


def texts() -> st.SearchStrategy[str]:
    """Generate JSON objects with duplicate names, escapes and whitespace.

    They also have strings that look like members.
    """
    blank = st.sampled_from(["", "", " ", "\n\t"])
    name = st.sampled_from(["a", "b", "a", "\\u0061", "1", "2", "", "a-b", 'a\\"', "__proto__"])
    number = (near(2**53 + 4) | near(10**30)).map(str) | st.sampled_from(["1e30", "9007199254740996.0", "7", "-0"])
    fake = st.tuples(name, number).map(lambda fake: f'"x{fake[0]}\\"a\\":{fake[1]},"')
    word = st.sampled_from(['"a"', '"\\"a\\":9007199254740993,"', "null", '":"'])

    def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        member = st.tuples(name, blank, blank, inner, blank).map(lambda m: f'"{m[0]}"{m[1]}:{m[2]}{m[3]}{m[4]}')
        listed = st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        return st.lists(member, max_size=4).map(lambda members: "{" + ",".join(members) + "}") | listed

    return st.recursive(number | fake | word, compound, max_leaves=8)


class TestNumbers:
    @settings(max_examples=examples(60))
    @given(records=st.lists(texts(), min_size=1, max_size=20))
    @example(records=['{"o":{"a" :9007199254740993},"a":9007199254740995}'])
    @example(records=['{"a":9007199254740993,"\\u0061":9007199254740995}'])
    @example(records=['[{"a":9007199254740993},{"a":9007199254740995}]'])
    @example(records=['{"a":9007199254740993,"x":"\\"a\\":9007199254740995,"}'])
    @example(records=['{"x":[9007199254740993],"a":9007199254740995}'])
    @example(records=['{"a":9007199254740993,"b":9007199254740995}', '{"b":9007199254740995,"a":9007199254740993}'])
    @example(records=['{"a":9007199254740993}', '{"x":{"a":9007199254740995},"a":9007199254740997}'])
    @example(records=['{"a":9007199254740993}', '{"x":{"a":9007199254740995},"a":7}'])
    @example(records=['{"a":9007199254740993}', '{"x":{"a":9007199254740995}}'])
    @example(records=['{"a":9007199254740993}', '{"xa":9007199254740995,"a":9007199254740993.0}'])
    @example(records=['{"a":9007199254740993}', '{"x\\"a":9007199254740995,"\\u0061":9007199254740997}'])
    @example(records=['{"a":9007199254740993}', '{"é":"é","b":9007199254740997,"a":9007199254740995}'])
    @example(records=['{"a":9007199254740993}', '{"é":" ","b":9007199254740997,"c":1234567890123456}'])
    @example(records=['{"__proto__":9007199254740993,"a":9007199254740995}'] * 2)
    @example(records=['{"a": -9007199254740993 ,\t"b"\t:\r 9007199254740995 }'] * 2)
    @example(records=['{"a":12345678901234567890e-3,"b":1e-12345678901234567890,"c":[1,9007199254740993]}'] * 2)
    def test_each_member_has_the_digits_of_its_own_literal(self, module_bench: Bench, records: list[str]) -> None:
        lines = [text.encode() for text in records if text.startswith("{")]
        lines += [f'{{"r":{text}}}'.encode() for text in records]
        kept, failures = module_bench.run("function process(d) { return d }", lines)
        assert failures == []
        for line, value in zip(lines, kept, strict=True):
            assert same(json.loads(line), json.loads(value or b"")), line

    @pytest.mark.parametrize("letter", ["é", "漢", "🦊"])
    def test_numbers_after_any_number_of_non_ascii_characters(self, module_bench: Bench, letter: str) -> None:
        """Positions in bytes and in UTF-16 units differ.

        The difference may be the distance to another number.
        """
        shapes = [
            '{"x":"%s","a":12345678901234567,"b":5}',
            '{"x":"%s","raw_amount":-1000000000000000000000001,"log_index":7,"time":1767323045678,"y":[1, 2]}',
            '{"x":"%s","a":12345678901234567,"c":"é","b":76543210987654321, "d": 1                 ,"e":3}',
        ]
        lines = [(shape % (letter * count)).encode() for count in range(60) for shape in shapes]
        kept, failures = module_bench.run("function process(d) { return d }", lines)
        assert failures == []
        for line, value in zip(lines, kept, strict=True):
            assert json.loads(line) == json.loads(value or b"")

    @settings(max_examples=examples(25))
    @given(records=st.lists(st.dictionaries(st.text(), trees(), max_size=4), min_size=1, max_size=12))
    def test_every_record_survives_the_script_that_does_nothing(
        self, module_bench: Bench, records: list[dict[str, Any]]
    ) -> None:
        kept, failures = module_bench.run("function process(d) { return d }", [json.dumps(r).encode() for r in records])
        assert failures == []
        assert same(records, [json.loads(value or b"") for value in kept])

    @settings(max_examples=examples(40))
    @given(
        numbers=st.lists(st.integers(0, 2**256 - 1) | st.integers(MAX_SAFE - 2, MAX_SAFE + 2), min_size=1, max_size=20)
    )
    def test_integers_are_bigints_exactly_when_doubles_cannot_represent_them(
        self, module_bench: Bench, numbers: list[int]
    ) -> None:
        script = """
          function process(d) {
            const { y } = d.x[0];
            return { t: typeof y, s: String(y), b: BigInt(y) + 1n, m: -y };
          }
        """
        kept, _ = module_bench.run(script, [b'{"x":[{"y":%d}]}' % n for n in numbers])
        for number, value in zip(numbers, kept, strict=True):
            kind = "number" if number <= MAX_SAFE else "bigint"
            assert json.loads(value or b"") == {"t": kind, "s": str(number), "b": number + 1, "m": -number}

    @pytest.mark.parametrize(
        ("text", "leaves"),
        [
            ("9007199254740993", "9007199254740993"), ("-9007199254740993", "-9007199254740993"),
            ("9007199254740991", "9007199254740991"),
            ("1" + "0" * 400, "1" + "0" * 400), ("12345678901234567890.0", "12345678901234567000"), ("1e25", "1e+25"),
            ("12345678901234567890e0", "12345678901234567000"), ("1E400", "null"),
            ("0.1234567890123456789", "0.12345678901234568"),
            ("-0", "0"), ("123456789012345.25", "123456789012345.25"),
        ],
    )  # fmt: skip
    def test_texts_of_numbers(self, bench: Bench, text: str, leaves: str) -> None:
        kept, _ = bench.run("function process(d) { return d }", [b'{"s":"%b","n":%b}' % (text.encode(), text.encode())])
        assert kept == [b'{"s":"%b","n":%b}' % (text.encode(), leaves.encode())]
