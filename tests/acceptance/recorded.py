"""Reads recorded logs of Base and Polygon as `log` records.

They are in the directory that HEADWATER_TEST_DATA names.

The files are JSON-RPC receipts, protobuf JSON and CSV. This module shares no code with the package.
"""

import ast
import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Log = dict[str, Any]


def _text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _topics(topics: list[str]) -> Log:
    return {f"topic{i}": topics[i] if i < len(topics) else None for i in range(4)}


def _rpc_log(log: Log) -> Log:
    return {
        "address": log["address"].lower(),
        "topics": log["topics"],
        **_topics(log["topics"]),
        "data": log["data"],
        "log_index": int(log["logIndex"], 16),
        "transaction_hash": log["transactionHash"],
        "transaction_index": int(log["transactionIndex"], 16),
        "block_number": int(log["blockNumber"], 16),
        "block_hash": log["blockHash"],
        "removed": log.get("removed", False),
    }


def _rpc_receipts(path: Path) -> Iterator[Log]:
    for line in _text(path).splitlines():
        receipt = json.loads(line)["result"]
        yield from (_rpc_log(log) for log in (receipt or {}).get("logs", []))


def _native_block(path: Path) -> Iterator[Log]:
    """Read protobuf JSON.

    In this format 64-bit numbers are strings, and zero and empty members are omitted.
    """
    block = json.loads(_text(path))
    block = block.get("ethereum", block)
    for transaction in block.get("transactions", []):
        for log in transaction.get("receipt", {}).get("logs", []):
            topics = log.get("topics", [])
            yield {
                "address": log["address"].lower(),
                "topics": topics,
                **_topics(topics),
                "data": log.get("data", "0x"),
                "log_index": int(log.get("logIndex", 0)),
                "transaction_hash": log.get("transactionHash", transaction.get("hash")),
                "transaction_index": int(log.get("transactionIndex", 0)),
                "block_number": int(log.get("blockNumber", 0)),
                "block_hash": log.get("blockHash"),
                "removed": log.get("removed", False),
            }


def _squid_receipts(path: Path) -> Iterator[Log]:
    for receipt in json.loads(_text(path)):
        yield from (_rpc_log(log) for log in receipt["logs"])


def _csv(path: Path) -> Iterator[Log]:
    """Read a CSV file. It has no address column, so the address comes from its name."""
    for row in csv.DictReader(io.StringIO(_text(path))):
        topics = [topic.lower() for topic in ast.literal_eval(row["topics"])]
        yield {
            "address": "0x" + path.name.rsplit("-0x", 1)[-1].split("-")[0],
            "topics": topics,
            **_topics(topics),
            "data": row["data"],
            "log_index": int(row["log_index"]),
            "transaction_hash": row["transaction_hash"],
            "block_number": int(row["block_number"]),
        }


READERS = {
    "rotki_receipts": _rpc_receipts,
    "chainstorage_native_block": _native_block,
    "squid_": _squid_receipts,
    "demeter_": _csv,
}


def log_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the chain and path of every recorded file with logs of Base and Polygon."""
    return [
        (chain, path)
        for chain in ("base", "polygon")
        for path in sorted((folder / "evm" / chain).iterdir())
        if path.name.startswith(tuple(READERS)) and not path.name.endswith("0_block.json.gz")
    ]


def read_logs(path: Path) -> list[Log]:
    """Return the log records of one file, in order."""
    for start, reader in READERS.items():
        if path.name.startswith(start):
            return list(reader(path))
    raise ValueError(f"no reader for {path.name}")
