"""The EVM ingest writes every event once, despite kills and reorganisations.

It runs on a real node and a real Kafka.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from headwater.model.natural_key import natural_key
from tests.integration.ingest.evm import (
    Streams,
    Tokens,
    Written,
    by_key,
    chain_logs,
    kill,
    log_key,
    transfer_of,
)
from tests.support.anvil import Anvil
from tests.support.kafka import KafkaServer
from tests.support.node import CUT, Node, Reply, calls_of, error, results
from tests.support.ports import free_port

KEY = "a-key-of-the-provider"
KINDS = ("erc20", "erc721", "erc1155")
DIARY_PARAMS = {
    # keccak-256 of "salt": an indexed string is its hash
    "title": "0xa05e334153147e75f3f416139b5109d1179cb56fef6a4ecb4c4cbc92a7c37b70",
    "text": "white, flat",
    "places": [{"town": "Uyuni", "metres": "3656"}, {"town": "Badwater", "metres": "-86"}],
    "mood": str(2**200),
}


@pytest.fixture
def streams(kafka: KafkaServer, tmp_path: Path) -> Streams:
    return Streams(kafka, tmp_path)


@pytest.fixture
def fast_streams(kafka: KafkaServer, tmp_path: Path) -> Streams:
    return Streams(kafka, tmp_path, zerolag=True)


def test_every_transfer_arrives_once_in_all_entities(streams: Streams, anvil: Anvil) -> None:
    tokens = Tokens(anvil)
    first = anvil.height + 1
    import_abi(streams, anvil, "Diary")
    for number in range(3):
        tokens.all_kinds(number)
    tokens.note(2**200)
    anvil.mine()
    last = anvil.height
    anvil.mine(2)  # an epoch is one block, so the block two behind the head is final
    done = run(streams, anvil.url, "--from-block", str(first), "--to-block", str(last))
    assert f"{last - first + 1} blocks" in done
    assert "0 logs that were not decoded" in done
    assert_transfers(streams, tokens)
    logs = chain_logs(anvil, first, last)
    assert sorted(record.key for record in streams.read("log")) == sorted(map(log_key, logs))
    assert_logs(streams, logs, anvil)
    decoded = streams.read("decoded_log")
    assert len(decoded) == len(logs)
    (note,) = [record.value for record in decoded if record.value["name"] == "Noted"]
    assert note["params"] == DIARY_PARAMS
    assert note["signature"] == "Noted(string,string,(string,int64)[],uint256)"


def run(streams: Streams, url: str, *flags: str) -> str:
    """Ingest a range. Return the last message of the process."""
    process = streams.start(url, *flags)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return output


def import_abi(streams: Streams, anvil: Anvil, contract: str) -> None:
    file = streams.folder / f"{contract}.json"
    file.write_text(json.dumps({"abi": anvil.contracts[contract]["abi"]}))
    command = ["abi", "import", str(file)]
    assert "1 new event" in headwater(streams, *command)


def headwater(streams: Streams, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headwater", *command], env=streams.environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_transfers(streams: Streams, tokens: Tokens) -> None:
    for kind in KINDS:
        records = streams.read(f"{kind}_token_transfer")
        expected = [transfer for transfer in tokens.sent if transfer[0] == kind]
        assert sorted(transfer_of(kind, record.value) for record in records) == sorted(expected)
        key_of = natural_key("base", f"{kind}_token_transfer")
        assert all(key_of(record.raw) == record.key.encode() for record in records)
        assert len({record.key for record in records}) == len(records)


def assert_logs(streams: Streams, logs: list[dict[str, str]], anvil: Anvil) -> None:
    """Assert that the records equal the node's logs."""
    records = {record.key: record.value for record in streams.read("log")}
    for log in logs:
        record = records[log_key(log)]
        block = anvil.block(int(log["blockNumber"], 16))
        transaction = anvil.rpc("eth_getTransactionByHash", log["transactionHash"])
        assert record["topics"] == log["topics"]
        assert record["topic0"] == log["topics"][0]
        assert (record["address"], record["data"]) == (log["address"].lower(), log["data"])
        assert record["block_number"] == int(block["number"], 16)
        assert record["block_hash"] == block["hash"]
        assert record["transaction_index"] == int(log["transactionIndex"], 16)
        assert (record["from_address"], record["to_address"]) == (transaction["from"], transaction["to"])
        receipt = anvil.rpc("eth_getTransactionReceipt", log["transactionHash"])
        assert record["receipt_status"] == int(receipt["status"], 16) == 1
        assert record["receipt_gas_used"] == int(receipt["gasUsed"], 16)
        assert record["receipt_effective_gas_price"] == str(int(receipt["effectiveGasPrice"], 16))
        assert record["transaction_value"] is None
        assert record["removed"] is False


@pytest.mark.long
def test_a_reorganisation_is_retracted_and_never_in_the_final_stream(fast_streams: Streams, anvil: Anvil) -> None:
    """The ingest polls only once a minute, so it learns of new heads from the WebSocket."""
    port, name = free_port(), fast_streams.prefix
    file = fast_streams.folder / "ingests.json"
    entry = {"type": "evm", "chain": "base", "rpc": "$THE_NODE", "ws": "$THE_SOCKET", "poll_s": 60,
             "finality": 4, "metrics_port": port}  # fmt: skip
    file.write_text(json.dumps({name: entry}))
    secrets = {"THE_NODE": f"{anvil.url}/?token={KEY}", "THE_SOCKET": f"ws://127.0.0.1:{anvil.port}/?token={KEY}"}
    tokens = Tokens(anvil)
    with fast_streams.running(["run", name, "--ingests", str(file)], secrets) as process:
        fast_streams.wait_begun(name)
        tokens.pay(1)
        anvil.mine()
        fast_streams.wait("log.zerolag", lambda found: found != [])
        snapshot = anvil.rpc("evm_snapshot")
        stands = list(tokens.sent)
        tokens.all_kinds(5)
        tokens.all_kinds(6)
        orphans = {anvil.block(anvil.height - back)["hash"] for back in (0, 1)}
        orphaned = {log_key(log) for log in chain_logs(anvil, anvil.height - 1, anvil.height)}
        fast_streams.wait("log.zerolag", lambda found: orphaned <= {record.key for record in found})
        anvil.rpc("evm_revert", snapshot)
        tokens.sent = stands
        tokens.pay(77)
        anvil.mine()
        tokens.all_kinds(8)
        anvil.mine(5)
        fast_streams.wait("log", lambda found: len(found) >= 8)
        series = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
        assert KEY not in " ".join(psutil.Process(process.pid).cmdline())
    labels = f'chain="base",ingest="{name}"'
    assert f"headwater_ingest_reorgs_total{{{labels}}} 1.0" in series
    assert f'headwater_ingest_records_total{{{labels},stream="erc20_token_transfer"}}' in series
    for stream in ("log", "decoded_log"):
        assert_retracted(fast_streams, stream, orphans)
    assert_stands(fast_streams, tokens, orphans)


def assert_retracted(streams: Streams, stream: str, orphans: set[str]) -> list[Written]:
    """Assert that zerolag records of orphaned blocks are retracted.

    They must not be in the final stream.

    Return the records that a consumer of the zerolag stream has after it applies all retractions.
    """
    final = streams.read(stream)
    assert not {record.value["block_hash"] for record in final} & orphans
    assert len({record.key for record in final}) == len(final)
    fast = by_key(streams.read(f"{stream}.zerolag"))
    assert sum(record.value["block_hash"] in orphans for records in fast.values() for record in records) > 0
    for records in fast.values():
        of_block: dict[str, list[bytes]] = {}
        for record in records:
            of_block.setdefault(record.value["block_hash"], []).append(record.raw)
        for hash_, raws in of_block.items():
            if hash_ in orphans:
                written, removed = raws
                assert removed == written.replace(b'"removed":false', b'"removed":true')
                assert removed != written
            else:
                assert len(raws) == 1
    return [records[-1] for records in fast.values() if not records[-1].value["removed"]]


def assert_stands(streams: Streams, tokens: Tokens, orphans: set[str]) -> None:
    """Assert that the zerolag streams have exactly the transfers of the final chain.

    Retractions are applied first.
    """
    for kind in KINDS:
        not_removed = assert_retracted(streams, f"{kind}_token_transfer", orphans)
        expected = [transfer for transfer in tokens.sent if transfer[0] == kind]
        assert sorted(transfer_of(kind, record.value) for record in not_removed) == sorted(expected)


@pytest.mark.long
def test_a_kill_neither_loses_nor_duplicates_records(fast_streams: Streams, anvil: Anvil) -> None:
    """The ingest is killed while it catches up, and while retractions are pending."""
    tokens = Tokens(anvil)
    first = anvil.height + 1
    flags = ("--from-block", str(first), "--rate", "100")
    process = fast_streams.start(anvil.url, *flags)
    fast_streams.wait_begun()
    for number in range(8):
        tokens.all_kinds(number)
    snapshot, stands = anvil.rpc("evm_snapshot"), list(tokens.sent)
    tokens.all_kinds(50)
    tokens.all_kinds(51)
    orphans = {anvil.block(anvil.height - back)["hash"] for back in (0, 1)}
    fast_streams.wait("log.zerolag", lambda found: orphans <= {record.value["block_hash"] for record in found})
    kill(process)
    anvil.rpc("evm_revert", snapshot)
    tokens.sent = stands
    tokens.pay(99)
    anvil.mine()
    last = anvil.height
    anvil.mine(2)
    with fast_streams.ingest(anvil.url, *flags):
        wait_for_all(fast_streams, anvil, first, last)
    assert_once(fast_streams, tokens, anvil, first, last)
    assert_stands(fast_streams, tokens, orphans)


def wait_for_all(streams: Streams, anvil: Anvil, first: int, last: int) -> None:
    expected = {log_key(log) for log in chain_logs(anvil, first, last)}
    for stream in ("log", "log.zerolag"):
        streams.wait(stream, lambda found: expected <= {record.key for record in found})


def assert_once(streams: Streams, tokens: Tokens, anvil: Anvil, first: int, last: int) -> None:
    """Assert that the final streams have the final chain's events once."""
    assert_transfers(streams, tokens)
    assert sorted(record.key for record in streams.read("log")) == sorted(map(log_key, chain_logs(anvil, first, last)))


@pytest.mark.slow
@pytest.mark.parametrize("run_number", range(3))
def test_many_kills_and_reorganisations(fast_streams: Streams, anvil: Anvil, run_number: int) -> None:
    rng = random.Random(run_number)
    tokens = Tokens(anvil)
    first = anvil.height + 1
    flags = ("--from-block", str(first), "--confirmations", "6", "--rate", str(rng.choice([80, 200])))
    process = fast_streams.start(anvil.url, *flags)
    fast_streams.wait_begun()
    orphans: set[str] = set()
    for turn in range(12):
        tokens.all_kinds(10 * turn)
        anvil.mine(rng.randint(1, 5))
        if rng.random() < 0.6:
            orphans |= take_back(tokens, rng)
        time.sleep(rng.uniform(0, 1.5))
        if rng.random() < 0.7:
            kill(process)
            process = fast_streams.start(anvil.url, *flags)
    tokens.all_kinds(500)
    last = anvil.height
    anvil.mine(6)
    wait_for_all(fast_streams, anvil, first, last)
    kill(process)
    assert_once(fast_streams, tokens, anvil, first, last)
    for kind in KINDS:
        expected = sorted(transfer for transfer in tokens.sent if transfer[0] == kind)
        records = by_key(fast_streams.read(f"{kind}_token_transfer.zerolag")).values()
        not_removed = [each[-1].value for each in records if not each[-1].value["removed"]]
        assert sorted(transfer_of(kind, value) for value in not_removed) == expected
        assert not {value["block_hash"] for value in not_removed} & orphans


def take_back(tokens: Tokens, rng: random.Random) -> set[str]:
    """Mine and orphan blocks. Return the hashes of the orphaned blocks."""
    anvil = tokens.anvil
    snapshot, height = anvil.rpc("evm_snapshot"), anvil.height
    stands, birds = list(tokens.sent), tokens.birds
    for number in range(rng.randint(1, 3)):
        tokens.all_kinds(1000 + number)
    time.sleep(rng.uniform(0, 1.0))
    orphan_hashes = {anvil.block(number)["hash"] for number in range(height + 1, anvil.height + 1)}
    anvil.rpc("evm_revert", snapshot)
    tokens.sent, tokens.birds = stands, birds
    tokens.pay(rng.getrandbits(60))
    anvil.mine()
    return orphan_hashes


class UnreliableNode:
    """Behaves like a bad node.

    It rejects requests, closes connections, allows only small ranges and batches, and lacks eth_getBlockReceipts.
    """

    def __init__(self, run_number: int) -> None:
        self._random = random.Random(run_number)

    def __call__(self, request: Any) -> Reply | str | None:
        calls = calls_of(request)
        rng = self._random.random()
        if rng < 0.1:
            return Reply(429, headers=(("Retry-After", "0"),))
        if rng < 0.2:
            return CUT
        if rng < 0.25:
            return Reply(502)
        if len(calls) > 5:
            return error(request, -32600, "batch too large")
        if any(call["method"] == "eth_getBlockReceipts" for call in calls):
            return error(request, -32601, f"the method eth_getBlockReceipts does not exist for {KEY}")
        if any(width(call) > 4 for call in calls):
            return error(request, -32005, f"{KEY} may ask for a range of 4 blocks")
        return None


def width(call: dict[str, Any]) -> int:
    """Return the number of blocks in an eth_getLogs request."""
    if call["method"] != "eth_getLogs":
        return 0
    filter_params = call["params"][0]
    return int(filter_params["toBlock"], 16) - int(filter_params["fromBlock"], 16) + 1


@pytest.mark.long
def test_another_node_takes_over_without_loss_or_repeat(streams: Streams, anvil: Anvil) -> None:
    """The first node fails from its fourth request on, and the second omits logs from receipts."""
    tokens = Tokens(anvil)
    first = anvil.height + 1
    for number in range(6):
        tokens.all_kinds(number)
    last = anvil.height
    anvil.mine(2)
    with (
        Node(lambda _: CUT if len(dying.requests) > 3 else None, anvil.url) as dying,
        Node(IncompleteNode(anvil)) as other,
    ):
        urls = f"{dying.address}/v2/{KEY} {other.address}/v2/{KEY}"
        flags = ("--from-block", str(first), "--to-block", str(last), "--confirmations", "1", "--rate", "80")
        process = streams.start(urls, *flags)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert_once(streams, tokens, anvil, first, last)
    assert "the ingest uses another node" in errors
    assert "returned an incomplete block" in errors
    assert KEY not in output + errors


class IncompleteNode:
    """Omits the last log of a block from the block's receipts."""

    def __init__(self, anvil: Anvil) -> None:
        self._anvil = anvil

    def __call__(self, request: Any) -> Reply:
        return results(request, self._answer)

    def _answer(self, method: str, params: list[Any]) -> Any:
        found = self._anvil.rpc(method, *params)
        if method == "eth_getBlockReceipts" and found:
            found[-1]["logs"] = found[-1]["logs"][:-1]
        return found


@pytest.mark.slow
def test_an_unreliable_node_neither_loses_nor_duplicates_records(streams: Streams, anvil: Anvil) -> None:
    tokens = Tokens(anvil)
    first = anvil.height + 1
    for number in range(4):
        tokens.all_kinds(number)
        anvil.mine(3)
    anvil.mine(2)
    with Node(UnreliableNode(run_number=7), anvil.url) as node:
        flags = ("--from-block", str(first), "--to-block", str(anvil.height - 2), "--confirmations", "1")
        process = streams.start(f"{node.address}/v2/{KEY}", *flags)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert_transfers(streams, tokens)
    assert KEY not in output + errors
    assert "eth_getLogs is used" in errors
