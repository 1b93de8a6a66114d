"""Natural keys of records, as the stream catalog names them."""

import json

import pytest

from headwater.model.natural_key import natural_key
from headwater.model.stream import CATALOG, Chain, Entity


@pytest.mark.parametrize(
    ("entity", "line", "key"),
    [
        ("log", b'{"transaction_hash":"0x1","log_index":7,"other":[1]}', b"base:0x1:7"),
        ("log", b'{"transaction_hash":"0x1","log_index":7,"removed":true}', b"base:0x1:7"),
        ("erc1155_token_transfer", b'{"transaction_hash":"0x1","log_index":7,"array_index":2}', b"base:0x1:7:2"),
        ("log", b'{"transaction_hash":"0x1"}', None),
        ("log", b'{"transaction_hash":"0x1","log_index":null}', None),
        ("log", b'{"transaction_hash":{"a":1},"log_index":7}', None),
        ("log", b"[1]", None),
        ("log", b"nonsense", None),
        ("log", b'{"log_index":5', None),
        ("log", b'{"a":' + b"[" * 5000, None),
        ("log", b"\xff", None),
        ("no_such_entity", b"{}", None),
    ],
)
def test_keys(entity: str, line: bytes, key: bytes | None) -> None:
    assert natural_key("base", entity)(line) == key


def test_a_path_of_a_nested_field() -> None:
    key_of = natural_key("hyperliquid", "order")
    order = {"user": "0xa", "status": "open", "time": "t", "order": {"oid": 2**60, "sz": "1"}}
    assert key_of(json.dumps(order).encode()) == b"hyperliquid:0xa:%d:open:t" % 2**60
    assert key_of(json.dumps(order | {"order": {}}).encode()) is None
    assert key_of(json.dumps({name: value for name, value in order.items() if name != "order"}).encode()) is None


def test_records_that_lack_a_field_have_another_key() -> None:
    key_of = natural_key("hyperliquid", "trade")
    trade = {"coin": "BTC", "time": 5, "tid": None, "side_info": [{"oid": 9, "user": "0xa"}, {"oid": 3}, {"oid": 1}]}
    assert key_of(json.dumps(trade | {"tid": 7}).encode()) == b"hyperliquid:BTC:7:5"
    assert key_of(json.dumps(trade).encode()) == b"hyperliquid:BTC:9:3:5"
    for side_info in ([{"oid": 9}], [{"oid": 9}, {"oid": None}], [{"oid": 9}, {}], [9, 3], {"oid": 9}, None):
        assert key_of(json.dumps(trade | {"side_info": side_info}).encode()) is None


@pytest.mark.parametrize(("chain", "entity"), [(c, e) for c in CATALOG for e in c.entities])
def test_examples_have_a_key(chain: Chain, entity: Entity) -> None:
    key = natural_key(chain.name, entity.name)(json.dumps(entity.example).encode())
    assert (key is not None) == bool(entity.key)
