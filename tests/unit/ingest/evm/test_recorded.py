"""Records of recorded blocks equal the records of independent implementations."""

import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from headwater.app.abis import import_abis, load_abis
from headwater.ingest.evm.blocks import Block, Log
from headwater.ingest.evm.decode import Decoder
from headwater.ingest.evm.records import Converter
from headwater.settings import Settings
from tests.acceptance.recorded import log_files, read_logs
from tests.unit.ingest.evm.recorded import EVM, FOLDER, blocks_of, native, native_files, needs_recorded, of_day, text

pytestmark = needs_recorded

ETHEREUM_ETL = EVM / "ethereum"
DAY = "0x88e6a0c2ddd26feeb64f039a2c41296fcb3f5640-2024-01-05"
Records = dict[str, list[dict[str, Any]]]


def records_of(blocks: list[Block], decoder: Decoder | None = None, chain: str = "base") -> Records:
    """Record by entity, in order."""
    records: Records = defaultdict(list)
    converter, counts = Converter(chain, decoder, {}), Counter[str]()
    for block in blocks:
        for each in converter.convert(block, counts):
            records[each.entity].append(json.loads(each.value))
    records["counts"] = [dict(counts)]
    return records


@pytest.mark.parametrize("chain", ["base", "polygon"])
def test_logs_equal_those_of_another_reader(chain: str) -> None:
    """The other reader's records lack times, senders and receivers, which other tests check."""
    expected = [record for name, path in log_files(FOLDER) if name == chain for record in read_logs(path)]
    logs_by_key = {
        (each["transaction_hash"], each["log_index"]): each for each in records_of(list(blocks_of(chain)))["log"]
    }
    assert len(expected) == len(logs_by_key) > 1600
    for record in expected:
        ours = logs_by_key[record["transaction_hash"], record["log_index"]]
        assert {name: ours[name] for name in record} == record


def test_logs_equal_those_of_ethereum_etl() -> None:
    """The recorded output of ethereum-etl is converted to JSON-RPC, and then to records.

    The known differences are:

    it writes the time in Unix seconds as block_timestamp and in our form as item_timestamp; type and item_id are its
    own; senders and receivers it has in another stream, from which they are taken here.
    """
    theirs = [json.loads(line) for line in text(next(ETHEREUM_ETL.glob("*_expected_logs.jsonl.gz"))).splitlines()]
    senders = [
        json.loads(line) for line in text(next(ETHEREUM_ETL.glob("*_expected_transactions.jsonl.gz"))).splitlines()
    ]
    parties = {each["hash"]: (each["from_address"], each["to_address"]) for each in senders}
    blocks: dict[int, Block] = {}
    for each in theirs:
        empty = Block(each["block_number"], each["block_hash"], "", each["block_timestamp"], [], parties)
        logs = blocks.setdefault(each["block_number"], empty).logs
        assert isinstance(logs, list)
        logs.append(as_rpc(each))
    ours = records_of(list(blocks.values()))["log"]
    same = (
        "address",
        "data",
        "topics",
        "log_index",
        "transaction_hash",
        "transaction_index",
        "block_number",
        "block_hash",
    )
    assert [{name: each[name] for name in same} for each in ours] == [{n: each[n] for n in same} for each in theirs]
    assert [each["block_timestamp"] for each in ours] == [each["item_timestamp"] for each in theirs]
    assert [(each["from_address"], each["to_address"]) for each in ours] == [
        parties[each["transaction_hash"]] for each in theirs
    ]
    assert len(ours) == 681


def as_rpc(record: dict[str, Any]) -> Log:
    numbers = [hex(record[name]) for name in ("block_number", "transaction_index", "log_index")]
    number, transaction_index, log_index = numbers
    hashes = record["block_hash"], number, record["transaction_hash"]
    return Log(record["address"], record["topics"], record["data"], *hashes, transaction_index, log_index)


@pytest.mark.parametrize("number", [10_000_000, 20_000_000, 43_200_000])
def test_transfers_equal_those_of_chainstorage(number: int) -> None:
    """The records are exactly its ERC-20 and ERC-721 transfers; it does not support ERC-1155."""
    (path,) = [path for path in native_files("polygon") if path.name.endswith(f"_{number}.json.gz")]
    block, theirs = native(path)
    converted = records_of([block])
    ours = [
        (each["token_address"], each["from_address"], each["to_address"], kind, identity(each), place(each))
        for kind in ("erc20", "erc721")
        for each in converted[f"{kind}_token_transfer"]
    ]
    assert sorted(ours) == sorted(map(of_chainstorage, theirs))
    assert len(ours) == {10_000_000: 6, 20_000_000: 164, 43_200_000: 52}[number]


def identity(record: dict[str, Any]) -> str:
    return str(record.get("token_id", record["raw_amount_str"]))


def place(record: dict[str, Any]) -> tuple[str, int]:
    return record["transaction_hash"], record["log_index"]


def of_chainstorage(found: dict[str, Any]) -> tuple[Any, ...]:
    kind = "erc20" if "erc20" in found else "erc721"
    value = found[kind].get("value" if kind == "erc20" else "tokenId", "0")
    parties = found["tokenAddress"], found["fromAddress"], found["toAddress"]
    return *parties, kind, value, (found["transactionHash"], int(found.get("logIndex", 0)))


def test_erc1155_transfers_of_recorded_blocks() -> None:
    converted = records_of(list(blocks_of("polygon")))
    kinds = Counter(record["event_type"] for record in converted["erc1155_token_transfer"])
    batches = {
        place(record) for record in converted["erc1155_token_transfer"] if record["event_type"] == "batch_transfer"
    }
    assert (kinds["single_transfer"], len(batches)) == (71, 4)
    assert converted["counts"][0].get("malformed", 0) == 0


@pytest.mark.parametrize("chain", ["base", "polygon", "optimism", "ethereum"])
def test_keys_of_recorded_logs_are_unique(all_abis: Decoder, chain: str) -> None:
    """A receipt may be recorded twice: alone and in its block."""
    values: dict[tuple[str, bytes], set[str]] = defaultdict(set)
    for block in blocks_of(chain):
        for record in Converter(chain, all_abis, {}).convert(block, Counter()):
            values[record.entity, record.key].add(json.loads(record.value).get("data") or record.value.decode())
    assert len(values) > 3_000
    assert {len(each) for each in values.values()} == {1}


@pytest.fixture(scope="module")
def all_abis(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    """Return the shipped ABIs and all recorded ones, imported like by a user."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("abis"))
    folder = FOLDER / "abi"
    names = ["event_abis.jsonl.gz", "polygon_system_events.json"]
    import_abis(settings, [*(folder / name for name in names), *sorted(folder.glob("*.abi.json"))])
    return Decoder(load_abis(settings))


@pytest.mark.parametrize(("chain", "least"), [("base", 0.87), ("polygon", 0.92)])
def test_share_of_decoded_logs(all_abis: Decoder, chain: str, least: float) -> None:
    converted = records_of(list(blocks_of(chain)), all_abis)
    undecoded = converted["counts"][0]["undecoded"]
    assert len(converted["decoded_log"]) + undecoded == len(converted["log"])
    assert len(converted["decoded_log"]) / len(converted["log"]) >= least


NAMES = {
    "SWAP": {"amount0": "amount0", "amount1": "amount1", "sqrtPriceX96": "sqrtPriceX96", "tick": "current_tick",
             "liquidity": "total_liquidity", "sender": "sender", "recipient": "receipt"},
    "MINT": {"amount0": "amount0", "amount1": "amount1", "amount": "liquidity", "tickLower": "tick_lower",
             "tickUpper": "tick_upper", "sender": "sender"},
    "BURN": {"amount0": "amount0", "amount1": "amount1", "amount": "liquidity", "tickLower": "tick_lower",
             "tickUpper": "tick_upper", "owner": "sender"},
    "COLLECT": {"amount0": "amount0", "amount1": "amount1", "tickLower": "tick_lower", "tickUpper": "tick_upper",
                "owner": "sender", "recipient": "receipt"},
}  # fmt: skip


def test_a_day_of_a_pool_equals_another_decoding(tmp_path: Path) -> None:
    """Compare 6,234 events of a Uniswap v3 pool with another decoding.

    The other decoding has ticks as floats.
    """
    blocks = of_day(EVM / "ethereum" / f"demeter_ethereum-{DAY}.raw.csv.gz")
    converted = records_of(blocks, Decoder(load_abis(Settings(data_dir=tmp_path))))["decoded_log"]
    rows = list(
        csv.DictReader(text(FOLDER / "prices" / "ethereum_univ3_usdc_weth_2024-01-05.tick.csv.gz").splitlines())
    )
    theirs = {(row["transaction_hash"], int(row["pool_log_index"])): row for row in rows}
    assert len(converted) == len(theirs) == 6234
    for record in converted:
        row = theirs[place(record)]
        names = NAMES[row["tx_type"]]
        assert record["name"].upper() == row["tx_type"]
        assert {name: record["params"][name] for name in names} == {
            name: row[column].removesuffix(".0") for name, column in names.items()
        }
        assert record["block_timestamp"] == f"{row['block_timestamp'].replace(' ', 'T')}Z"
