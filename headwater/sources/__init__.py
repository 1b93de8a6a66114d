"""Kinds of sources, by the `type` of the stream's binding."""

from collections.abc import Callable

from headwater.model.worker import WorkerSpec
from headwater.sources import kafka
from headwater.sources.base import Source

SOURCES: dict[str, Callable[[WorkerSpec, int], Source]] = {"kafka": kafka.build}
