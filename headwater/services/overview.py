"""Lists configurations with their states, rates and lags."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from headwater.model.binding import Bindings, KafkaTopic
from headwater.model.deployment import worker_group
from headwater.model.pagination import ListPosition
from headwater.model.pipeline_state import ConfigurationQuery, ConfigurationSummary, DeploymentSummary, PipelineState
from headwater.model.recent_metrics import LAST_HOUR, RecentMetrics
from headwater.services.ids import Now
from headwater.services.lag_cache import LagCache, LagSource
from headwater.services.optional_reads import OptionalReads
from headwater.services.revision_source_cache import RevisionSourceCache
from headwater.stores.protocols.metrics import MetricStore
from headwater.stores.protocols.overview import OverviewStore, RevisionId, SourceStream

SUMMARIES_PER_READ = 500
"""How many configurations are read at once when some of them may not match."""

MetricsById = Mapping[str, RecentMetrics]
"""Recent metrics by the id of a deployment."""


class ListedConfiguration(NamedTuple):
    """A configuration with its state.

    Attributes:
        source: The source of the newest revision; None when this version can't read it.
    """

    summary: ConfigurationSummary
    state: PipelineState
    source: SourceStream | None


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """A page of configurations with their states.

    Attributes:
        next_position: The position behind which the next page begins; None on the last page.
    """

    items: Sequence[ListedConfiguration]
    next_position: ListPosition | None

    @property
    def deployments(self) -> Sequence[DeploymentSummary]:
        """The deployments of the configurations on the page."""
        return [item.summary.deployment for item in self.items if item.summary.deployment is not None]


class Overview:
    """Lists configurations with their states, rates and lags.

    The page comes from the database alone. Its rates and lags can be missing, so that Valkey, Redis or Kafka never
    delay a list for long.

    Args:
        store: Lists configurations.
        metrics: Has the rates.
        bindings: Where this installation reads each stream.
        lags: Reads lags in the background.
        now: Returns the present time.
    """

    def __init__(
        self, *, store: OverviewStore, metrics: MetricStore, bindings: Bindings, lags: LagCache, now: Now
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._lags = lags
        self._now = now
        self._source_cache = RevisionSourceCache(store)
        self._reads = OptionalReads[MetricsById]("rates")
        self._bindings = bindings.all()

    def page(self, owner: str, query: ConfigurationQuery, after: ListPosition | None, limit: int) -> OverviewPage:
        """Return the next configurations of an owner that match, newest first.

        May block, and raises DatabaseUnavailable.
        """
        matching: list[ListedConfiguration] = []
        for part in self._parts(owner, query, after, limit):
            matching += self._matching(query, part)
            if len(matching) > limit:
                return OverviewPage(matching[:limit], matching[limit - 1].summary.position)
        return OverviewPage(matching, None)

    def _parts(
        self, owner: str, query: ConfigurationQuery, after: ListPosition | None, limit: int
    ) -> Iterator[Sequence[ConfigurationSummary]]:
        """Yield, in parts, the configurations that may match."""
        size = limit + 1 if query == ConfigurationQuery() else max(limit + 1, SUMMARIES_PER_READ)
        while True:
            part = self._store.summaries(owner, query, after, size)
            yield part
            if len(part) < size:
                return
            after = part[-1].position

    def _matching(
        self, query: ConfigurationQuery, part: Sequence[ConfigurationSummary]
    ) -> Iterator[ListedConfiguration]:
        selected = [summary for summary in part if query.matches(summary)]
        sources = self._source_cache.sources([_revision_id(summary) for summary in selected])
        now = self._now()
        for summary in selected:
            source = sources.get(_revision_id(summary))
            state = summary.state(now, is_pipeline_readable=source is not None)
            if query.state in (None, state):
                yield ListedConfiguration(summary, state, source)

    @property
    def first_minute(self) -> datetime:
        """The start of the hour that ends with the present minute, to be passed to `metrics`."""
        return datetime.fromtimestamp(LAST_HOUR.starts(self._now().timestamp())[0], UTC)

    def metrics(
        self, deployments: Collection[DeploymentSummary], first_minute: datetime
    ) -> "Future[MetricsById | None]":
        """Read the metrics of the hour that begins with `first_minute`. Does not block.

        The result is None when the metrics can't be read.
        """
        ids = sorted(deployment.id for deployment in deployments)
        last_minute_s = first_minute.timestamp() + LAST_HOUR.seconds - LAST_HOUR.resolution_s
        return self._reads.submit(
            f"{last_minute_s} {' '.join(ids)}",
            lambda: dict(zip(ids, self._metrics.recent(ids, last_minute_s), strict=True)),
        )

    def lags(self, deployments: Collection[DeploymentSummary]) -> Mapping[str, int]:
        """Return the known lags by the id of a deployment. Does not block."""
        sources = {deployment.id: self._lag_source(deployment) for deployment in deployments}
        return self._lags.get({id_: source for id_, source in sources.items() if source is not None})

    def _lag_source(self, deployment: DeploymentSummary) -> LagSource | None:
        """Return what the lag is read from; None for a source outside of Kafka."""
        binding = self._bindings.get(deployment.stream)
        if not isinstance(binding, KafkaTopic):
            return None
        group = worker_group(deployment.id, deployment.source_epoch)
        return LagSource(binding.access, binding.topic, group, deployment.positions)

    def close(self) -> None:
        """End the threads of the reads in the background."""
        self._reads.close()
        self._lags.close()


def _revision_id(summary: ConfigurationSummary) -> RevisionId:
    return RevisionId(summary.id, summary.revision)
