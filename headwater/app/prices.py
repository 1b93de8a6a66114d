"""Composition of the prices worker: from the ticks topic to the price states."""

import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import structlog
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.app.addresses import Addresses
from headwater.app.controller import create_topics
from headwater.app.home import Home, require_platform
from headwater.app.memory import spare_a_worker
from headwater.app.metrics_port import serving
from headwater.app.worker import METRICS_ANSWER_TIMEOUT_S
from headwater.brokers.kafka import KafkaBroker
from headwater.controller.resources import TICKS
from headwater.engine.metrics.observer import Observer
from headwater.engine.metrics.recorder import Recorder
from headwater.engine.worker import Worker
from headwater.errors import HeadwaterError
from headwater.prices.fold import PriceFold
from headwater.prices.source import GROUP, ticks_source
from headwater.prices.worker import prices_worker
from headwater.settings import Settings
from headwater.stores.redis.client import connect
from headwater.stores.redis.metrics import RedisMetrics
from headwater.stores.redis.prices import RedisPrices

log = structlog.get_logger(__name__)


class PriceCollector(Collector):
    """Prometheus series of this process."""

    def __init__(self, fold: PriceFold) -> None:
        self._fold = fold

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily("headwater_price_ticks", "Ticks folded into prices.", self._fold.ticks)
        yield CounterMetricFamily(
            "headwater_price_ticks_outside", "Of these, those whose price does not count.", self._fold.outside
        )
        yield CounterMetricFamily(
            "headwater_price_ticks_unpriced", "Quoted ticks without a price of their quote token.", self._fold.unpriced
        )


def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; several share the work. Raises SetupError; ends with status 1 on other errors."""
    require_platform()
    home = Home(settings.data_dir)
    addresses = Addresses(settings, home)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    create_topics(KafkaBroker(addresses.kafka(), addresses.replication()), (TICKS,), stop)
    owner = secrets.token_hex(8)
    with (
        closing(addresses.set_store()) as client,
        closing(connect(addresses.redis_url(), answer_timeout_s=METRICS_ANSWER_TIMEOUT_S)) as metrics,
    ):
        fold = PriceFold(RedisPrices(client), owner)
        observer = Observer(Recorder(RedisMetrics(metrics), GROUP, GROUP, owner))
        worker = prices_worker(ticks_source(addresses.kafka(), fold.take), fold, observer)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: worker.stop())
        if stop.is_set():
            worker.stop()
        spare_a_worker()
        with serving(settings.prices_metrics_port, PriceCollector(fold)):
            run_until_end(worker)


def run_until_end(worker: Worker) -> None:
    """Run a worker, and end the process: with status 0 when all that was read is stored, else with 1."""
    try:
        complete = worker.run()
    except HeadwaterError as error:
        log.error("the prices worker ends", reason=error.detail)
        complete = False
    except Exception:
        log.exception("the prices worker ends")
        complete = False
    sys.exit(0 if complete else 1)
