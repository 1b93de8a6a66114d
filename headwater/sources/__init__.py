"""Kinds of sources, by the kind of the stream's binding."""

from collections.abc import Callable

from headwater.model.worker import WorkerSpec
from headwater.sources import kafka
from headwater.sources.base import Source


def _pubsub(spec: WorkerSpec, slot: int) -> Source:
    from headwater.sources import pubsub  # an extra of the package, which takes long to import

    return pubsub.build(spec, slot)


SOURCES: dict[str, Callable[[WorkerSpec, int], Source]] = {"kafka": kafka.build, "pubsub": _pubsub}
