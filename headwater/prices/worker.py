"""The prices worker: the engine's loop with a transform that folds ticks and a delivery that writes price states."""

import time
from collections.abc import Callable, Iterable

from headwater.engine.chain import InFlightBatch
from headwater.engine.delivery import ANY_NUMBER
from headwater.engine.metrics.observer import Observer
from headwater.engine.worker import Worker
from headwater.model.record import Failure, Outcome, RecordBatch
from headwater.prices.fold import PriceFold
from headwater.sources.base import Positions, Source
from headwater.transforms.base import Pending

CHECKPOINT_S = 0.5
"""How far the prices lag behind the ticks, about; further when a write takes long."""
SHARE_OF_WRITING = 2
"""The pause after a write is this many times as long as the write, unless many ticks come sooner: the more ticks of a
token are written together, the less each costs."""
IDLE_POLL_S = 0.1
"""How long a write that is due waits for records at most."""
MANY_HELD = 250_000
"""With this many ticks in memory they are written at once."""


class FoldTransform:
    """Implements Transform: folds a batch, and lets nothing of it pass."""

    uid = "prices"

    def __init__(self, fold: PriceFold) -> None:
        self._fold = fold

    def start(self, batch: RecordBatch) -> Pending:
        """See Transform."""
        return _Folding(self._fold, batch)

    def close(self) -> None:
        """See Transform."""


class _Folding:
    """A batch whose ticks are folded when its result is taken."""

    def __init__(self, fold: PriceFold, batch: RecordBatch) -> None:
        self._fold = fold
        self._batch = batch

    def done(self) -> bool:
        """What is left is computing, and at most a round trip."""
        return True

    def wait(self, timeout_s: float) -> None:
        """See Pending."""

    def result(self) -> Outcome:
        """See Pending."""
        self._fold.fold(self._batch)
        return Outcome(RecordBatch.empty(self._batch.topic))


class PriceDelivery:
    """Implements Delivery: positions go to the price store, with the states that they belong to."""

    def __init__(self, fold: PriceFold, clock: Callable[[], float] = time.monotonic) -> None:
        self.checkpoint_s = CHECKPOINT_S
        self._fold = fold
        self._clock = clock
        self._is_away = False

    def connect(self, timeout_s: float) -> None:
        """Nothing to connect to: Kafka is the source's, and the store is asked when there are ticks."""

    def begin(self, timeout_s: float) -> None:
        """Nothing to take over: partitions are taken one by one."""

    def deliver(self, in_flight: InFlightBatch) -> tuple[int, list[Failure]]:
        """It is folded already."""
        in_flight.settle()
        return 0, []

    def push(self) -> None:
        """Nothing waits."""

    def room(self) -> int:
        """A store that did not take the last write is asked again when that is due by time."""
        return ANY_NUMBER if self._is_away else max(0, MANY_HELD - self._fold.held)

    def saturated(self) -> bool:
        return False

    def unacknowledged(self, timeout_s: float) -> int:  # noqa: ARG002 - nothing is on its way between two commits
        return 0

    def outstanding(self) -> int:
        return 0

    def failures(self) -> list[str]:
        return []

    def commit(self, source: Source, positions: Positions, *, wait: bool) -> None:
        """See Delivery."""
        began, self._is_away = self._clock(), True
        self._fold.store(positions)
        self._is_away = False
        if positions:
            source.commit(positions, wait=wait)
        self.checkpoint_s = max(CHECKPOINT_S, SHARE_OF_WRITING * (self._clock() - began))

    def end_commit(self, *, wait: bool) -> bool:  # noqa: ARG002 - nothing goes on beside the worker
        """See Delivery."""
        return True

    def recover(self, source: Source) -> Positions:  # noqa: ARG002 - Kafka refuses nothing
        return {}

    def forget(self, partitions: Iterable[int]) -> None:
        self._fold.forget(partitions)

    def close(self) -> None:
        """Nothing to free."""


def prices_worker(source: Source, fold: PriceFold, observer: Observer) -> Worker:
    """Return a worker that folds the ticks of a source."""
    return Worker(source, [FoldTransform(fold)], PriceDelivery(fold), observer, idle_poll_s=IDLE_POLL_S)
