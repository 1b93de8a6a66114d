"""Chains of scripts give the same outputs as their functions in plain JavaScript."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.ingest.evm.abi import Abis
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.records import Converter
from headwater.ingest.evm.well_known import well_known
from tests.examples import examples
from tests.support.plain_chain import Filter, Outputs, PlainDeno, SandboxChains, Step
from tests.unit.ingest.evm.recorded import blocks_of, needs_recorded

COPY = "function process(r) { return r }"
KINDS = """function process(r) {
  const kinds = (value) => typeof value !== 'object' || value === null ? typeof value : Object.values(value).map(kinds);
  return { ...r, kinds: kinds(r) };
}"""
SCRIPTS = [
    COPY,
    KINDS,
    "function process(r) { return { ...r, share: r.raw_amount / 1e18 } }",
    "function process(r) { return { ...r, share: Number(r.raw_amount) / 3 } }",
    "function process(r) { return { ...r, raw_amount: Number(r.raw_amount) * 1.5 } }",
    "function process(r) { return { ...r, exact: BigInt(r.log_index) * 10n ** 20n, small: 5n } }",
    "function process(r) { return { exact: -(10n ** 30n), ...r, o: { x: [1n, 2 ** 60], y: { z: -(2n ** 80n) } } } }",
    "function process(r) { return { s: `12e0,${r.log_index}e0]`, t: '\"a\":5e0}', ...r } }",
    "function process(r) { return [r, { ...r, copy: 1 }, null] }",
    "function process(r) { return r.log_index % 3 ? r : null }",
    "function process(r) { const { raw_amount, ...rest } = r; return { rest, raw_amount } }",
    "function process(r) { return r.rest ? { ...r.rest, log_index: 2n ** 70n } : r }",
    "function process(r) { for (const k in r) if (typeof r[k] === 'bigint') r[k] += 1n; return r }",
    "function process(r) { r.list = Array.from({ length: 40 }, (_, i) => i % 2 ? BigInt(i) : i * 1e15); return r }",
    "function process(r) { return { ...r, text: JSON.stringify({ a: r.exact ?? 1 }, (k, v) => String(v)) } }",
]
FILTERS = [
    Filter("log_index", ("1", "2", "3", "1180591620717411303424", *map(str, range(10, 60, 2)))),
    Filter("small", ("5",)),
    Filter("small", ("5e0", "5n")),
    Filter("exact", ("-1000000000000000000000000000000", "300000000000000000000")),
    Filter("list", ("17", "2000000000000000")),
    Filter("s", ("12e0,1e0]", "12e0,7e0]")),
]


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainDeno]:
    with PlainDeno() as plain_deno:
        yield plain_deno


@pytest.fixture(scope="module")
def chains() -> Iterator[SandboxChains]:
    with SandboxChains() as sandbox_chains:
        yield sandbox_chains


def generated(seed: int) -> list[Step]:
    """Generate two to four scripts, some with a filter between them."""
    rng = random.Random(seed)
    steps: list[Step] = []
    for number in range(rng.randint(2, 4)):
        if number and rng.random() < 0.3:
            steps.append(rng.choice(FILTERS))
        steps.append(rng.choice(SCRIPTS))
    return steps


def transfers(chain: str) -> list[bytes]:
    """Return the token transfers of all recorded blocks."""
    converter = Converter(chain, Decoder(Abis(well_known(), {})), {})
    transfers_ = [record for block in blocks_of(chain) for record in converter.convert(block, Counter())]
    return [record.value for record in transfers_ if record.entity == "erc20_token_transfer"]


def sorted_per_record(outputs: Outputs) -> Outputs:
    """Sort errors after the outputs of each record.

    Only the order of the outputs matters.
    """
    return [sorted(of_record) for of_record in outputs]


def numbers() -> st.SearchStrategy[str]:
    """Generate the whole range of JSON numbers in all notations."""
    digits = st.integers(-(10**40), 10**40) | st.integers(2**53 - 3, 2**53 + 3) | st.integers(-3, 3)
    doubles = st.floats(allow_nan=False, allow_infinity=False).map(repr)
    shapes = st.builds("{}.{}e{}".format, st.integers(-99, 99), st.integers(0, 10**20), st.integers(-320, 320))
    return digits.map(str) | doubles | shapes | st.integers(10**15, 10**25).map(float).map(repr)


def records() -> st.SearchStrategy[bytes]:
    """Generate objects with such numbers.

    They also have strings that look like the encoding between scripts.
    """
    text = st.sampled_from(["", "12e0", '":5e0,', "\\", '\\":1e0}', " ", "é", "\ud83e\udd8a"]) | st.text(max_size=4)
    name = st.sampled_from(["a", "b", "raw_amount", "log_index", "exact", "a b", "é", "__proto__", "1", ""])
    leaf = numbers() | text.map(json.dumps) | st.sampled_from(["null", "true", "[]", "{}"])

    def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        members = st.dictionaries(name, inner, max_size=4).map(
            lambda found: "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in found.items()) + "}"
        )
        return members | st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")

    values = st.recursive(leaf, compound, max_leaves=6)
    return st.dictionaries(name, values, max_size=5).map(
        lambda found: ("{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in found.items()) + "}").encode()
    )


class TestComposition:
    @settings(max_examples=examples(80))
    @given(steps=st.integers(0, 10**6).map(generated), given_=st.lists(records(), min_size=1, max_size=12))
    @example(steps=[COPY, KINDS], given_=[b'{"a":48393744103758200.0}', b'{"a":48393744103758200}'])
    @example(steps=[COPY, COPY, KINDS], given_=[b'{"a":1e400,"b":-0,"c":1E21,"d":12345678901234567890}'] * 2)
    @example(steps=[SCRIPTS[5], Filter("small", ("5",)), KINDS], given_=[b'{"log_index":0}', b'{"log_index":1}'])
    @example(
        steps=[COPY, KINDS], given_=[b'{"a":{"b":10000000000000000},"b":1}', b'{"b":10000000000000000,"a":{"b":1}}']
    )
    @example(steps=[COPY, KINDS], given_=[b'{"x":10000000000000000}', b'{"y":{"x":10000000000000000}}'])
    def test_of_records_with_numbers_of_all_kinds(
        self, plain: PlainDeno, chains: SandboxChains, steps: list[Step], given_: list[bytes]
    ) -> None:
        assert sorted_per_record(chains.run(steps, given_)) == sorted_per_record(plain.run(steps, given_))

    @needs_recorded
    @pytest.mark.parametrize(
        "seeds", [range(20), pytest.param(range(20, 220), marks=pytest.mark.slow)], ids=["20", "200"]
    )
    def test_of_generated_chains_on_recorded_transfers(
        self, plain: PlainDeno, chains: SandboxChains, seeds: Sequence[int]
    ) -> None:
        given_ = transfers("base")[:300]
        for seed in seeds:
            steps = generated(seed)
            assert sorted_per_record(chains.run(steps, given_)) == sorted_per_record(plain.run(steps, given_)), steps

    @needs_recorded
    @pytest.mark.parametrize("chain", ["base", "polygon"])
    def test_a_copy_and_a_quotient_of_every_recorded_transfer(self, chains: SandboxChains, chain: str) -> None:
        given_ = transfers(chain)
        assert len(given_) > 50
        divide = "function process(t) { return { share: t.raw_amount / 1e18 } }"
        outputs = chains.run([COPY, divide], given_)
        expected: list[list[Any]] = [[{"share": json.loads(value)["raw_amount"] / 1e18}] for value in given_]
        assert [[json.loads(text) for text in texts] for texts in outputs] == expected


class TestBetween:
    def test_a_filter_sees_digits(self, chains: SandboxChains) -> None:
        make = "function process(r) { return { big: 10n ** 25n, small: -7n, list: [3n], text: '9e0', number: 1e25 } }"
        for member, value, keeps in [
            ("big", "1" + "0" * 25, True), ("small", "-7", True), ("list", "3", True), ("text", "9e0", True),
            ("text", "9", False), ("big", "1" + "0" * 25 + "e0", False), ("number", "1e+25", True),
        ]:  # fmt: skip
            assert (chains.run([make, Filter(member, (value,)), COPY], [b"{}"]) != [[]]) is keeps, (member, value)

    def test_questions_about_bigints(self, chains: SandboxChains) -> None:
        ask = "function process(r) { return { ...r, found: flow.contains('numbers', [r.n]) } }"
        given_ = [b'{"n":%d}' % n for n in (3, 4, 12345678901234567890, 12345678901234567891)] * 30
        big = """function process(r) {
          const n = BigInt(r.n);
          return flow.contains('numbers', [r.n]) ? { n, first: 1 } : { n };
        }"""
        expected = [
            [text]
            for text in (
                '{"n":3,"first":1,"found":true}',
                '{"n":4,"found":false}',
                '{"n":12345678901234567890,"first":1,"found":true}',
                '{"n":12345678901234567891,"found":false}',
            )
        ]
        assert chains.run([big, ask, COPY], given_) == expected * 30

    @pytest.mark.parametrize(
        ("fault", "errors"),
        [("for (;;);", "Timeout"), ("const a = []; for (;;) a.push(Array(1e5).fill(1.5))", "Timeout or SandboxCrash")],
    )
    def test_a_failing_script_does_not_affect_numbers_of_other_records(
        self, plain: PlainDeno, chains: SandboxChains, fault: str, errors: str
    ) -> None:
        make = "function process(r) { return { n: BigInt(r.n), number: 2 ** 60 + r.n * 1024 } }"
        bad = """function process(r) {
          if (r.n === 5n) { FAULT }
          return { ...r, is: typeof r.n + typeof r.number };
        }"""
        given_ = [b'{"n":%d}' % n for n in range(12)]
        outputs = chains.run([make, bad.replace("FAULT", fault), COPY], given_)
        assert outputs.pop(5)[0] in errors
        assert outputs == plain.run([make, bad.replace("FAULT", ""), COPY], given_[:5] + given_[6:])

    def test_each_output_has_its_own_random_numbers(self, chains: SandboxChains) -> None:
        many = "function process(r) { return Array.from({ length: 30 }, (_, n) => ({ n })) }"
        two, chance = (
            "function process(r) { return [r, r] }",
            "function process(r) { return { chance: Math.random() } }",
        )
        (outputs,) = chains.run([many, two, chance], [b"{}"])
        assert len({*outputs}) == len(outputs) == 60

    def test_raw_json_of_a_script_keeps_its_digits(self, chains: SandboxChains) -> None:
        make = """function process(r) {
          const [a, b, c] = ['12345678901234567890', '1.50', '"5e0"'].map(JSON.rawJSON);
          return { a, b, c, d: (10n ** 20n).toJSON(), e: 4n };
        }"""
        kinds = "function process(r) { return { ...r, kinds: Object.values(r).map((value) => typeof value) } }"
        expected = (
            '{"a":12345678901234567890,"b":1.5,"c":"5e0","d":100000000000000000000,"e":4,'
            '"kinds":["bigint","number","string","bigint","bigint"]}'
        )
        assert chains.run([make, kinds], [b"{}"]) == [[expected]]

    def test_bigints_with_a_custom_serialisation(self, chains: SandboxChains) -> None:
        own = "BigInt.prototype.toJSON = function () { return `${this}n` };\n"
        assert chains.run([f"{own}function process(r) {{ return {{ a: 5n }} }}", KINDS], [b"{}"]) == [
            ['{"a":"5n","kinds":["string"]}']
        ]

    def test_records_of_the_largest_size_have_room_for_bigint_marks(self, chains: SandboxChains) -> None:
        make = "function process(r) { return { a: Array(1000).fill(10n ** 99n), s: 'x'.repeat(r.s) } }"
        room = 1_000_000 - len(json.dumps({"a": [10**99] * 1000, "s": ""}, separators=(",", ":")))
        fits, is_too_large = chains.run([make, COPY], [b'{"s":%d}' % room, b'{"s":%d}' % (room + 1)])
        assert len(fits[0]) == 1_000_000
        assert is_too_large == ["OutputTooLarge"]
