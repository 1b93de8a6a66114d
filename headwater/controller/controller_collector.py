"""Prometheus metrics of the controller, of deployments and of the prices worker's lag."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headwater.controller.controller import Controller
from headwater.controller.pipeline_collector import LABELS
from headwater.errors import BrokerUnavailable
from headwater.model.access import KafkaAccess
from headwater.orchestrators.base import Orchestrator

log = structlog.get_logger(__name__)


class ControllerCollector(Collector):
    """Collects the metrics of a controller.

    The controller measures the lag of the prices worker, so that the lag is known while no prices worker runs.

    Args:
        controller: The controller of this process.
        orchestrator: The orchestrator that runs the workers.
        read_lag: Returns the lag by consumer group on a cluster; None is the installation's own cluster.
        prices_group: The consumer group of the prices workers.
    """

    def __init__(
        self,
        controller: Controller,
        orchestrator: Orchestrator,
        read_lag: Callable[[KafkaAccess | None, Collection[str]], Mapping[str, int]],
        prices_group: str,
    ) -> None:
        self._controller = controller
        self._orchestrator = orchestrator
        self._read_lag = read_lag
        self._prices_group = prices_group

    def describe(self) -> Iterable[Metric]:
        """Return nothing: no metric is known before a scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. The lag is omitted while Kafka is unavailable."""
        yield GaugeMetricFamily(
            "headwater_controller_leads", "1 while this controller leads.", float(self._controller.leads)
        )
        yield self._loops()
        yield self._phases()
        yield self._prices_lag()

    def _loops(self) -> Metric:
        family = GaugeMetricFamily(
            "headwater_controller_loop_failing",
            "1 while the last iteration of a background loop has failed.",
            labels=("loop",),
        )
        for loop in self._controller.loops:
            family.add_metric((loop.name,), bool(loop.error))
        family.add_metric(("managing workers",), bool(self._orchestrator.current_failure))
        return family

    def _phases(self) -> Metric:
        family = GaugeMetricFamily(
            "headwater_pipeline_phase",
            "1 for the phase of each deployment: pending, running, paused or failed.",
            labels=(*LABELS, "phase"),
        )
        for deployment in self._controller.deployments():
            family.add_metric((deployment.config_id, deployment.id, str(deployment.phase)), 1)
        return family

    def _prices_lag(self) -> Metric:
        family = GaugeMetricFamily("headwater_price_lag", "Ticks that the prices workers have not stored yet.")
        try:
            lag = self._read_lag(None, (self._prices_group,)).get(self._prices_group)
        except BrokerUnavailable as error:
            log.warning("the lag of the prices worker is not known", reason=error.detail)
            return family
        if lag is not None:
            family.add_metric((), lag)
        return family
