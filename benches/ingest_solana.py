"""Solana blocks into records, on one core: `HEADWATER_TEST_DATA=FOLDER python -m benches.ingest_solana`

A recorded block in both encodings of the node's answer. Reference of the same run: the same answer through `json.loads`
and `json.dumps`. Both encodings must give the same records.
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


def convert(answer: bytes) -> list[StreamRecord]:
    """From what the node sends to what Kafka is given; nothing is remembered from the last time."""
    base58.decode.cache_clear()
    block = BLOCK.decode(answer)
    assert block is not None
    return list(records(block, SLOT, "solana"))


def through_json(answer: bytes) -> str:
    """The reference."""
    return json.dumps(json.loads(answer))


def cpu_s(work: Callable[[bytes], object], answer: bytes) -> float:
    """CPU time of one run."""
    before = time.process_time()
    work(answer)
    return time.process_time() - before


def main(rounds: int = 15) -> None:
    """Run both encodings and the reference in turns."""
    if not FOLDER.exists():
        typer.echo("left out: HEADWATER_TEST_DATA names no folder with recorded data")
        return
    block = recorded(FILE)
    count = len(block["transactions"])
    wire = {**block, "transactions": [as_wire(entry) for entry in block["transactions"]]}
    answers = {"json": json.dumps(block).encode(), "base64": json.dumps(wire).encode()}
    assert convert(answers["json"]) == convert(answers["base64"])
    kept = convert(answers["json"])
    typer.echo(f"{count} transactions, {len(kept)} of them no votes: {sum(len(one.value) for one in kept):,} bytes")
    for encoding, answer in answers.items():
        took: list[float] = []
        reference: list[float] = []
        for _ in range(rounds):
            took.append(cpu_s(convert, answer))
            reference.append(cpu_s(through_json, answer))
        middle, plain = statistics.median(took), statistics.median(reference)
        typer.echo(
            f"{encoding:7} {len(answer):,} bytes: {count / middle:,.0f} transactions/s of CPU, "
            f"{len(kept) / middle:,.0f} records/s; {middle / plain:.2f} of the time of json.loads and json.dumps"
        )


if __name__ == "__main__":
    typer.run(main)
