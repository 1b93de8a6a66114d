"""Converts a Solana block to records on one core.

`HEADWATER_TEST_DATA=FOLDER python -m benches.ingest_solana` runs it.

A recorded block is converted from both encodings of the node's response, which must give the same records. The
reference is `json.loads` and `json.dumps` of the same response.
"""

import json
import statistics
import time
from collections.abc import Callable

import typer

from headwater.ingest.base import StreamRecord
from headwater.ingest.solana import base58
from headwater.ingest.solana.blocks import BLOCK
from headwater.ingest.solana.records import records
from tests.support.solana_blocks import FOLDER, as_wire, recorded

FILE, SLOT = "block_332254855.getBlock.json.gz", 332254855


def convert(response: bytes) -> list[StreamRecord]:
    """Convert a node's response to the records for Kafka, with an empty base58 cache."""
    base58.decode.cache_clear()
    block = BLOCK.decode(response)
    assert block is not None
    return list(records(block, SLOT, "solana"))


def through_json(response: bytes) -> str:
    """Decode and encode the response; this is the reference."""
    return json.dumps(json.loads(response))


def cpu_s(work: Callable[[bytes], object], response: bytes) -> float:
    """Return the CPU seconds of one run."""
    before = time.process_time()
    work(response)
    return time.process_time() - before


def main(rounds: int = 15) -> None:
    """Run both encodings and the reference in turn, and print the medians."""
    if not FOLDER.exists():
        typer.echo("skipped: HEADWATER_TEST_DATA does not name a directory with recorded data")
        return
    block = recorded(FILE)
    count = len(block["transactions"])
    wire = {**block, "transactions": [as_wire(entry) for entry in block["transactions"]]}
    responses = {"json": json.dumps(block).encode(), "base64": json.dumps(wire).encode()}
    assert convert(responses["json"]) == convert(responses["base64"])
    converted = convert(responses["json"])
    size = sum(len(record.value) for record in converted)
    typer.echo(f"{count} transactions, {len(converted)} of them not votes: {size:,} bytes")
    for encoding, response in responses.items():
        durations: list[float] = []
        references: list[float] = []
        for _ in range(rounds):
            durations.append(cpu_s(convert, response))
            references.append(cpu_s(through_json, response))
        median_s, reference_s = statistics.median(durations), statistics.median(references)
        typer.echo(
            f"{encoding:7} {len(response):,} bytes: {count / median_s:,.0f} transactions/s of CPU, "
            f"{len(converted) / median_s:,.0f} records/s; "
            f"{median_s / reference_s:.2f} of the time of json.loads and json.dumps"
        )


if __name__ == "__main__":
    typer.run(main)
