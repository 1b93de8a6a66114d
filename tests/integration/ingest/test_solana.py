"""The Solana reader gives every block once and in order, whatever faults the node has."""

import itertools
import json
import logging
import time
from collections.abc import Generator, Iterator
from threading import Event
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import IngestStopped, NodeUnavailable
from headwater.ingest.base import Step
from headwater.ingest.solana.chain_reader import SolanaReader
from headwater.ingest.solana.options import SolanaOptions
from tests.examples import examples
from tests.support.solana_blocks import Chain, nonvoting
from tests.support.solana_node import KEY, Node

BLOCKS = Chain(1).blocks(1000, 1100)


def open_reader(node: Node, **options: Any) -> SolanaReader:
    given = {"name": "n", "rpc": node.url, "poll_s": 0.01, **options}
    return SolanaReader(SolanaOptions.model_validate(given), Event())


def signatures(step: Step | None) -> list[str]:
    return [json.loads(record.value)["txn_id"] for record in step.records] if step else []


def taken(steps: Iterator[Step | None], count: int) -> list[str]:
    """Return the signatures of the first steps with at least `count` signatures."""
    received: list[str] = []
    while len(received) < count:
        received += signatures(next(steps))
    return received


def resumed(reader: SolanaReader, position: bytes | None = None) -> Generator[Step | None]:
    """Yield steps like the runner.

    After an error, the runner continues after the last stored step.
    """
    for _ in range(300):
        try:
            for step in reader.steps(position):
                yield step
                position = step.position if step else position
        except NodeUnavailable:
            continue
        return
    raise AssertionError("the node fails again and again")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make retries fast."""
    monkeypatch.setattr("headwater.ingest.jsonrpc.MAX_FIRST_BACKOFF_S", 0.001)
    monkeypatch.setattr("headwater.ingest.jsonrpc.RETRY_DEADLINE_S", 0.05)


class TestRange:
    @pytest.mark.parametrize("encoding", ["json", "base64"])
    @pytest.mark.parametrize("parallel", [1, 7])
    def test_the_whole_range_once(self, encoding: str, parallel: int) -> None:
        with Node(BLOCKS).serving() as node:
            reader = open_reader(node, from_slot=1000, to_slot=1100, encoding=encoding, parallel=parallel)
            steps = list(reader.steps(None))
        assert [signature for step in steps for signature in signatures(step)] == nonvoting(BLOCKS)
        assert node.calls["getBlock"] == len(BLOCKS)

    def test_a_range_within(self) -> None:
        first, last = sorted(BLOCKS)[10] - 1, sorted(BLOCKS)[30] + 1
        expected = nonvoting({slot: block for slot, block in BLOCKS.items() if first <= slot <= last})
        with Node(BLOCKS).serving() as node:
            steps = open_reader(node, from_slot=first, to_slot=last).steps(None)
            assert [signature for step in steps for signature in signatures(step)] == expected

    def test_many_skipped_slots(self) -> None:
        chain = Chain(2)
        blocks = chain.blocks(1000, 1000) | {
            9000: {**Chain(3).blocks(9000, 9000)[9000], "parentSlot": 1000},
        }
        with Node(blocks).serving() as node:
            steps = open_reader(node, from_slot=1000, to_slot=9000).steps(None)
            assert [signature for step in steps for signature in signatures(step)] == nonvoting(blocks)
            assert node.calls["getBlocks"] < 8

    def test_a_range_without_blocks_ends(self) -> None:
        blocks = {1000: BLOCKS[1000], 1010: {**BLOCKS[1100], "parentSlot": 1000}}
        with Node(blocks).serving() as node:
            assert not any(map(signatures, open_reader(node, from_slot=1003, to_slot=1007).steps(None)))

    def test_the_end_of_a_range_waits_for_the_next_block(self) -> None:
        """Otherwise a skipped slot could not be distinguished from a block that the node lacks."""
        blocks = {1000: BLOCKS[1000], 1010: {**BLOCKS[1100], "parentSlot": 1000}}
        with Node(blocks, newest=1005).serving() as node:
            steps = open_reader(node, from_slot=1000, to_slot=1003).steps(None)
            first = [next(steps) for _ in range(5)]
            assert [step.position if step else None for step in first] == [
                b'{"next_slot":1000,"block":null}', b'{"next_slot":1001,"block":1000}', None, None, None,
            ]  # fmt: skip
            node.newest = 1010
            assert not any(steps)


class TestFirstBlock:
    GENESIS = {**Chain(4).blocks(5, 5)[5], "parentSlot": 0, "blockHeight": 0}

    def test_the_first_block_of_a_chain_names_itself_as_its_parent(self) -> None:
        blocks = {0: self.GENESIS, **Chain(5, skipped=0.0).blocks(1, 9)}
        with Node(blocks).serving() as node:
            steps = open_reader(node, from_slot=0, to_slot=8).steps(None)
            received = [signature for step in steps for signature in signatures(step)]
        assert received == nonvoting({slot: block for slot, block in blocks.items() if slot <= 8})

    def test_the_first_block_alone(self) -> None:
        with Node({0: self.GENESIS}).serving() as node:
            steps = open_reader(node).steps(None)
            first = [next(steps) for _ in range(2)]
        assert [step.position for step in first if step] == [
            b'{"next_slot":0,"block":null}', b'{"next_slot":1,"block":0}',
        ]  # fmt: skip

    @pytest.mark.parametrize("from_slot", [4, 7], ids=["behind a stored block", "at the start"])
    def test_another_block_that_names_itself_is_refused(self, from_slot: int) -> None:
        """A missing block before it could not be detected."""
        blocks = dict(Chain(5, skipped=0.0).blocks(1, 9))
        blocks[7] = {**blocks[7], "parentSlot": 7}
        with Node(blocks).serving() as node:
            received: list[str] = []
            with pytest.raises(NodeUnavailable, match=r"slot 7 names its own slot as its parent's slot"):  # noqa: PT012
                for step in open_reader(node, from_slot=from_slot, to_slot=8).steps(None):
                    received += signatures(step)
        assert received == nonvoting({slot: block for slot, block in blocks.items() if from_slot <= slot < 7})


class TestLive:
    def test_a_live_feed_starts_at_the_newest_block_and_follows(self) -> None:
        slots = sorted(BLOCKS)
        with Node(BLOCKS, newest=slots[50]).serving() as node:
            steps = open_reader(node).steps(None)
            begin = next(steps)
            assert begin is not None
            assert (begin.records, begin.position) == ([], b'{"next_slot":%d,"block":null}' % slots[50])
            first = next(steps)
            assert first is not None
            assert msgspec.json.decode(first.position) == {"next_slot": slots[50] + 1, "block": slots[50]}
            assert first.time_ms == BLOCKS[slots[50]]["blockTime"] * 1000
            assert next(steps) is None
            node.newest = slots[60]
            expected = nonvoting({slot: BLOCKS[slot] for slot in slots[51:61]})
            assert taken(steps, len(expected)) == expected

    def test_a_live_feed_continues_after_a_position(self) -> None:
        with Node(BLOCKS).serving() as node:
            steps = [step for step in open_reader(node, from_slot=1000, to_slot=1100).steps(None) if step]
            for step in steps[:3]:
                rest = open_reader(node, from_slot=1000, to_slot=1100).steps(step.position)
                stored = list(itertools.chain.from_iterable(map(signatures, steps[: steps.index(step) + 1])))
                assert stored + [signature for each in rest for signature in signatures(each)] == nonvoting(BLOCKS)

    def test_the_commitment(self) -> None:
        with Node(BLOCKS).serving() as node:
            next(open_reader(node, commitment="confirmed").steps(None))
        assert {params[-1]["commitment"] for _, params in node.params} == {"confirmed"}


@pytest.mark.usefixtures("quick")
class TestFaults:
    FAULTS = {"429": 0.1, "503": 0.1, "cut": 0.1, "nonsense": 0.05, "behind": 0.3}

    def test_nothing_is_lost_or_duplicated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.ingest.jsonrpc.parse_retry_after", lambda response: 0.001)
        with Node(BLOCKS, faults=self.FAULTS).serving() as node:
            steps = resumed(open_reader(node, from_slot=1000, to_slot=1100))
            assert [signature for step in steps for signature in signatures(step)] == nonvoting(BLOCKS)
        assert set(node.met) == set(self.FAULTS)

    @settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        number=st.integers(0, 10**6),
        skipped=st.sampled_from([0.0, 0.3, 0.9]),
        parallel=st.integers(1, 5),
        faults=st.fixed_dictionaries({name: st.sampled_from([0.0, 0.2]) for name in ("503", "cut", "behind")}),
        kill=st.integers(0, 20),
    )
    @pytest.mark.slow
    def test_any_chain_through_any_faults_and_a_kill(
        self, number: int, skipped: float, parallel: int, faults: dict[str, float], kill: int
    ) -> None:
        """A kill loses the last step, which is not stored, and the state of the process."""
        blocks = Chain(number, skipped).blocks(500, 530)
        received: list[str] = []
        position: bytes | None = None
        with Node(blocks, faults=faults).serving() as node:
            reader = open_reader(node, from_slot=500, to_slot=530, parallel=parallel)
            steps = resumed(reader)
            for taken, step in enumerate(steps):
                if taken == kill:
                    steps.close()
                    break
                received += signatures(step)
                position = step.position if step else position
            received += [signature for step in resumed(reader, position) for signature in signatures(step)]
        assert received == nonvoting(blocks)

    def test_a_block_that_the_node_omits(self) -> None:
        slots = sorted(BLOCKS)
        with Node(BLOCKS).serving() as node:
            node.hidden.add(slots[20])
            steps = open_reader(node, from_slot=1000, to_slot=1100).steps(None)
            received: list[str] = []
            with pytest.raises(NodeUnavailable, match=f"omitted the block of slot {slots[20]}, the parent"):  # noqa: PT012
                for step in steps:
                    received += signatures(step)
                    position = step.position if step else b""
            assert received == nonvoting({slot: BLOCKS[slot] for slot in slots[:20]})
            node.hidden.clear()
            received += [
                signature
                for step in open_reader(node, to_slot=1100, from_slot=1000).steps(position)
                for signature in signatures(step)
            ]
        assert received == nonvoting(BLOCKS)

    def test_the_last_block_of_a_range_that_the_node_omits(self) -> None:
        slots = sorted(BLOCKS)
        with Node(BLOCKS).serving() as node:
            node.hidden.add(slots[20])
            with pytest.raises(NodeUnavailable, match=f"omitted the block of slot {slots[20]}"):
                list(open_reader(node, from_slot=1000, to_slot=slots[20]).steps(None))

    def test_a_chain_that_lacks_the_last_block(self) -> None:
        with Node(BLOCKS).serving() as node:
            position = b'{"next_slot":1051,"block":1050}'
            node.blocks = {1060: {**BLOCKS[1100], "parentSlot": 1048}}
            with pytest.raises(NodeUnavailable, match="slot 1050, whose records are stored, is not on its chain"):
                list(open_reader(node, from_slot=1000, to_slot=1100).steps(position))

    def test_a_node_without_the_history(self) -> None:
        with Node(BLOCKS).serving() as node:
            node.blocks[900] = {}
            node.cleaned_below = 1000
            with pytest.raises(IngestStopped, match="no longer stores blocks that old"):
                list(open_reader(node, from_slot=900, to_slot=1100).steps(None))

    def test_unreadable_blocks_are_never_skipped(self) -> None:
        blocks = dict(BLOCKS)
        slot = next(slot for slot in blocks if nonvoting({slot: blocks[slot]}))
        blocks[slot] = json.loads(json.dumps(blocks[slot]))
        for entry in blocks[slot]["transactions"]:
            entry["meta"] = None
        with (
            Node(blocks).serving() as node,
            pytest.raises(NodeUnavailable, match=f"slot {slot} can't be read: the node"),
        ):
            list(open_reader(node, from_slot=1000, to_slot=1100).steps(None))

    def test_a_parent_that_is_missing_in_long_term_storage(self) -> None:
        """getBlocks lists the parent, but getBlock fails until the node has it again."""
        slots = sorted(BLOCKS)[:4]
        parent = slots[2]
        with Node({slot: BLOCKS[slot] for slot in slots}).serving() as node:
            node.refused[parent] = (-32009, f"Slot {parent} was skipped, or missing in long-term storage")
            reader = open_reader(node, from_slot=slots[0], to_slot=slots[2])
            steps, received = reader.steps(None), list[str]()
            position = b""
            with pytest.raises(NodeUnavailable, match=rf"refuses getBlock of slot {parent}: it lacks this block"):  # noqa: PT012
                for step in steps:
                    received += signatures(step)
                    position = step.position if step else position
            assert received == nonvoting({slot: BLOCKS[slot] for slot in slots[:2]})
            assert json.loads(position)["block"] == slots[1]
            node.refused.clear()
            received += [signature for step in reader.steps(position) for signature in signatures(step)]
        assert received == nonvoting({slot: BLOCKS[slot] for slot in slots[:3]})

    @pytest.mark.parametrize("status", ["401", "301"])
    def test_a_refused_key_or_another_address(self, status: str) -> None:
        with Node(BLOCKS, faults={status: 1.0}).serving() as node:
            with pytest.raises(NodeUnavailable, match=rf"HTTP {status}.*check the URL"):
                next(open_reader(node).steps(None))
            assert node.calls["getSlot"] == 1

    def test_retry_after(self) -> None:
        with Node(BLOCKS, faults={"429": 1.0}).serving() as node:
            with pytest.raises(NodeUnavailable, match="HTTP 429") as caught:
                next(open_reader(node).steps(None))
            assert caught.value.retry_after_s == 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("faults", [{"429": 1.0}, {"cut": 1.0}, {"401": 1.0}, {"nonsense": 1.0}, {"telltale": 1.0}])
def test_the_key_is_never_in_messages(faults: dict[str, float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "headwater")
    with Node(BLOCKS, faults=faults).serving() as node:
        reader = open_reader(node)
        with pytest.raises(NodeUnavailable) as caught:
            next(reader.steps(None))
    chain: BaseException | None = caught.value
    while chain is not None:
        assert KEY not in f"{chain} {chain!r}"
        chain = chain.__cause__
    assert KEY not in repr(reader._options)
    assert KEY not in caplog.text


def test_a_rate() -> None:
    with Node(BLOCKS).serving() as node:
        started = time.monotonic()
        list(open_reader(node, from_slot=1000, to_slot=1010, rate=50, parallel=8).steps(None))
        assert time.monotonic() - started >= (sum(node.calls.values()) - 1) / 50
