"""Records of logs: fields, keys, amounts, and transfers without valid data."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.evm.abi import Abis, event_of_text
from headwater.ingest.evm.blocks import (
    Block,
    BlockWithTransactions,
    Header,
    Log,
    Receipt,
    Transaction,
    from_logs,
    from_receipts,
)
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.records import Converter, EncodedRecord, as_zerolag, retraction
from headwater.ingest.evm.token_transfers import TRANSFER, TRANSFER_BATCH, TRANSFER_SINGLE
from headwater.ingest.evm.well_known import well_known
from headwater.model.listed_token import TokenListEntry
from headwater.model.natural_key import natural_key
from headwater.model.stream import find_chain

HASH, PARENT, TX = "0x" + "d0" * 32, "0x" + "e1" * 32, "0x" + "3f" * 32
TOKEN = "0x9F47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"  # like some nodes
FROM, TO = "0x" + "5c" * 20, "0x" + "b2" * 20
WHEN = 1_767_323_045
BIG = 2**256 - 1
DETAILS = ("receipt_status", "receipt_gas_used", "receipt_effective_gas_price", "transaction_value")


def word(address: str) -> str:
    return "0x" + "0" * 24 + address[2:]


def block(*topics: str, data: bytes = b"") -> Block:
    log = Log(TOKEN, list(topics), f"0x{data.hex()}", HASH, hex(61_234_567), TX, "0x11", "0x2a")
    return Block(61_234_567, HASH, "0x", WHEN, [log], {TX: (FROM, TOKEN.lower())})


def made_of(
    seen: Block, counts: Counter[str] | None = None, *, token: TokenListEntry | None = None
) -> dict[str, list[EncodedRecord]]:
    tokens = {TOKEN.lower(): token} if token else {}
    converter = Converter("base", Decoder(Abis(well_known(), {})), tokens)
    by_entity: dict[str, list[EncodedRecord]] = {}
    for record in converter.convert(seen, Counter() if counts is None else counts):
        by_entity.setdefault(record.entity, []).append(record)
    return by_entity


def erc20(amount: int) -> Block:
    return block(TRANSFER, word(FROM), word(TO), data=encode(["uint256"], [amount]))


SINGLE = block(TRANSFER_SINGLE, word(FROM), word(FROM), word(TO), data=encode(["uint256", "uint256"], [12, 3]))


@pytest.mark.parametrize("entity", [entity.name for entity in find_chain("base").entities])  # type: ignore[union-attr]
def test_fields_and_their_order_are_those_of_the_example(entity: str) -> None:
    chain = find_chain("base")
    assert chain is not None
    known = chain.entity(entity)
    assert known is not None
    seen = {"erc721_token_transfer": block(TRANSFER, word(FROM), word(TO), "0x" + "0" * 63 + "7"),
            "erc1155_token_transfer": SINGLE}.get(entity, erc20(1_250_000_000))  # fmt: skip
    (log_record,) = made_of(seen)[entity]
    record = json.loads(log_record.value)
    assert list(record) == list(known.example)
    assert record["block_timestamp"] == known.example["block_timestamp"] == "2026-01-02T03:04:05Z"
    assert log_record.key == natural_key("base", entity)(log_record.value)


def test_an_amount_is_a_number_and_exact_as_text() -> None:
    (log_record,) = made_of(erc20(BIG))["erc20_token_transfer"]
    record = json.loads(log_record.value)
    assert (record["raw_amount"], record["raw_amount_str"]) == (float(BIG), str(BIG))
    assert isinstance(record["raw_amount"], float)
    assert (record["amount"], record["token_symbol"]) == (None, None)
    assert record["token_address"] == TOKEN.lower()
    assert record["unique_id"] == f"{TX}-42"


def test_a_listed_token_has_a_symbol_and_amounts() -> None:
    (log_record,) = made_of(erc20(BIG), token=TokenListEntry("USDC", 6))["erc20_token_transfer"]
    record = json.loads(log_record.value)
    assert (record["token_symbol"], record["amount_str"]) == ("usdc", f"{str(BIG)[:-6]}.{str(BIG)[-6:]}")
    assert record["amount"] == float(record["amount_str"])


def test_a_batch_is_a_record_for_each_token() -> None:
    data = encode(["uint256[]", "uint256[]"], [[1, BIG, 3], [10, 20, 30]])
    batch_records = made_of(block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=data))[
        "erc1155_token_transfer"
    ]
    records = [json.loads(each.value) for each in batch_records]
    assert [(r["array_index"], r["token_id"], r["amount_str"]) for r in records] == [
        (0, "1", "10"),
        (1, str(BIG), "20"),
        (2, "3", "30"),
    ]
    assert [each.key for each in batch_records] == [f"base:{TX}:42:{place}".encode() for place in range(3)]
    assert {r["event_type"] for r in records} == {"batch_transfer"}
    assert records[2]["unique_id"] == f"{TX}-42-2"


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


@pytest.mark.parametrize(
    "seen",
    [
        block(TRANSFER, word(FROM), word(TO)),
        block(TRANSFER_SINGLE, word(FROM), word(FROM), word(TO), data=words(1)),
        block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO)),
        block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=words(64, 2**200, 1)),
        block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=words(64, 128, 1, 5, 2, 6)),
        block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=words(64, 128, 1, 5, 2, 6, 7)),
        block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=words(64, 96, 2**256 - 1, 5)),
    ],
)
def test_a_transfer_without_its_data_is_counted_and_kept_as_a_log(seen: Block) -> None:
    counts = Counter[str]()
    records = made_of(seen, counts)
    assert not [entity for entity in records if entity.endswith("_token_transfer")]
    assert len(records["log"]) == 1
    assert counts["malformed"] == 1


OFFSETS = st.one_of(st.integers(0, 12).map(lambda n: 32 * n), st.integers(0, 400), st.just(2**256 - 1))


@given(st.lists(OFFSETS, max_size=12), st.binary(max_size=31))
def test_transfers_of_a_batch_are_what_its_decoded_log_says(numbers: list[int], rest: bytes) -> None:
    """Offsets need not be multiples of 32, and arrays may overlap."""
    seen = block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=words(*numbers) + rest)
    records = made_of(seen)
    transfers = [json.loads(each.value) for each in records.get("erc1155_token_transfer", [])]
    params = (
        json.loads(records["decoded_log"][0].value)["params"] if "decoded_log" in records else {"ids": [], "values": []}
    )
    pairs = zip(params["ids"], params["values"], strict=True) if len(params["ids"]) == len(params["values"]) else []
    assert [(each["token_id"], each["raw_amount_str"]) for each in transfers] == list(pairs)


def test_a_batch_whose_arrays_lie_at_odd_places_is_read() -> None:
    data = words(65, 129) + b"\xff" + words(1, 7, 1, 9)
    records = made_of(block(TRANSFER_BATCH, word(FROM), word(FROM), word(TO), data=data))
    (transfer,) = (json.loads(each.value) for each in records["erc1155_token_transfer"])
    assert (transfer["token_id"], transfer["amount_str"]) == ("7", "9")
    assert json.loads(records["decoded_log"][0].value)["params"]["ids"] == ["7"]


def test_all_streams_use_the_low_bits_of_dirty_addresses() -> None:
    dirty = "0x" + "f" * 24 + TO[2:]
    for seen in (
        block(TRANSFER, dirty, dirty, data=words(5)),
        block(TRANSFER, dirty, dirty, "0x" + "0" * 64),
        block(TRANSFER_SINGLE, dirty, dirty, dirty, data=words(1, 2)),
        block(TRANSFER_BATCH, dirty, dirty, dirty, data=words(64, 128, 1, 7, 1, 9)),
    ):
        records = made_of(seen)
        (entity,) = (each for each in records if each.endswith("_token_transfer"))
        transfer, params = json.loads(records[entity][0].value), json.loads(records["decoded_log"][0].value)["params"]
        assert (transfer["from_address"], transfer["to_address"]) == (TO, TO)
        assert (params["from"], params["to"]) == (TO, TO)


@pytest.mark.parametrize("size", [100, 300_000])
def test_a_too_large_decoded_record_counts_as_undecoded(size: int) -> None:
    event = event_of_text("Paid(bytes what)")
    data = words(32, size) + b"\xab" * size
    converter, counts = Converter("base", Decoder(Abis([event], {})), {}), Counter[str]()
    entities = [record.entity for record in converter.convert(block(event.topic0, data=data), counts)]
    assert entities == ["log", "decoded_log"] if size == 100 else ["log"]
    assert counts["undecoded"] == (size != 100)


def test_a_log_that_expands_to_gigabytes_is_not_decoded() -> None:
    event = event_of_text("ProposalCreated(bytes[] calldatas)")
    data = words(32, 6_000, *[32 * 6_000] * 6_000, 192_000) + b"\xab" * 192_000
    seen = block(event.topic0, data=data)
    seen = seen._replace(logs=[*seen.logs, *erc20(3).logs])
    converter, counts = Converter("base", Decoder(Abis([event, *well_known()], {})), {}), Counter[str]()
    entities = [record.entity for record in converter.convert(seen, counts)]
    assert entities == ["log", "log", "decoded_log", "erc20_token_transfer"]
    assert counts == {"undecoded": 1}


def test_a_log_with_other_topics_is_not_a_transfer() -> None:
    """ERC-20 indexes the parties. Transfers of old tokens that do not are only logs."""
    counts = Counter[str]()
    records = made_of(block(TRANSFER, data=words(1, 2, 3)), counts)
    assert list(records) == ["log"]
    assert counts == {"undecoded": 1}


def test_hex_is_converted_to_lower_case() -> None:
    """Hex in any case gives the records and keys of lower-case hex.

    There are checksummed addresses (EIP-55) and upper-case hashes.
    """
    (low,) = erc20(3).logs
    written = {
        name: value if name.endswith(("Index", "Number")) else shouted(value)
        for name, value in msgspec.to_builtins(low).items()
    }
    receipt = {"transactionHash": shouted(TX), "blockHash": shouted(HASH), "from": shouted(FROM), "to": shouted(TOKEN)}
    answered = msgspec.convert({**receipt, "logs": [written]}, Receipt)
    high = from_receipts(Header(hex(61_234_567), shouted(HASH), PARENT, hex(WHEN)), [answered])
    assert high is not None
    assert made_of(high) == made_of(erc20(3))
    assert set(made_of(high)) == {"log", "decoded_log", "erc20_token_transfer"}


def shouted(hex_: str | list[str]) -> Any:
    """Convert hex to upper case."""
    return [shouted(each) for each in hex_] if isinstance(hex_, list) else "0x" + hex_[2:].upper()


def test_all_records_have_the_members_of_the_receipt() -> None:
    receipt: dict[str, Any] = {"transactionHash": TX, "blockHash": HASH, "from": FROM, "to": None, "logs": []}
    receipt |= {"status": "0x0", "gasUsed": "0x5208", "effectiveGasPrice": hex(BIG)}
    records = made_of(read(receipt))
    assert set(records) == {"log", "decoded_log", "erc20_token_transfer"}
    for (record,) in records.values():
        found = json.loads(record.value)
        assert [found[name] for name in DETAILS] == [0, 21_000, str(BIG), None]


@pytest.mark.parametrize("quantity", [None, "", "0x", "21000", 21_000, "0x-1", "rubbish", hex(2**256)])
def test_missing_members_are_null(quantity: Any) -> None:
    receipt = {"transactionHash": TX, "blockHash": HASH, "from": FROM, "logs": []}
    receipt |= dict.fromkeys(("status", "gasUsed", "effectiveGasPrice"), quantity)
    (record,) = made_of(read(receipt))["log"]
    assert [json.loads(record.value)[name] for name in DETAILS] == [None] * 4


def test_blocks_without_receipts_have_only_the_value() -> None:
    transactions = [Transaction(TX, FROM, TO, hex(10**19))]
    full = BlockWithTransactions(hex(61_234_567), HASH, PARENT, hex(WHEN), transactions=transactions)
    block_read = from_logs(full, erc20(3).logs)
    assert block_read is not None
    (record,) = made_of(block_read)["log"]
    assert [json.loads(record.value)[name] for name in DETAILS] == [None, None, None, str(10**19)]


def read(receipt: dict[str, Any]) -> Block:
    """Return a node's block of one receipt with an ERC-20 transfer."""
    found = msgspec.convert(receipt, Receipt)
    found.logs = list(erc20(3).logs)
    block_read = from_receipts(Header(hex(61_234_567), HASH, PARENT, hex(WHEN)), [found])
    assert block_read is not None
    return block_read


def test_equal_indexes_of_two_transactions_are_two_records() -> None:
    """Some Polygon nodes restart the log index at 0 for the last transaction of a block.

    It is the system transaction.
    """
    first, second = erc20(3).logs[0], erc20(4).logs[0]
    second.transaction_hash = "0x" + "4a" * 32
    seen = erc20(3)._replace(logs=[first, second])
    for record in made_of(seen).values():
        assert len({each.key for each in record}) == 2
        assert len({json.loads(each.value).get("unique_id", each.key) for each in record}) == 2


def test_a_log_without_topics_is_a_log() -> None:
    (log_record,) = made_of(block())["log"]
    record = json.loads(log_record.value)
    assert (record["topics"], record["topic0"]) == ([], None)


def test_a_retraction_differs_in_one_member() -> None:
    for entity, mades in made_of(erc20(3)).items():
        fast = as_zerolag(mades[0])
        assert fast.key == mades[0].key
        before, after = json.loads(fast.value), json.loads(retraction(fast.value))
        assert before == json.loads(mades[0].value) | {"removed": False}, entity
        assert after == before | {"removed": True}


def test_the_shipped_events_have_no_doubles() -> None:
    events = well_known()
    assert len({(event.topic0, event.topic_count) for event in events}) == len(events)
