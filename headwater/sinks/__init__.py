"""Kinds of sinks, by the `type` that users write."""

from collections.abc import Callable

from headwater.model.record import SourceNames
from headwater.model.worker import SinkSpec
from headwater.sinks import kafka, prices
from headwater.sinks.base import Sink

SINKS: dict[str, Callable[[SinkSpec, SourceNames], Sink]] = {"kafka": kafka.build, "prices": prices.build}
