"""Runs an ingest, which writes the records of a chain reader, and serves its metrics."""

import threading
from collections.abc import Callable

import structlog

from headwater.app.data_directory import require_platform
from headwater.app.ingest_collector import IngestCollector
from headwater.app.ingest_target import prepare_target
from headwater.app.metrics_server import serve_metrics
from headwater.ingest.base import ChainReader
from headwater.ingest.options import IngestOptions
from headwater.ingest.runner import IngestMetrics, run
from headwater.settings import Settings

log = structlog.get_logger(__name__)

OpenChainReader = Callable[[IngestOptions, Settings, threading.Event], ChainReader]
"""Opens a chain reader. The event is set to stop the reader, which then ends its waits."""


def run_ingest(settings: Settings, options: IngestOptions, reader: ChainReader, stop: threading.Event) -> IngestMetrics:
    """Run until `stop` is set or the chain reader ends. Returns the counters of the ingest.

    Raises SetupError, BrokerUnavailable, IngestStopped.
    """
    require_platform()
    target = prepare_target(settings, options, reader, stop)
    metrics = IngestMetrics()
    if target is None:
        return metrics
    log.info("the ingest starts: it reads its position from Kafka, then connects to its node", ingest=options.name)
    with serve_metrics(
        options.metrics_port,
        IngestCollector(options, metrics),
        "--metrics-port, or the member metrics_port",
        settings.metrics_host,
    ):
        run(reader, target.open, stop, metrics)
    return metrics
