"""Builds the prices worker, which folds the ticks topic into the price states, and runs it."""

import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import closing

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.app.build_worker import METRICS_WRITE_TIMEOUT_S
from headwater.app.data_directory import require_platform
from headwater.app.endpoints import Endpoints
from headwater.app.memory import tune_worker_memory
from headwater.app.metrics_server import serve_metrics
from headwater.app.stop_signals import stop_on_signals
from headwater.app.topics import create_topics
from headwater.brokers.cluster_admin import KafkaClusterAdmin
from headwater.controller.deployment_resources import TICKS_TOPIC_SPEC
from headwater.engine.metrics.metrics_writer import MetricsWriter
from headwater.engine.metrics.pipeline_metrics import PipelineMetrics
from headwater.engine.worker import Worker
from headwater.errors import HeadwaterError
from headwater.prices.price_writer import PriceWriter
from headwater.prices.source import GROUP as PRICES_GROUP
from headwater.prices.source import ticks_source
from headwater.prices.worker import prices_worker
from headwater.settings import Settings
from headwater.stores.redis.client import connect
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.redis.prices import RedisPrices

log = structlog.get_logger(__name__)


class PriceCollector(Collector):
    """The Prometheus metrics of this process."""

    def __init__(self, price_writer: PriceWriter) -> None:
        self._price_writer = price_writer

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "headwater_price_ticks", "Ticks that the prices worker has received.", self._price_writer.ticks
        )
        yield CounterMetricFamily(
            "headwater_price_ticks_outside",
            "Folded ticks whose price was an outlier: outside the accepted bands.",
            self._price_writer.outliers,
        )
        yield CounterMetricFamily(
            "headwater_price_ticks_unpriced",
            "Quoted ticks that were left out: too old, or without a price in USD.",
            self._price_writer.unpriced,
        )


def run(settings: Settings) -> None:
    """Run the prices worker until SIGTERM or SIGINT.

    Several prices workers share the partitions of the ticks topic.

    Raises SetupError. On other errors, the process exits with status 1.
    """
    require_platform()
    endpoints = Endpoints.from_settings(settings)
    stop = stop_on_signals()
    own_cluster = KafkaClusterAdmin(endpoints.admin_kafka_access(), replication=endpoints.replication())
    create_topics(own_cluster, (TICKS_TOPIC_SPEC,), stop)
    writer_id = secrets.token_hex(8)
    with (
        closing(endpoints.connect_redis()) as client,
        closing(connect(endpoints.redis_url(), reply_timeout_s=METRICS_WRITE_TIMEOUT_S)) as metrics,
    ):
        price_writer = PriceWriter(RedisPrices(client), writer_id)
        metrics_writer = MetricsWriter(
            RedisMetrics(metrics), deployment_id=PRICES_GROUP, group=PRICES_GROUP, writer_id=writer_id
        )
        source = ticks_source(endpoints.admin_kafka_access(), price_writer.acquire_partitions)
        worker = prices_worker(source, price_writer, PipelineMetrics(metrics_writer))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: worker.stop())
        if stop.is_set():
            worker.stop()
        tune_worker_memory()
        with serve_metrics(
            settings.prices_metrics_port, PriceCollector(price_writer), "--prices-metrics-port", settings.metrics_host
        ):
            run_until_end(worker)


def run_until_end(worker: Worker) -> None:
    """Run a worker, and end the process.

    The exit status is 0 when all ticks that the worker has read are stored, otherwise 1.
    """
    try:
        is_everything_stored = worker.run()
    except HeadwaterError as error:
        log.error("the prices worker ends", reason=error.detail)
        is_everything_stored = False
    except Exception:
        log.exception("the prices worker ends")
        is_everything_stored = False
    sys.exit(0 if is_everything_stored else 1)
