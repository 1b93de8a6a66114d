"""The state of an EVM ingest, and steps made of blocks: a few MB each, which Kafka takes in well under 5 s."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.ingest.base import Step, StreamRecord
from headwater.ingest.evm.blocks import Block
from headwater.ingest.evm.options import EvmOptions
from headwater.ingest.evm.pool import NodePool
from headwater.ingest.evm.position import Position
from headwater.ingest.evm.records import Converter

STEP_RECORDS: Final = 20_000
STEP_BYTES: Final = 8 << 20

ReadBack = Callable[[Sequence[str], int], Iterator[StreamRecord]]
"""The records of these streams that were written at or after a time in ms, up to now, in order within a partition."""


@dataclass(slots=True)
class Work:
    """What FinalBlocks and HeadBlocks share. position: the position after the last step that was yielded."""

    options: EvmOptions
    nodes: NodePool
    converter: Converter
    position: Position
    counts: Counter[str] = field(default_factory=Counter)
    _counted: Counter[str] = field(default_factory=Counter)

    def taken_counts(self) -> Counter[str]:
        """What was counted since the last call."""
        nodes = self.nodes
        now = Counter(retries=nodes.retries, failovers=nodes.failovers, incomplete=nodes.incomplete)
        counts, self.counts = self.counts, Counter()
        counts += now - self._counted
        self._counted = now
        return counts


Group = tuple[list[Block], list[StreamRecord]]
Convert = Callable[[Block], list[StreamRecord]]


def grouped(blocks: Iterable[Block], convert: Convert) -> Iterator[Group]:
    """Blocks with their records, as many together as fit one step."""
    kept: list[Block] = []
    records: list[StreamRecord] = []
    size = 0
    for block in blocks:
        new = convert(block)
        kept.append(block)
        records += new
        size += sum(len(record.value) for record in new)
        if len(records) >= STEP_RECORDS or size >= STEP_BYTES:
            yield kept, records
            kept, records, size = [], [], 0
    if kept:
        yield kept, records


def step_of(work: Work, blocks: Sequence[Block], records: Sequence[StreamRecord]) -> Step:
    """The step of these blocks and records, after which the ingest is at the work's position."""
    time_ms = max((block.timestamp for block in blocks), default=0) * 1000
    return Step(records, work.position.encode(), time_ms, counts=work.taken_counts())
