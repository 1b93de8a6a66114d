"""The transforms of a pipeline in order, and a batch on its way through them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.model.record import Failure, RecordBatch
from headwater.model.transform import Transform as TransformConfig
from headwater.model.transform import feeds_script
from headwater.transforms.base import Pending, Resources, Transform


def build(
    configs: Sequence[TransformConfig],
    builders: Mapping[str, Callable[[Any, Resources], Transform]],
    resources: Resources,
) -> list[Transform]:
    """The transforms of a worker spec. Raises ScriptRefused, ExpressionRefused, SandboxFailed."""
    return [
        builders[config.type](config, replace(resources, feeds_script=feeds_script(configs, place)))
        for place, config in enumerate(configs)
    ]


MAX_IN_FLIGHT = 3
"""Batches: one is delivered, the sandbox runs the next one, and the set store is asked for the one in between."""
STEP_S = 0.25
"""A script may take longer; the worker looks after its group and its supervisor meanwhile."""


class Rejected(NamedTuple):
    """A record that a step could not process: its source position, its number under the source record, and why."""

    partition: int
    offset: int
    output: int
    failure: Failure


class InFlightBatch:
    """One batch in flight.

    source: the batch as it was read. kept: what the finished transforms made of it. stage: how many transforms are
    finished with it. waited_s: how long the worker had waited for Kafka or a store when the batch was read, in sum.
    Once partitions are dropped, their records are neither sent nor committed.
    """

    def __init__(
        self, source: RecordBatch, transforms: Sequence[Transform], read_at: float, waited_s: float = 0.0
    ) -> None:
        self.source = source
        self.kept = source
        self.read_at = read_at
        self.waited_s = waited_s
        self.stage = 0
        self.rejected: list[Rejected] = []
        self.logs: list[str] = []
        self._transforms = transforms
        self._pending: Pending | None = None
        self._dropped: set[int] = set()
        self._ends = dict(source.ends)
        self._start()

    @property
    def finished(self) -> bool:
        """True when every transform is done with the batch."""
        return self.stage == len(self._transforms)

    @property
    def abandoned(self) -> bool:
        """True when nothing of the batch is ours any more."""
        return self._dropped.issuperset(self.source.partitions)

    def _start(self) -> None:
        if self.finished:
            return
        if not self.kept or (self._dropped and self.abandoned):
            self.stage = len(self._transforms)
        else:
            self._pending = self._transforms[self.stage].start(self.kept)

    def step(self, *, wait: bool) -> bool:
        """Take the result of the present transform and start the next one; False when there is none yet.

        wait: for it, at most STEP_S.
        Raises SetStoreUnavailable (call again later), SandboxFailed.
        """
        pending = self._pending
        if pending is None:
            return False
        if wait:
            pending.wait(STEP_S)
        if not pending.done():
            return False
        outcome = pending.result()
        self.rejected += self._locate(self.kept, outcome.failures)
        self.logs += outcome.logs
        self.kept = outcome.kept
        self.stage += 1
        self._pending = None
        self._start()
        return True

    @staticmethod
    def _locate(batch: RecordBatch, failures: Iterable[Failure]) -> list[Rejected]:
        return [Rejected(batch.partitions[f.row], batch.offsets[f.row], batch.indexes[f.row], f) for f in failures]

    def reject(self, failures: Iterable[Failure]) -> None:
        """Note records of `kept` that a sink could not take."""
        self.rejected += self._locate(self.kept, failures)

    def drop(self, partitions: Iterable[int]) -> None:
        """Send and commit nothing of these partitions."""
        gone = set(partitions)
        self._dropped |= gone
        self._ends = {p: end for p, end in self._ends.items() if p not in gone}

    def end_at(self, ends: Mapping[int, int]) -> None:
        """Behind the batch these partitions go on only here."""
        self._ends.update(ends)

    def settle(self) -> None:
        """Before the batch is sent: take out what was dropped."""
        if self._dropped:
            dropped = self._dropped
            self.source, self.kept = (b.without(dropped) for b in (self.source, self.kept))
            self.rejected = [r for r in self.rejected if r.partition not in dropped]

    def positions(self) -> dict[int, int]:
        """The next offset to read after this batch, by partition."""
        return {partition: offset + 1 for partition, offset in self.source.last_offsets().items()} | self._ends

    def output_bytes(self) -> int:
        """The size of what the transforms made of the batch."""
        return len(self.kept.values.text)

    def source_rows(self) -> dict[tuple[int, int], int]:
        """The row of each source record, by partition and offset."""
        rows = zip(self.source.partitions, self.source.offsets, strict=True)
        return {position: row for row, position in enumerate(rows)}


class BatchSize:
    """How many records to read at once, so that a batch spends about TARGET_S in the transforms, and its outputs take
    about TARGET_BYTES.

    FEWEST follows from the 50 ms of CPU that a script may spend on one record, and the 8 MB that it may return. A
    worker begins with it: one that ended for want of memory would else end again and again.
    """

    TARGET_S = 0.2
    TARGET_BYTES = 32 << 20
    FEWEST, MOST = 4, 2000

    def __init__(self) -> None:
        self.limit = self.FEWEST
        self._last_end = float("-inf")

    def learn(self, in_flight: InFlightBatch, now: float, waited_s: float) -> None:
        """Note a batch that was delivered at `now`. Waits, also behind the batch before it, do not count."""
        end, start, count = now - waited_s, in_flight.read_at - in_flight.waited_s, len(in_flight.source)
        took_s = end - max(start, self._last_end)
        self._last_end = end
        too_much = max(took_s / self.TARGET_S, in_flight.output_bytes() / self.TARGET_BYTES)
        if too_much > 1:
            self.limit = max(self.FEWEST, min(self.limit, int(count / too_much)))
        elif count >= self.limit:
            self.limit = min(self.MOST, self.limit * 2)
