"""The state of an EVM ingest, and functions that make steps.

A step has a few MB, so that Kafka stores it within COMMIT_TIMEOUT_S of the transactional producer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block
from headwater.ingest.evm.node_pool import NodePool
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.position import Position
from headwater.ingest.evm.records import Converter

STEP_RECORDS: Final = 20_000
STEP_BYTES: Final = 8 << 20

ReadWrittenRecords = Callable[[Sequence[str], int], Iterator[StreamRecord]]
"""Reads the records of these streams that were written at or after a time in ms, in order within a partition."""


@dataclass(slots=True, kw_only=True)
class IngestState:
    """The state that FinalBlocks and HeadBlocks share.

    Attributes:
        options: The options of the ingest.
        nodes: The nodes of the chain.
        converter: Converts blocks to records.
        position: The position after the last step that was yielded.
        counts: Metrics since the last step, by a name in `ingest.runner.COUNTS`.
    """

    options: EvmOptions
    nodes: NodePool
    converter: Converter
    position: Position
    counts: Counter[str] = field(default_factory=Counter)

    def take_counts(self) -> Counter[str]:
        """Return the counts since the last call, and clear them."""
        counts, self.counts = self.counts, Counter()
        return counts + self.nodes.take_counts()


Group = tuple[list[Block], list[StreamRecord]]
Convert = Callable[[Block], list[StreamRecord]]


def batched_blocks(blocks: Iterable[Block], convert: Convert) -> Iterator[Group]:
    """Yield blocks with their records in groups that fit one step."""
    group: list[Block] = []
    records: list[StreamRecord] = []
    size = 0
    for block in blocks:
        block_records = convert(block)
        group.append(block)
        records += block_records
        size += sum(len(record.value) for record in block_records)
        if len(records) >= STEP_RECORDS or size >= STEP_BYTES:
            yield group, records
            group, records, size = [], [], 0
    if group:
        yield group, records


def make_step(state: IngestState, blocks: Sequence[Block], records: Sequence[StreamRecord]) -> Step:
    """Return a step with the records of these blocks and the current position."""
    time_ms = max((block.timestamp for block in blocks), default=0) * 1000
    return Step(records, state.position.encode(), time_ms, counts=state.take_counts())
