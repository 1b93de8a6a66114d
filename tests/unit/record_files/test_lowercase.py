"""Members that streams store in lower case."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.natural_key import natural_key
from headwater.model.stream import CATALOG, find_chain
from headwater.record_files.lowercase import lowercase

NAMES = ("address", "topics")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b'{"address": "0xAb", "n": 12345678901234567890}', b'{"address":"0xab","n":12345678901234567890}'),
        (b'{"topics":["0xAB",null,"0xcd"],"name":"Transfer"}', b'{"topics":["0xab",null,"0xcd"],"name":"Transfer"}'),
        (b'{"address" :  "0xab", "name": "T"}', b'{"address" :  "0xab", "name": "T"}'),
        (b'{"address":null,"name":"0xAB"}', b'{"address":null,"name":"0xAB"}'),
        (b'{"address":{"address":"0xAB"}}', b'{"address":{"address":"0xAB"}}'),
        (b'{"address":"0xAB"', b'{"address":"0xAB"'),
        (b'{"topics":["0xA",1e5,1e999,1.0,{"A":1e5},["B"]]}', b'{"topics":["0xa",1e5,1e999,1.0,{"A":1e5},["b"]]}'),
        (b'{"address":"\xffA"}', b'{"address":"\xffA"}'),
        (b'["0xAB"]', b'["0xAB"]'),
    ],
)
def test_members(record: bytes, expected: bytes) -> None:
    assert lowercase(NAMES)(record) == expected


@given(st.dictionaries(st.sampled_from(["address", "topics", "name"]), st.text() | st.lists(st.text()) | st.integers()))
def test_any_record(record: dict[str, object]) -> None:
    def lower(value: object) -> object:
        if isinstance(value, list):
            return [lower(member) for member in value]
        return value.lower() if isinstance(value, str) and any("A" <= letter <= "Z" for letter in value) else value

    converted = json.loads(lowercase(NAMES)(json.dumps(record).encode()))
    for name, value in record.items():
        if name in NAMES and isinstance(value, str):
            assert converted[name] in (lower(value), value.lower())
        elif name in NAMES and isinstance(value, list):
            assert [str(one).lower() for one in converted[name]] == [one.lower() for one in value]
        else:
            assert converted[name] == value


def test_only_evm_streams_have_such_members() -> None:
    for chain in CATALOG:
        for entity in chain.entities:
            assert bool(entity.lowercase_fields) is (chain.chain_id is not None)
            assert set(entity.lowercase_fields) <= entity.fields.keys()


def test_the_key_is_the_same_in_any_case() -> None:
    chain = find_chain("base")
    assert chain is not None
    entity = chain.entity("log")
    assert entity is not None
    key_of, convert = natural_key("base", "log"), lowercase(entity.lowercase_fields)
    upper, lower = (b'{"transaction_hash":"0x%b","log_index":17}' % digits for digits in (b"AA", b"aa"))
    assert key_of(convert(upper)) == key_of(convert(lower)) == b"base:0xaa:17"
    assert key_of(b'{"transaction_hash":"0xaa","log_index":17.0}') == b"base:0xaa:17"
