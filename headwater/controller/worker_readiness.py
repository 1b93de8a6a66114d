"""Records since when workers are not ready."""

from collections.abc import Sequence
from datetime import datetime

from headwater.model.deployment import ObservedWorker


def with_not_ready_since(
    workers: Sequence[ObservedWorker], previous: Sequence[ObservedWorker], now: datetime
) -> tuple[ObservedWorker, ...]:
    """Return the workers with the time since which each one is not ready.

    The time of a worker that was not ready before is kept, also when its process was started again meanwhile.

    Args:
        workers: The workers as they are now.
        previous: The workers as they were returned before.
        now: The present time.
    """
    since = {worker.name: worker.not_ready_since for worker in previous}
    return tuple(
        worker if worker.is_ready else worker.model_copy(update={"not_ready_since": since.get(worker.name) or now})
        for worker in workers
    )
