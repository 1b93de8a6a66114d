"""Records of blocks have the stream's fields, and are equal from both encodings.

They are complete for recorded blocks.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from headwater.ingest.solana.blocks import BLOCK, TransactionEntry
from headwater.ingest.solana.records import records, transaction_record
from headwater.model.natural_key import natural_key
from headwater.model.stream import find_chain
from tests.support.solana_blocks import (
    FOLDER,
    VOTE,
    Chain,
    Json,
    as_wire,
    from_base58,
    is_vote,
    nonvoting,
    recorded,
    to_base58,
)

RECORDED = pytest.mark.skipif(not FOLDER.exists(), reason="HEADWATER_TEST_DATA names no folder with recorded data")
ABOUT = {"block_slot": 7, "block_height": None, "block_timestamp": None, "block_hash": "h"}
SOLANA = find_chain("solana")
assert SOLANA is not None
ENTITY = SOLANA.entities[0]
VALID = jsonschema_rs.validator_for(ENTITY.json_schema)


def converted(block: Json, slot: int) -> list[Json]:
    parsed = BLOCK.decode(json.dumps(block))
    assert parsed is not None
    found = list(records(parsed, slot, "solana"))
    assert {record.stream for record in found} <= {"nonvoting_transaction"}
    assert [record.key for record in found] == [natural_key("solana", ENTITY.name)(record.value) for record in found]
    return [json.loads(record.value) for record in found]


@pytest.mark.parametrize("block_time", [-1, 1 << 60, 1.5, "1767323045"])
def test_a_block_with_an_invalid_time_is_rejected(block_time: Any) -> None:
    block = {"parentSlot": 6, "blockhash": "h", "transactions": [], "blockTime": block_time}
    with pytest.raises(msgspec.ValidationError, match="blockTime"):
        BLOCK.decode(json.dumps(block))
    assert BLOCK.decode(json.dumps(block | {"blockTime": 1767323045})) is not None


def one(entry: Json) -> Json | None:
    return transaction_record(msgspec.json.decode(json.dumps(entry), type=TransactionEntry), 3, ABOUT)


def expected(entry: Json, index: int) -> Json:
    """Return the expected content of a transaction's record, computed independently."""
    message, meta = entry["transaction"]["message"], entry["meta"]
    loaded = meta.get("loadedAddresses") or {"writable": [], "readonly": []}
    static = message["accountKeys"]
    keys = static + loaded["writable"] + loaded["readonly"]
    groups = {group["index"]: group["instructions"] for group in meta["innerInstructions"]}
    return {
        "txn_id": entry["transaction"]["signatures"][0],
        "txn_index": index,
        "version": str(entry["version"]),
        "compute_units_consumed": meta.get("computeUnitsConsumed"),
        "address_table_lookups": _lookups(message) if entry["version"] == 0 else None,
        "fee": meta["fee"],
        "success": meta["err"] is None,
        "signer": static[0],
        "pubkeys": keys,
        "sources": ["transaction"] * len(static) + ["lookupTable"] * (len(keys) - len(static)),
        "log_messages": meta["logMessages"],
        "pre_balances": meta["preBalances"],
        "tokens": [(keys[b["accountIndex"]], b["uiTokenAmount"]["amount"]) for b in meta["postTokenBalances"]],
        "outer": [(1, _ran(one, keys)) for one in message["instructions"]],
        "inner": [(at, one.get("stackHeight"), _ran(one, keys)) for at in sorted(groups) for one in groups[at]],
    }


def _lookups(message: Json) -> list[list[Any]]:
    names = ("accountKey", "writableIndexes", "readonlyIndexes")
    return [[one[name] for name in names] for one in message["addressTableLookups"]]


def _ran(one: Json, keys: list[str]) -> Any:
    data = one["data"]
    return keys[one["programIdIndex"]], [keys[at] for at in one["accounts"]], data, from_base58(data).hex()


def content_of(record: Json) -> Json:
    """Return the same content from a record."""
    names: tuple[str, ...] = (
        "txn_id", "txn_index", "fee", "success", "signer", "pubkeys", "log_messages", "pre_balances",
    )  # fmt: skip
    ran = [
        (at["stack_height"], (at["program_id"], at["accounts"], at["data"], at["data_hex"]))
        for at in record["instructions"]
    ]
    inner = [
        (at["instruction_index"], at["stack_height"], (at["program_id"], at["accounts"], at["data"], at["data_hex"]))
        for at in record["inner_instructions"]
    ]
    lookups = record["address_table_lookups"]
    names += ("version", "compute_units_consumed")
    return {name: record[name] for name in names} | {
        "address_table_lookups": None if lookups is None else [[*one.values()] for one in lookups],
        "sources": [key["source"] for key in record["account_keys"]],
        "tokens": [(balance["account"], balance["amount"]) for balance in record["post_token_balances"]],
        "outer": ran,
        "inner": inner,
    }


def kept(block: Json) -> Iterator[tuple[int, Json]]:
    for index, entry in enumerate(block["transactions"]):
        if not is_vote(entry):
            yield index, entry


def check(block: Json, slot: int) -> list[Json]:
    """Assert the properties of the records of any block in the encoding `json`."""
    found = converted(block, slot)
    assert [content_of(record) for record in found] == [expected(entry, index) for index, entry in kept(block)]
    for record in found:
        assert record.keys() == ENTITY.example.keys() == ENTITY.fields.keys()
        VALID.validate(record)
        assert record["instructions"][0].keys() == ENTITY.example["instructions"][0].keys()
        assert record["account_keys"][0].keys() == ENTITY.example["account_keys"][0].keys()
    wire = {**block, "transactions": [as_wire(entry) for entry in block["transactions"]]}
    assert converted(wire, slot) == found
    return found


class TestGenerated:
    @pytest.mark.parametrize("number", range(20))
    def test_blocks(self, number: int) -> None:
        blocks = Chain(number).blocks(1000, 1010)
        found = [record for slot, block in blocks.items() for record in check(block, slot)]
        assert [record["txn_id"] for record in found] == nonvoting(blocks)

    def test_a_complete_record(self) -> None:
        entry = {
            "transaction": {
                "signatures": ["5igA", "5igB"],
                "message": {
                    "header": {
                        "numRequiredSignatures": 2,
                        "numReadonlySignedAccounts": 1,
                        "numReadonlyUnsignedAccounts": 1,
                    },
                    "accountKeys": ["A", "B", "C", "P"],
                    "recentBlockhash": "r",
                    "instructions": [{"programIdIndex": 3, "accounts": [0, 4], "data": "3Bxs4", "stackHeight": None}],
                    "addressTableLookups": [
                        {"accountKey": "T", "writableIndexes": [9], "readonlyIndexes": [255]},
                    ],
                },
            },
            "version": 0,
            "meta": {
                "err": {"InstructionError": [0, {"Custom": 1}]},
                "fee": 10_000,
                "preBalances": [50_000, 1, 0, 1, 9, 18_446_744_073_709_551_615],
                "postBalances": [40_000, 1, 0, 1, 19, 18_446_744_073_709_551_615],
                "innerInstructions": [
                    {"index": 0, "instructions": [
                        {"programIdIndex": 5, "accounts": [], "data": "", "stackHeight": 2},
                        {"programIdIndex": 5, "accounts": [], "data": ""},
                    ]},
                ],
                "logMessages": None,
                "computeUnitsConsumed": 18_446_744_073_709_551_615,
                "preTokenBalances": [
                    {"accountIndex": 4, "mint": "M", "uiTokenAmount": {"amount": "7", "decimals": 2}}
                ],
                "postTokenBalances": [],
                "loadedAddresses": {"writable": ["W"], "readonly": ["R"]},
            },
        }  # fmt: skip
        common = {
            "txn_id": "5igA", "txn_index": 3, "instruction_index": 0, "program_name": None, "parsed": None,
            "parsed_type": None, "is_voting": False, "parent_tx_signer": "A", "parent_tx_success": False,
        }  # fmt: skip
        assert one(entry) == ABOUT | {
            "txn_id": "5igA", "txn_index": 3, "version": "0", "signatures": ["5igA", "5igB"], "fee": 10_000,
            "compute_units_consumed": 18_446_744_073_709_551_615,
            "err": '{"InstructionError":[0,{"Custom":1}]}', "success": False, "is_voting": False,
            "recent_block_hash": "r", "signer": "A",
            "account_keys": [
                {"pubkey": "A", "signer": True, "source": "transaction", "writable": True},
                {"pubkey": "B", "signer": True, "source": "transaction", "writable": False},
                {"pubkey": "C", "signer": False, "source": "transaction", "writable": True},
                {"pubkey": "P", "signer": False, "source": "transaction", "writable": False},
                {"pubkey": "W", "signer": False, "source": "lookupTable", "writable": True},
                {"pubkey": "R", "signer": False, "source": "lookupTable", "writable": False},
            ],
            "pubkeys": ["A", "B", "C", "P", "W", "R"],
            "address_table_lookups": [{"account_key": "T", "writable_indexes": [9], "readonly_indexes": [255]}],
            "log_messages": None,
            "pre_balances": [50_000, 1, 0, 1, 9, 18_446_744_073_709_551_615],
            "post_balances": [40_000, 1, 0, 1, 19, 18_446_744_073_709_551_615],
            "pre_token_balances": [
                {"account_index": 4, "account": "W", "amount": "7", "mint": "M", "owner": None, "decimals": 2}
            ],
            "post_token_balances": [],
            "mint_to_decimals": {"M": 2}, "token_accounts": {"W": "M"}, "sol_amounts": {"A": -10_000, "W": 10},
            "instruction_count": 1,
            "instructions": [
                common | {"program_id": "P", "accounts": ["A", "W"], "data": "3Bxs4", "data_hex": "0179fdc3",
                          "stack_height": 1, "inner_instruction_count": 2}
            ],
            "inner_instructions": [
                common | {"program_id": "R", "accounts": [], "data": "", "data_hex": "", "stack_height": height,
                          "inner_instruction_count": None, "inner_instruction_index": number,
                          "parent_instruction_program_id": "P"}
                for number, height in enumerate((2, None))
            ],
        }  # fmt: skip

    def test_an_error_with_a_name(self) -> None:
        [block] = Chain(3, per_block=9).blocks(5, 5).values()
        [_, entry], *_ = kept(block)
        entry["meta"]["err"] = "AccountInUse"
        record = one(entry)
        assert record is not None
        assert (record["err"], record["success"]) == ("AccountInUse", False)

    @pytest.mark.parametrize("absent", [True, False], ids=["absent", "null"])
    def test_unrecorded_members_are_null(self, absent: bool) -> None:
        """Old nodes, and nodes without transaction status, omit members or set them to null."""
        [block] = Chain(3, per_block=9).blocks(5, 5).values()
        [_, entry] = next((at, one) for at, one in kept(block) if one["version"] == "legacy")
        names = ("innerInstructions", "logMessages", "preTokenBalances", "postTokenBalances", "loadedAddresses",
                 "computeUnitsConsumed")  # fmt: skip
        meta = {name: value for name, value in entry["meta"].items() if name not in names}
        entry["meta"] = meta if absent else meta | dict.fromkeys(names)
        del entry["version"]
        record = one(entry)
        assert record is not None
        VALID.validate(record | {"block_slot": 7, "block_hash": "h"})
        members = ("log_messages", "inner_instructions", "pre_token_balances", "post_token_balances",
                   "mint_to_decimals", "token_accounts", "compute_units_consumed", "address_table_lookups")  # fmt: skip
        assert {record[member] for member in members} == {None}
        assert {ran["inner_instruction_count"] for ran in record["instructions"]} == {None}
        assert record["version"] == "legacy"

    def test_empty_lists_stay_empty(self) -> None:
        [block] = Chain(3, per_block=9).blocks(5, 5).values()
        [_, entry], *_ = kept(block)
        names = ("innerInstructions", "logMessages", "preTokenBalances", "postTokenBalances")
        entry["meta"] |= {name: [] for name in names}
        record = one(entry)
        assert record is not None
        members = ("log_messages", "inner_instructions", "pre_token_balances", "post_token_balances")
        assert [record[member] for member in members] == [[], [], [], []]
        assert (record["mint_to_decimals"], record["token_accounts"]) == ({}, {})
        assert {ran["inner_instruction_count"] for ran in record["instructions"]} == {0}

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            ({"meta": None}, "no transaction history"),
            ({"transaction": ["AAAA", "base64"]}, "bytes"),
            ({"transaction": ["%%", "base64"]}, "base64"),
            ({"transaction": ["AAAA", "base58"]}, "base58 is not known"),
        ],
    )
    def test_unreadable_blocks(self, change: Json, fault: str) -> None:
        [block] = Chain(3, per_block=9).blocks(5, 5).values()
        [_, entry], *_ = kept(block)
        with pytest.raises(ValueError, match=fault):
            one(entry | change)

    def test_lookup_tables_without_their_addresses(self) -> None:
        [block] = Chain(3, per_block=9).blocks(5, 5).values()
        [_, entry] = next((at, one) for at, one in kept(block) if one["version"] == 0)
        with pytest.raises(ValueError, match="which addresses transaction 3 loads"):
            one({**entry, "meta": {**entry["meta"], "loadedAddresses": None}})


def vote(**changes: Any) -> Json:
    """Return a simple vote transaction, with changes of the members that the rule checks."""
    programs = changes.get("programs", [VOTE])
    keys = [*(to_base58(bytes([number]) * 32) for number in range(1, 5)), *changes.get("named", []), *programs]
    ran = [{"programIdIndex": keys.index(one), "accounts": [0], "data": "3Bxs4"} for one in programs]
    signatures = [to_base58(bytes([number]) * 64) for number in range(1, 1 + changes.get("signatures", 1))]
    header: Json = {"numRequiredSignatures": len(signatures), "numReadonlySignedAccounts": 0,
              "numReadonlyUnsignedAccounts": 1}  # fmt: skip
    version = changes.get("version", "legacy")
    lookups: Json = {} if version == "legacy" else {"addressTableLookups": []}
    message: Json = {"header": header, "accountKeys": keys, "recentBlockhash": keys[0], "instructions": ran, **lookups}
    meta: Json = {"err": None, "fee": 5000, "preBalances": [9] * len(keys), "postBalances": [9] * len(keys)}
    meta |= {"loadedAddresses": {"writable": [], "readonly": []}}
    return {"transaction": {"signatures": signatures, "message": message}, "meta": meta, "version": version}


TRANSFER = to_base58(bytes([9]) * 32)


@pytest.mark.parametrize("encode", [lambda entry: entry, as_wire], ids=["json", "base64"])
class TestVotes:
    """Agave's rule is one instruction of the vote program in a legacy message.

    The message has at most two signatures.
    """

    @pytest.mark.parametrize("signatures", [1, 2])
    def test_simple_votes_are_left_out(self, encode: Any, signatures: int) -> None:
        assert one(encode(vote(signatures=signatures))) is None

    @pytest.mark.parametrize(
        "changes",
        [
            {"signatures": 3},
            {"version": 0},
            {"programs": [VOTE, VOTE]},
            {"programs": [TRANSFER, VOTE]},
            {"programs": [TRANSFER], "named": [VOTE]},
            {"programs": []},
        ],
        ids=["three signatures", "version 0", "two instructions", "another instruction too", "only named", "none"],
    )
    def test_all_others_are_kept(self, encode: Any, changes: Json) -> None:
        entry = vote(**changes)
        record = one(encode(entry))
        assert record is not None
        assert record["txn_id"] == entry["transaction"]["signatures"][0]
        assert record["instruction_count"] == len(changes.get("programs", [VOTE]))


@RECORDED
class TestRecorded:
    """The counts are those in the directory's list of sources."""

    def test_a_block_in_json(self) -> None:
        block = recorded("block_332254855.getBlock.json.gz")
        found = check(block, 332254855)
        versions = Counter(entry["version"] for _, entry in kept(block))
        assert (len(block["transactions"]), len(found), versions[0]) == (1445, 360, 333)
        assert Counter(record["success"] for record in found) == {False: 262, True: 98}

    def test_a_block_in_base64(self) -> None:
        block = recorded("block_254170887.getBlock.base64.json.gz")
        found = converted(block, 254170887)
        assert (len(block["transactions"]), len(found)) == (602, 444)
        assert Counter(record["success"] for record in found) == {False: 305, True: 139}
        for record in found:
            VALID.validate(record)
            ran = [*record["instructions"], *record["inner_instructions"]]
            assert all(from_base58(one["data"]).hex() == one["data_hex"] for one in ran)
            assert len(record["pubkeys"]) == len(record["pre_balances"]) == len(record["account_keys"])

    def test_single_transactions(self) -> None:
        lines = gzip.decompress((FOLDER / "rotki_getTransaction.jsonl.gz").read_bytes()).splitlines()
        entries = [json.loads(line)["result"] for line in lines]
        assert len(entries) == 20
        for entry in entries:
            block = {"blockhash": "h", "parentSlot": entry["slot"] - 1, "blockTime": entry["blockTime"],
                     "transactions": [entry]}  # fmt: skip
            [record] = check(block, entry["slot"])
            assert record["block_slot"] == entry["slot"]
