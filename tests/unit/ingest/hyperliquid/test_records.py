"""Records of a node's lines, in the cases that its documentation describes."""

import json

import msgspec
import pytest

from headwater.ingest.base import StreamRecord
from headwater.ingest.hyperliquid import records
from headwater.ingest.hyperliquid.records import to_ms
from headwater.ingest.hyperliquid.websocket_messages import read
from headwater.model.natural_key import natural_key
from headwater.model.stream import find_chain
from tests.unit.ingest.hyperliquid.node_files import HASH, OTHER, TIME, TIME_MS, USER, fill, order

RAW = msgspec.Raw
FILL_EVENT_WITHOUT_TID = {name: value for name, value in fill()[1].items() if name != "tid"}
TRADE_WITHOUT_OIDS = {
    "coin": "COMP", "side": "B", "time": TIME, "px": "51.3670", "sz": "0.31", "hash": HASH,
    "side_info": [{"user": USER}, {"user": OTHER}],
}  # fmt: skip
REPLICA_LINE = b'{"abci_block":{"time":"2026-01-02T03:04:05.5","round":9,"proposer":"0xp","signed_action_bundles":[]}}'
REPLICA_BLOCK = records.read_replica_line(REPLICA_LINE, "day/3", 0).events[0]


def raw(value: object) -> msgspec.Raw:
    return RAW(json.dumps(value).encode())


def test_a_fill_keeps_every_byte_that_the_node_wrote() -> None:
    event = RAW(b'["0xab", {"coin":"BTC","px":"1.50","sz":"0.10","side":"B","time":5,"hash":"0x0","oid":1,'
                b'"crossed":true,"tid":9,"startPosition":"-7.50","builderFee":"0.000",'
                b'"liquidation":{"markPx":"1.0"}}]')  # fmt: skip
    record, half = records.fill_record(event, 12)
    assert record.value == (
        b'{"user":"0xab","coin":"BTC","px":"1.50","sz":"0.10","side":"B","time":5,"hash":"0x0","oid":1,'
        b'"crossed":true,"tid":9,"startPosition":"-7.50","builderFee":"0.000","liquidation":{"markPx":"1.0"},"block_number":12}'
    )
    assert half.trade_key == (5, "BTC", 9)


def test_fills_of_one_order_without_a_tid_are_distinguished() -> None:
    """One order may match many orders, and fills of the system have the tid 0."""
    events = [fill(0, startPosition=position, sz=size) for position in ("0.0", "0.25") for size in ("0.25", "0.5")]
    fill_records = [records.fill_record(raw(event), 5)[0] for event in events]
    assert len({record.key for record in fill_records}) == 4
    assert all(record.key == natural_key("hyperliquid", "fill")(record.value) for record in fill_records)


@pytest.mark.parametrize(
    ("entity", "value"),
    [
        ("fill", records.fill_record(raw(fill()), 5)[0]),
        ("fill", records.fill_record(raw(fill()), None)[0]),
        ("order", records.order_record(raw(order()), 5)),
        ("misc_event", records.misc_records(raw({"time": TIME, "hash": HASH, "inner": {"X": {}}}), 5, "5-0")[0]),
        ("block", records.block_record(REPLICA_BLOCK, 4)),
    ],
)  # fmt: skip
def test_records_have_the_members_and_the_key_of_the_catalog(entity: str, value: StreamRecord) -> None:
    chain = find_chain("hyperliquid")
    assert chain is not None
    known = chain.entity(entity)
    assert known is not None
    assert set(known.fields) <= set(json.loads(value.value))
    assert value.stream == entity
    assert value.key == natural_key("hyperliquid", entity)(value.value)


def test_a_fill_without_a_tid_has_the_key_of_the_catalog() -> None:
    for event in (FILL_EVENT_WITHOUT_TID, FILL_EVENT_WITHOUT_TID | {"startPosition": None}):
        record, side = records.fill_record(raw([USER, event]), 5)
        assert not side.has_tid
        assert record.key == natural_key("hyperliquid", "fill")(record.value)


def test_a_trade_without_order_ids_has_the_key_of_the_catalog() -> None:
    event = raw(TRADE_WITHOUT_OIDS)
    record = records.node_trade_record(records.read_node_trade(event), event, None, 0)
    assert record.key == natural_key("hyperliquid", "trade")(record.value)


def test_a_trade_that_the_node_has_written() -> None:
    info = [{"user": USER, "oid": 2, "start_pos": "0", "twap_id": None, "cloid": None},
            {"user": OTHER, "oid": 1, "start_pos": "0", "twap_id": 4, "cloid": None}]  # fmt: skip
    trade = {"coin": "COMP", "side": "B", "time": "2024-07-26T08:26:25.899", "px": "51.3670", "sz": "0.31",
            "hash": HASH, "trade_dir_override": "Na", "side_info": info}  # fmt: skip
    found = json.loads(records.node_trade_record(records.read_node_trade(raw(trade)), raw(trade), None, 4).value)
    assert found == {
        "coin": "COMP", "side": "B", "px": "51.3670", "sz": "0.31", "time": 1721982385899, "hash": HASH, "tid": None,
        "users": [USER, OTHER], "block_number": None, "trade_index": 4, "trade_dir_override": "Na", "side_info": info,
    }  # fmt: skip


def test_funding_that_is_larger_than_a_record_becomes_several() -> None:
    deltas = [{"user": f"0x{n:040x}", "coin": "BTC", "funding_amount": "1.0"} for n in range(20_000)]
    event = {"time": TIME, "hash": HASH, "inner": {"Funding": {"deltas": deltas}}}
    found = [json.loads(record.value) for record in records.misc_records(raw(event), 7, "7-1")]
    assert [delta for record in found for delta in record["inner"]["Funding"]["deltas"]] == deltas
    assert [record["unique_id"] for record in found] == ["7-1", *(f"7-1-{n}" for n in range(1, len(found)))]
    assert len(found) == 4
    assert all(len(json.dumps(record)) < 1_000_000 for record in found)


def test_another_large_event_stays_one_record() -> None:
    event = {"time": TIME, "hash": HASH, "inner": {"Other": {"x": "y" * 600_000}}}
    assert len(records.misc_records(raw(event), 7, "7-1")) == 1


@pytest.mark.parametrize("event", [5, {}, [], {"time": TIME}, {"time": TIME, "hash": HASH}])
def test_invalid_misc_events_are_rejected(event: object) -> None:
    with pytest.raises(records.BAD_EVENT_ERRORS):
        records.misc_records(raw(event), 7, "7-1")


def test_a_block_of_replica_cmds_counts_signed_actions() -> None:
    bundle = {"signed_actions": [{"action": {}}, {"action": {}}], "broadcaster": USER}
    line = {"abci_block": {"time": TIME, "round": 1087, "proposer": USER,
            "signed_action_bundles": [["0x1", bundle], ["0x2", bundle]]}, "resps": {"Full": []}}  # fmt: skip
    line_of_node = records.read_replica_line(json.dumps(line).encode(), "2026-01-02T00:00:00Z/20260102/808750000", 0)
    assert json.loads(records.block_record(line_of_node.events[0], line_of_node.block_number).value) == {
        "height": 808750001, "blockTime": TIME_MS, "hash": None, "proposer": USER, "numTxs": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [[USER], [1, fill()[1]], [USER, {"coin": "BTC"}], fill(px=1.5), fill(side="X"), [USER, fill()[1], 3], {"a": 1}, 5],
)
def test_invalid_fills_are_rejected(event: object) -> None:
    with pytest.raises(records.BAD_EVENT_ERRORS):
        records.fill_record(raw(event), 1)


@pytest.mark.parametrize(
    ("time", "ms"),
    [("1970-01-01T00:00:01", 1000), ("1970-01-01T00:00:01.5", 1500), ("1970-01-01T00:00:00.999999999", 999)],
)
def test_times(time: str, ms: int) -> None:
    assert to_ms(time) == ms


def test_a_message_without_a_channel_is_rejected() -> None:
    with pytest.raises(msgspec.DecodeError):
        read("{}")
