"""Maps the kind of a stream's binding to the function that builds its source."""

from collections.abc import Callable

from headwater.model.worker_spec import WorkerSpec
from headwater.sources import kafka
from headwater.sources.base import Source


def _pubsub(spec: WorkerSpec, slot: int) -> Source:
    from headwater.sources import pubsub  # needs an extra of the package, and its import is slow

    return pubsub.build(spec, slot)


SOURCES: dict[str, Callable[[WorkerSpec, int], Source]] = {"kafka": kafka.build, "pubsub": _pubsub}
