"""A block is complete by its Bloom filter, its log indexes, and its state sync."""

import json
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.ingest.evm.blocks import (
    BlockWithHashes,
    BlockWithTransactions,
    Log,
    Receipt,
    from_logs,
    from_receipts,
    in_order,
)
from headwater.ingest.evm.bloom import bloom_of, missing_bits
from headwater.ingest.evm.completeness import (
    BlockResponse,
    find_incompleteness,
    has_gap,
    merged,
    state_sync_hash,
    state_sync_transaction,
    with_receipt,
)
from tests.support import evm_chain
from tests.support.evm_chain import NOBODY, ChainBlock, FakeChain
from tests.unit.ingest.evm.recorded import EVM, native, native_files, needs_recorded, squid, text

SPRINT = 16


def mined(seed: int, count: int = 40, **options: Any) -> list[ChainBlock]:
    chain = FakeChain(random.Random(seed), **options)
    chain.mine(count)
    return chain.blocks


def by_receipts(block: ChainBlock, receipts: list[dict[str, Any]] | None = None) -> BlockResponse:
    header = msgspec.convert(block.header(full=False), BlockWithHashes)
    found = msgspec.convert(block.receipts() if receipts is None else receipts, list[Receipt])
    converted = from_receipts(header, found)
    assert converted is not None
    blooms = {each.transaction_hash: each.logs_bloom for each in found}
    return BlockResponse(
        converted, header.logs_bloom, frozenset(header.transactions), frozenset({"receipts"}), receipt_blooms=blooms
    )


def by_logs(block: ChainBlock, logs: list[dict[str, Any]] | None = None) -> BlockResponse:
    full = msgspec.convert(block.header(full=True), BlockWithTransactions)
    converted = from_logs(full, msgspec.convert(block.logs if logs is None else logs, list[Log]))
    assert converted is not None
    hashes = frozenset(each.hash for each in full.transactions)
    return BlockResponse(converted, full.logs_bloom, hashes, frozenset({"logs"}))


@given(st.integers(0, 2**32), st.data())
def test_every_missing_log_is_detected(seed: int, data: st.DataObject) -> None:
    for block in mined(seed, 6):
        assert find_incompleteness(by_receipts(block), None) is None
        assert find_incompleteness(by_logs(block), None) is None
        if block.logs:
            left = data.draw(st.integers(0, len(block.logs) - 1))
            fault = find_incompleteness(by_logs(block, block.logs[:left] + block.logs[left + 1 :]), None)
            assert fault is not None
            assert not fault.is_acceptable


@given(st.integers(0, 2**32))
def test_the_bloom_filter_is_that_of_the_yellow_paper(seed: int) -> None:
    for block in mined(seed, 5):
        logs = msgspec.convert(block.logs, list[Log])
        assert bloom_of(logs) == int(evm_chain.bloom_of(block.logs), 16)
        assert not missing_bits(block.bloom, bloom_of(logs))


@pytest.mark.parametrize("bloom", ["", "0x", "0x0"])
def test_an_empty_bloom_filter_means_no_logs(bloom: str) -> None:
    assert not missing_bits(bloom, 0)


def logs_of(*places: tuple[str, int, int]) -> list[Log]:
    return [Log(NOBODY, [], "0x", "0x", "0x1", hash_, hex(at), hex(index)) for hash_, at, index in places]


@pytest.mark.parametrize(
    ("places", "gap"),
    [
        ([], False),
        ([("a", 0, 0), ("a", 0, 1), ("b", 1, 2)], False),
        ([("a", 0, 0), ("b", 1, 1), ("s", 2, 0), ("s", 2, 1)], False),
        ([("a", 0, 0), ("a", 0, 0), ("b", 1, 1)], False),
        ([("a", 0, 1)], True),
        ([("a", 0, 0), ("a", 0, 2)], True),
        ([("a", 0, 0), ("b", 1, 2)], True),
    ],
)
def test_gaps_in_the_numbers_of_logs(places: list[tuple[str, int, int]], gap: bool) -> None:
    logs = in_order(logs_of(*places))
    block = by_logs(mined(1)[0], [])
    assert has_gap(block.block._replace(logs=logs)) is gap


def test_logs_come_once_and_in_order() -> None:
    logs = logs_of(("s", 2, 0), ("b", 1, 1), ("a", 0, 0), ("b", 1, 1), ("a", 0, 0))
    assert [(log.transaction_hash, log.log_index) for log in in_order(logs)] == [
        ("a", "0x0"),
        ("b", "0x1"),
        ("s", "0x0"),
    ]


def synced(restarted: bool = False) -> ChainBlock:
    """Return the first block of a sprint, with transactions and a state sync."""
    blocks = mined(3, 200, sprint=SPRINT, restarted=restarted)
    return next(block for block in blocks if block.synced and len(block.transactions) > 1 and len(block.logs) > 2)


def without_state_sync(block: ChainBlock) -> ChainBlock:
    system = block.transactions[-1]["hash"]
    logs = [log for log in block.logs if log["transactionHash"] != system]
    return replace(block, transactions=block.transactions[:-1], logs=logs, synced=False)


def test_the_bloom_filter_does_not_show_a_state_sync() -> None:
    block = synced()
    assert find_incompleteness(by_receipts(block), SPRINT) is None
    for lacking in (by_receipts(without_state_sync(block)), by_logs(without_state_sync(block))):
        assert find_incompleteness(lacking, None) is None
        assert find_incompleteness(lacking, SPRINT) is not None


@pytest.mark.parametrize("restarted", [False, True])
def test_either_method_may_lack_the_state_sync(restarted: bool) -> None:
    block = synced(restarted)
    for one, other in (
        (by_receipts(without_state_sync(block)), by_logs(block)),
        (by_logs(without_state_sync(block)), by_receipts(block)),
    ):
        both = merged(one, other)
        if find_incompleteness(both, SPRINT):
            both = with_receipt(both, msgspec.convert(block.receipts()[-1], Receipt))
        assert find_incompleteness(both, SPRINT) is None
        expected = by_receipts(block).block
        assert (both.block.logs, both.block.parties) == (expected.logs, expected.parties)


def test_state_sync_logs_with_two_numberings_are_deduplicated() -> None:
    block, system = synced(), synced().transactions[-1]["hash"]
    count, renumbered = 0, json.loads(json.dumps(block.logs))
    for log in renumbered:
        if log["transactionHash"] == system:
            log["logIndex"], count = hex(count), count + 1
    both = merged(by_receipts(block), by_logs(block, renumbered))
    assert both.block.logs == by_receipts(block).block.logs


def test_a_listed_state_sync_needs_its_logs_or_its_receipt() -> None:
    block = synced()
    system = block.transactions[-1]["hash"]
    logs = [log for log in block.logs if log["transactionHash"] != system]
    fault = find_incompleteness(by_logs(block, logs), SPRINT)
    assert fault is not None
    assert (fault.is_acceptable, system in fault.reason) == (False, True)
    receipts = block.receipts()
    receipts[-1]["logs"] = []
    both = merged(by_logs(block, logs), by_receipts(block, receipts))
    fault = find_incompleteness(both, SPRINT)
    assert fault is not None
    assert not fault.is_acceptable


def test_both_methods_together_prove_that_there_is_no_state_sync() -> None:
    block = next(each for each in mined(5, 200, sprint=SPRINT) if each.number % SPRINT == 0 and not each.synced)
    assert find_incompleteness(by_receipts(block), SPRINT) is not None
    assert find_incompleteness(merged(by_receipts(block), by_logs(block)), SPRINT) is None
    assert find_incompleteness(with_receipt(by_logs(block), None), SPRINT) is None


def test_an_answer_about_another_block_replaces_the_known_one() -> None:
    one, other = (by_receipts(mined(seed)[7]) for seed in (1, 2))
    assert merged(one, other) == other


def test_a_missing_receipt_requests_the_other_method() -> None:
    block = next(each for each in mined(9) if len(each.transactions) > 1 and not each.logs)
    fault = find_incompleteness(by_receipts(block, block.receipts()[1:]), None)
    assert fault is not None
    assert fault.is_acceptable
    assert find_incompleteness(merged(by_receipts(block, []), by_logs(block)), None) is None


@needs_recorded
def test_recorded_blocks_are_complete() -> None:
    for chain, number in (("ethereum", 18_000_000), ("polygon", 50_000_000)):
        block = squid(chain, number)
        header = json.loads(text(EVM / chain / f"squid_{number}_block.json.gz"))
        assert not missing_bits(header["logsBloom"], bloom_of(block.logs))
        assert missing_bits(header["logsBloom"], bloom_of(block.logs[1::2]))
        assert not has_gap(block)


@needs_recorded
def test_recorded_state_syncs_have_the_derived_hash_and_are_in_no_filter() -> None:
    found = 0
    for path in native_files("polygon"):
        block, _ = native(path)
        bloom = json.loads(text(path))["ethereum"]["header"]["logsBloom"]
        hash_ = state_sync_transaction(BlockResponse(block, bloom, frozenset(), frozenset({"receipts"})))
        assert hash_ == state_sync_hash(block.number, block.hash)
        others = [log for log in block.logs if log.transaction_hash != hash_]
        assert not missing_bits(bloom, bloom_of(others))
        assert not has_gap(block)
        found += len(others) < len(block.logs)
    assert found == 2
