"""Maps the `type` of a sink in a configuration to the function that builds the sink."""

from collections.abc import Callable

from headwater.model.record import SourceIds
from headwater.model.worker_spec import SinkSpec
from headwater.sinks import kafka, prices
from headwater.sinks.base import Sink

SINKS: dict[str, Callable[[SinkSpec, SourceIds], Sink]] = {"kafka": kafka.build, "prices": prices.build}
