"""Solana blocks as JSON-RPC nodes return them.

They are generated or recorded, in the encodings `json` and `base64`.

This module uses `solders` for the wire format, and nothing of the package.
"""

import base64
import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

from solders.hash import Hash
from solders.instruction import CompiledInstruction
from solders.message import Message, MessageAddressTableLookup, MessageHeader, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

Json = dict[str, Any]

FOLDER = Path(os.environ.get("HEADWATER_TEST_DATA") or "nowhere") / "solana"
VOTE = "Vote111111111111111111111111111111111111111"
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def recorded(name: str) -> Any:
    """Read a gzipped JSON file of recorded data."""
    return json.loads(gzip.decompress((FOLDER / name).read_bytes()))


def from_base58(text: str) -> bytes:
    """Decode base58 digit by digit."""
    number = 0
    for digit in text:
        number = number * 58 + ALPHABET.index(digit)
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)


def to_base58(data: bytes) -> str:
    """Encode base58 digit by digit."""
    number, digits = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, 58)
        digits = ALPHABET[digit] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


def as_wire(entry: Json) -> Json:
    """Convert a transaction from the encoding `json` to `base64`."""
    transaction = entry["transaction"]
    message, header = transaction["message"], transaction["message"]["header"]
    keys = [Pubkey.from_string(key) for key in message["accountKeys"]]
    counts = (
        header["numRequiredSignatures"],
        header["numReadonlySignedAccounts"],
        header["numReadonlyUnsignedAccounts"],
    )
    instructions = [
        CompiledInstruction(each["programIdIndex"], from_base58(each["data"]), bytes(each["accounts"]))
        for each in message["instructions"]
    ]
    blockhash = Hash.from_string(message["recentBlockhash"])
    if entry.get("version") == 0:
        lookups = [
            MessageAddressTableLookup(
                Pubkey.from_string(each["accountKey"]), bytes(each["writableIndexes"]), bytes(each["readonlyIndexes"])
            )
            for each in message["addressTableLookups"]
        ]
        packed: Any = MessageV0(MessageHeader(*counts), keys, blockhash, instructions, lookups)
    else:
        packed = Message.new_with_compiled_instructions(*counts, keys, blockhash, instructions)
    signatures = [Signature.from_string(each) for each in transaction["signatures"]]
    wire = bytes(VersionedTransaction.populate(packed, signatures))
    return {**entry, "transaction": [base64.b64encode(wire).decode(), "base64"]}


class Chain:
    """Generates random blocks from a seed. `skipped` is the share of slots without a block."""

    def __init__(self, number: int = 1, skipped: float = 0.2, per_block: int = 6) -> None:
        self._draw = random.Random(number)
        self._skipped = skipped
        self._per_block = per_block
        self.programs = [self._key() for _ in range(4)]

    def blocks(self, first: int, last: int) -> dict[int, Json]:
        """Return blocks by slot. Neither the first nor the last slot is skipped."""
        blocks: dict[int, Json] = {}
        parent, parent_hash = first - 1, self._key()
        for slot in range(first, last + 1):
            if slot not in (first, last) and self._draw.random() < self._skipped:
                continue
            blocks[slot] = self._block(slot, parent, parent_hash)
            parent, parent_hash = slot, blocks[slot]["blockhash"]
        return blocks

    def _key(self) -> str:
        return to_base58(self._draw.randbytes(32))

    def _block(self, slot: int, parent: int, parent_hash: str) -> Json:
        return {
            "blockhash": self._key(),
            "previousBlockhash": parent_hash,
            "parentSlot": parent,
            "blockHeight": slot - 100,
            "blockTime": 1_700_000_000 + slot * 2 // 5,
            "transactions": [self._transaction() for _ in range(self._draw.randrange(self._per_block))],
        }

    def _transaction(self) -> Json:
        draw = self._draw
        votes, is_v0 = draw.random() < 0.5, draw.random() < 0.5
        program = VOTE if votes else draw.choice(self.programs)
        keys = [self._key(), self._key(), self._key(), program]
        loaded = [self._key() for _ in range(3)] if is_v0 else []
        places = range(len(keys) + len(loaded))
        failed = draw.random() < 0.3
        before = [draw.randrange(2**64) for _ in places]
        transaction: Json = {
            "signatures": [to_base58(draw.randbytes(64))],
            "message": {
                "header": {
                    "numRequiredSignatures": 1,
                    "numReadonlySignedAccounts": 0,
                    "numReadonlyUnsignedAccounts": 1,
                },
                "accountKeys": keys,
                "recentBlockhash": self._key(),
                "instructions": [self._instruction(places, 3) for _ in range(1 if votes else draw.randrange(1, 4))],
            },
        }
        if is_v0:
            lookup = {"accountKey": self._key(), "writableIndexes": [7, 200], "readonlyIndexes": [0]}
            transaction["message"]["addressTableLookups"] = [lookup] if loaded else []
        return {
            "transaction": transaction,
            "meta": {
                "err": {"InstructionError": [0, {"Custom": 6001}]} if failed else None,
                "fee": 5000,
                "preBalances": before,
                "postBalances": [before[0] - 5000, *before[1:]],
                "innerInstructions": [
                    {
                        "index": 0,
                        "instructions": [
                            {**self._instruction(places, place), "stackHeight": draw.choice([2, 3, None])}
                            for place in places[3:]
                        ],
                    }
                ],
                "logMessages": ["Program log: one", "Program log: \u00fc"],
                "preTokenBalances": [],
                "postTokenBalances": [
                    {
                        "accountIndex": 1,
                        "mint": self._key(),
                        "owner": keys[0],
                        "programId": self.programs[0],
                        "uiTokenAmount": {"amount": str(2**64 - 1), "decimals": 6, "uiAmount": None},
                    }
                ],
                "rewards": [],
                "computeUnitsConsumed": draw.randrange(1_400_000),
                "loadedAddresses": {"writable": loaded[:2], "readonly": loaded[2:]},
            },
            "version": 0 if is_v0 else "legacy",
        }

    def _instruction(self, places: range, program: int) -> Json:
        data = self._draw.randbytes(self._draw.randrange(40))
        accounts = self._draw.sample(places, 2)
        return {"programIdIndex": program, "accounts": accounts, "data": to_base58(data), "stackHeight": None}


def is_vote(entry: Json) -> bool:
    """Return whether a transaction is a vote.

    A vote has one instruction of the vote program in a legacy message, with one or two signatures.
    """
    message = entry["transaction"]["message"]
    match message["instructions"]:
        case [{"programIdIndex": at}]:
            runs_vote = (message["accountKeys"] + [""] * 256)[at] == VOTE
            return runs_vote and entry["version"] == "legacy" and len(entry["transaction"]["signatures"]) in (1, 2)
    return False


def nonvoting(blocks: dict[int, Json]) -> list[str]:
    """Return the first signature of each transaction that is not a vote, in the chain's order."""
    return [
        entry["transaction"]["signatures"][0]
        for _, block in sorted(blocks.items())
        for entry in block["transactions"]
        if not is_vote(entry)
    ]
