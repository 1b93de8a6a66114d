"""Converts the logs of EVM blocks to records on one core, with and without decoding.

`python -m benches.ingest_evm` runs it.

The logs are generated with the proportions of recorded blocks of Base: mostly token transfers and swaps, from a few
thousand contracts. Each figure covers the way from the JSON of the receipts to the bytes of the records, and is the
best of several rounds.

With --peers, ethereum-etl (from PyPI) maps the same receipts to logs and extracts the ERC-20 and ERC-721 transfers, in
a virtual environment of its own. Both outputs are checked: they have equally many logs, and the same transfers.
"""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import msgspec
import typer

from benches._peers import MissingError, environment
from headwater.ingest.evm.abi import Abis
from headwater.ingest.evm.blocks import Block, Header, Receipt, from_receipts
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.records import Converter, EncodedRecord
from headwater.ingest.evm.token_transfers import TRANSFER, TRANSFER_SINGLE
from headwater.ingest.evm.well_known import well_known

BLOCKS, TRANSACTIONS, LOGS = 20, 150, 6
PEER = "ethereum-etl==2.4.2"
ROUNDS = 5
REFERENCE = "json.loads"
SWAP_V3 = "0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67"
SWAP_V2 = "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822"
SYNC = "0x1c411e9a96e071241c2f21f7726b17ae89e3cab4c78be50e062b03a9fffbbad1"
UNKNOWN = "0x" + "77" * 32
SHAPES = [
    (50, TRANSFER, 2, 1),
    (3, TRANSFER, 3, 0),
    (2, TRANSFER_SINGLE, 3, 2),
    (15, SWAP_V3, 2, 5),
    (6, SWAP_V2, 2, 4),
    (12, SYNC, 0, 2),
    (12, UNKNOWN, 1, 3),
]
"""Weight, topic0, number of indexed words, number of data words. The weights are those of recorded blocks of Base, in
which 12 % of the logs have no known ABI."""

Blocks = list[tuple[bytes, bytes]]
"""The JSON of each block's header and of its receipts."""


def generate_blocks(run_number: int) -> Blocks:
    """Return BLOCKS blocks that are generated from a seed."""
    rng = random.Random(run_number)
    contracts = [f"0x{rng.getrandbits(160):040x}" for _ in range(3000)]
    return [_block(rng, number, contracts) for number in range(BLOCKS)]


def _word(rng: random.Random, bits: int) -> str:
    return f"{rng.getrandbits(bits):064x}"


def _block(rng: random.Random, number: int, contracts: list[str]) -> tuple[bytes, bytes]:
    hash_, index, receipts = f"0x{number:064x}", 0, []
    for place in range(TRANSACTIONS):
        transaction = f"0x{rng.getrandbits(256):064x}"
        common = {"blockHash": hash_, "blockNumber": hex(number), "transactionHash": transaction,
                  "transactionIndex": hex(place)}  # fmt: skip
        logs = []
        for _ in range(LOGS):
            _, topic0, indexed, words = rng.choices(SHAPES, [shape[0] for shape in SHAPES])[0]
            topics = [topic0, *(f"0x{_word(rng, 160)}" for _ in range(indexed))]
            data = "0x" + "".join(_word(rng, 22) for _ in range(words))
            address = contracts[int(rng.random() ** 3 * len(contracts))]
            logs.append(
                {"address": address, "topics": topics, "data": data, "logIndex": hex(index), "removed": False, **common}
            )
            index += 1
        receipts.append({**common, "from": contracts[place], "to": contracts[-place], "logs": logs, "status": "0x1",
                         "cumulativeGasUsed": "0x1", "gasUsed": "0x1", "contractAddress": None})  # fmt: skip
    header = {"number": hex(number), "hash": hash_, "parentHash": hash_, "timestamp": hex(1_767_323_045 + number)}
    return json.dumps(header).encode(), json.dumps(receipts).encode()


def convert_all(blocks: Blocks, converter: Converter, counts: Counter[str]) -> list[EncodedRecord]:
    """Return the records of all blocks, and count logs that cannot be decoded in `counts`."""
    records: list[EncodedRecord] = []
    for header, receipts in blocks:
        block = from_receipts(_HEADER.decode(header), _RECEIPTS.decode(receipts))
        assert isinstance(block, Block)
        records += converter.convert(block, counts)
    return records


_HEADER = msgspec.json.Decoder(Header)
_RECEIPTS = msgspec.json.Decoder(list[Receipt])


def best_s(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def transfers_of(records: list[EncodedRecord]) -> list[list[Any]]:
    """Return what ethereum-etl returns of each ERC-20 and ERC-721 transfer.

    That is the token, the parties, the amount and the log index.
    """
    transfers = []
    for each in records:
        if each.entity in ("erc20_token_transfer", "erc721_token_transfer"):
            record = json.loads(each.value)
            value = int(record.get("token_id", record["raw_amount_str"]))
            parties = [record["token_address"], record["from_address"], record["to_address"]]
            transfers.append([*parties, value, record["transaction_hash"], record["log_index"]])
    return transfers


def check(records: list[EncodedRecord], counts: Counter[str], expected: Counter[str], *, decoded: bool) -> None:
    """Assert that each log and each transfer has a record.

    If `decoded`, each log with a known ABI must have another record.
    """
    entities = Counter(each.entity for each in records)
    total = BLOCKS * TRANSACTIONS * LOGS
    assert entities["log"] == total
    assert entities["erc20_token_transfer"] == expected[f"{TRANSFER}-3"]
    assert entities["erc721_token_transfer"] == expected[f"{TRANSFER}-4"]
    assert entities["erc1155_token_transfer"] == expected[f"{TRANSFER_SINGLE}-4"]
    assert entities["decoded_log"] == (total - expected[f"{UNKNOWN}-2"] if decoded else 0)
    assert counts["undecoded"] == (expected[f"{UNKNOWN}-2"] if decoded else 0)


def peer_s(blocks: Blocks, expected: list[list[Any]]) -> float:
    """Return the CPU seconds of ethereum-etl's fastest round.

    Raise MissingError if it cannot run here.
    """
    python = environment("ethereum-etl", [PEER])
    with TemporaryDirectory() as name:
        path = Path(name) / "receipts.json"
        path.write_text(json.dumps([json.loads(receipts) for _, receipts in blocks]))
        script = Path(__file__).parent / "_peer_ethereum_etl.py"
        result = subprocess.run([str(python), str(script), str(path), str(ROUNDS)], capture_output=True, check=False)
    if result.returncode != 0:
        raise MissingError(f"ethereum-etl failed: {result.stderr.decode().strip()[-300:]}")
    output = json.loads(result.stdout)
    assert output["logs"] == BLOCKS * TRANSACTIONS * LOGS
    assert output["transfers"] == expected
    return float(output["seconds"])


def main(
    run_number: Annotated[int, typer.Option(help="Seed of the generated logs.")] = 1,
    peers: Annotated[bool, typer.Option(help="Run ethereum-etl too.")] = False,
) -> None:
    """Print logs per second, and the ratio of each figure to Python's own JSON parser.

    The parser reads the same receipts.
    """
    blocks = generate_blocks(run_number)
    total = BLOCKS * TRANSACTIONS * LOGS
    expected = Counter(
        f"{log['topics'][0]}-{len(log['topics'])}"
        for _, receipts in blocks
        for receipt in json.loads(receipts)
        for log in receipt["logs"]
    )
    times = {REFERENCE: best_s(lambda: [json.loads(receipts) for _, receipts in blocks])}
    transfers: list[list[Any]] = []
    for name, decoder in (("converted", None), ("converted and decoded", Decoder(Abis(well_known(), {})))):
        converter, counts = Converter("base", decoder, {}), Counter[str]()
        records = convert_all(blocks, converter, counts)
        check(records, counts, expected, decoded=decoder is not None)
        transfers = transfers_of(records)
        times[name] = best_s(partial(convert_all, blocks, converter, Counter()))
    if peers:
        try:
            times["ethereum-etl: logs and transfers"] = peer_s(blocks, transfers)
        except MissingError as error:
            typer.echo(f"No peer: {error}")
    for name, seconds in times.items():
        print(f"{name}: {total / seconds:,.0f} logs/s per core, {times[REFERENCE] / seconds:.2f} of {REFERENCE}")


if __name__ == "__main__":
    typer.run(main)
