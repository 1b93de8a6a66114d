"""Reads recorded blocks of EVM chains from the directory that HEADWATER_TEST_DATA names.

Recorded receipts of single transactions become blocks of one transaction. A block without a recorded time has time 0.
"""

import ast
import csv
import gzip
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.ingest.evm.blocks import Block, Header, Log, Receipt, SenderAndReceiver, from_receipts

FOLDER = Path(os.environ.get("HEADWATER_TEST_DATA") or "nowhere")
EVM = FOLDER / "evm"
needs_recorded = pytest.mark.skipif(not EVM.exists(), reason="HEADWATER_TEST_DATA names no folder with recorded data")


def text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def rotki(chain: str) -> list[Block]:
    """Read receipts of single transactions."""
    answers = [json.loads(line)["result"] for line in text(EVM / chain / "rotki_blocks.jsonl.gz").splitlines()]
    times = {block["number"]: int(block["timestamp"], 16) for block in answers if block}
    blocks = []
    for line in text(EVM / chain / "rotki_receipts.jsonl.gz").splitlines():
        found = json.loads(line)["result"]
        if found is None:
            continue
        receipt = msgspec.convert(found, Receipt)
        parties = {receipt.transaction_hash: (receipt.from_, receipt.to)}
        time = times.get(found["blockNumber"], 0)
        blocks.append(Block(int(found["blockNumber"], 16), receipt.block_hash, "", time, receipt.logs, parties))
    return blocks


def squid(chain: str, number: int) -> Block:
    """Read a block with the responses of eth_getBlockByNumber and eth_getBlockReceipts."""
    header = msgspec.json.decode(text(EVM / chain / f"squid_{number}_block.json.gz"), type=Header)
    receipts = msgspec.json.decode(text(EVM / chain / f"squid_{number}_receipts.json.gz"), type=list[Receipt])
    block = from_receipts(header, receipts)
    assert block is not None
    return block


def native(path: Path) -> tuple[Block, list[dict[str, Any]]]:
    """Read a block of protobuf JSON, with the token transfers of another implementation."""
    found = json.loads(text(path))["ethereum"]
    logs: list[Log] = []
    parties: dict[str, SenderAndReceiver] = {}
    transfers: list[dict[str, Any]] = []
    for transaction in found["transactions"]:
        receipt = transaction["receipt"]
        parties[transaction["hash"]] = (receipt.get("from"), receipt.get("to"))
        transfers += transaction.get("tokenTransfers", [])
        logs += [_native_log(log) for log in receipt.get("logs", [])]
    head = found["header"]
    time = int(datetime.fromisoformat(head["timestamp"]).timestamp())
    return Block(int(head["number"]), head["hash"], head["parentHash"], time, logs, parties), transfers


def _native_log(log: dict[str, Any]) -> Log:
    indexes = [hex(int(log.get(name, 0))) for name in ("transactionIndex", "logIndex")]
    number, topics = hex(int(log["blockNumber"])), log.get("topics", [])
    return Log(
        log["address"], topics, log.get("data", "0x"), log["blockHash"], number, log["transactionHash"], *indexes
    )


def of_day(path: Path) -> list[Block]:
    """Read a day's logs of one contract, each as a block without a hash.

    The address is in the file's name.
    """
    address = "0x" + path.name.rsplit("-0x", 1)[-1].split("-")[0]
    blocks = []
    for row in csv.DictReader(text(path).splitlines()):
        topics, number = ast.literal_eval(row["topics"]), hex(int(row["block_number"]))
        indexes = [hex(int(row[name])) for name in ("transaction_index", "log_index")]
        log = Log(address, topics, row["data"], "", number, row["transaction_hash"], *indexes)
        time = int(datetime.fromisoformat(f"{row['block_timestamp']}+00:00").timestamp())
        blocks.append(Block(int(number, 16), "", "", time, [log], {}))
    return blocks


def native_files(chain: str) -> list[Path]:
    return sorted((EVM / chain).glob("chainstorage_native_block_*"))


def blocks_of(chain: str) -> Iterator[Block]:
    """Return all recorded blocks of a chain."""
    if (EVM / chain / "rotki_receipts.jsonl.gz").exists():
        yield from rotki(chain)
    for path in sorted((EVM / chain).glob("squid_*_receipts.json.gz")):
        yield squid(chain, int(path.name.split("_")[1]))
    for path in native_files(chain):
        yield native(path)[0]
    for path in sorted((EVM / chain).glob("demeter_*.raw.csv.gz")):
        yield from of_day(path)
