"""One pipeline: its configuration and its deployment."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias, TypeVar

from headwater_client.builders import Document, Source, source, without_none
from headwater_client.call import Call, path
from headwater_client.decoding import convert
from headwater_client.errors import DeployFailed
from headwater_client.model import Message
from headwater_client.models.deployment import Deployment, LogLine, Logs, Rewound, Stats
from headwater_client.models.flow_config import FlowConfig, Transform
from headwater_client.models.metrics import Metrics, MetricsSummary, TransformMetrics
from headwater_client.models.records import Record, Records
from headwater_client.models.revisions import Diff, Revision, RevisionPage
from headwater_client.operations import Asynchronous, Synchronous, iteration, operation, self_operation
from headwater_client.problem import Fault, Problem
from headwater_client.resources.base_resource import Resource
from headwater_client.resources.dead_letters import AsyncDeadLetters, DeadLetters
from headwater_client.resources.filters import AsyncFilter, Filter, Filters
from headwater_client.session import Session
from headwater_client.tail import OnOpen, OnSkipped, TailHooks, tail

MetricsT = TypeVar("MetricsT", Metrics, TransformMetrics, MetricsSummary)
TimeRange: TypeAlias = Literal["1h", "1d", "1w"]
DEPLOY_WAIT_S = 300.0
POLL_S = 1.0


class FlowOperations(Resource):
    """A pipeline.

    Attributes:
        config: The configuration as it was read or saved last by this object.
    """

    def __init__(self, session: Session, config: FlowConfig) -> None:
        super().__init__(session)
        self.config = config

    @property
    def id(self) -> str:
        return self.config.id

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def revision(self) -> int:
        return self.config.revision

    @property
    def warnings(self) -> Sequence[Fault]:
        """Warnings that the server returned when the configuration was saved."""
        return self.config.warnings or []

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, name={self.name!r}, revision={self.revision})"

    # Configuration

    @self_operation
    async def refresh(self, *, timeout: float | None = None) -> Self:
        """Read the configuration again.

        >>> flow.refresh().revision
        1
        """
        self.config = await self._get(self._path(), FlowConfig, timeout)
        return self

    @self_operation
    async def update(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        source: Source | None = None,
        transforms: Sequence[Document] | None = None,
        sinks: Sequence[Document] | None = None,
        parallelism: int | Mapping[str, int] | None = None,
        delivery: str | None = None,
        timeout: float | None = None,
    ) -> Self:
        """Save a new revision with these members changed, and the others as they are in `config`.

        A deployed pipeline keeps running unchanged until the next deploy. Raises RevisionChanged when the configuration
        was saved meanwhile.

        >>> flow.update(description="Only the transfers of one token").revision
        1
        """
        pipeline = {
            **self.config.pipeline_config,
            **_pipeline_changes(source, transforms, sinks, parallelism, delivery),
        }
        top = without_none({"name": name, "description": description, "tags": tags})
        document = {**_editable(self.config), **top, "pipeline_config": pipeline}
        return await self._replace(document, self.revision, timeout)

    @self_operation
    async def replace(
        self, document: Document, *, if_revision: int | None = None, timeout: float | None = None
    ) -> Self:
        """Save a whole configuration as a new revision.

        With `if_revision`, raises RevisionChanged when another revision is the newest one.

        >>> flow.replace({"name": "copy", "pipeline_config": flow.config.pipeline_config}).warnings
        []
        """
        return await self._replace(document, if_revision, timeout)

    @operation
    async def change_transform(self, name: str, transform: Document, *, timeout: float | None = None) -> Transform:
        """Replace the transform with this name or uid.

        A deployed pipeline is deployed again before this returns.

        >>> flow.change_transform("01ke0a2x8rv5c3m7qd9t4jw6j0", set_filter("root = this.token_address")).uid
        '01ke0a2x8rv5c3m7qd9t4jw6j0'
        """
        address = self._path("transforms", self._uid(name))
        changed = await self._send(Call("PATCH", address, Transform, body=transform, timeout=timeout))
        self.config = await self._get(self._path(), FlowConfig, timeout)
        return changed

    @operation
    async def replace_transforms(
        self, transforms: Sequence[Document], *, timeout: float | None = None
    ) -> Sequence[Transform]:
        """Replace the list of transforms.

        A deployed pipeline is deployed again before this returns.

        >>> script = v8("function process(record) { record.seen = true; return record; }")
        >>> [each.type for each in flow.replace_transforms([set_filter("root = this.token_address"), script])]
        ['redis_set_filter', 'v8']
        """
        call = Call("PUT", self._path("transforms"), list[Transform], body=list(transforms), timeout=timeout)
        changed = await self._send(call)
        self.config = await self._get(self._path(), FlowConfig, timeout)
        return changed

    @operation
    async def delete(self, *, timeout: float | None = None) -> None:
        """Delete the configuration, its deployment and the values of its filters.

        >>> flow.delete()
        """
        await self._send(Call("DELETE", self._path(), Message, timeout=timeout))

    # Deployment

    @operation
    async def deploy(
        self, *, until_stable: bool = False, wait_s: float = DEPLOY_WAIT_S, timeout: float | None = None
    ) -> Deployment:
        """Deploy the newest revision, and return the deployment when its workers are ready.

        A paused pipeline is resumed. Raises DeployFailed with the reason when the workers do not become ready.

        Args:
            until_stable: Wait for another 30 s, until the revision can no longer be rolled back.
            wait_s: The seconds after which no request is sent again while the deploy is in progress. The server
                answers a request after a minute at most.
            timeout: The seconds to wait for each response.

        >>> flow.deploy().sink("transfers").topic
        'flow.01ke0a2x8rv5c3m7qd9t4jw6hz.transfers'
        """
        deployment = await self._post(self._path("deploy"), Deployment, None, timeout, wait_s)
        return await self._until_stable(deployment, timeout) if until_stable else deployment

    @operation
    async def deployment(self, *, timeout: float | None = None) -> Deployment:
        """Return the deployment with its credentials.

        Raises NotFound when the pipeline is not deployed.

        >>> flow.deployment().condition
        'Stable'
        """
        return await self._get(self._path("deploy"), Deployment, timeout)

    @operation
    async def wait_until_stable(self, *, timeout: float | None = None) -> Deployment:
        """Wait until the rollout has ended. Raises DeployFailed when the revision was rolled back.

        >>> flow.wait_until_stable().revision
        1
        """
        return await self._until_stable(await self._get(self._path("deploy"), Deployment, timeout), timeout)

    @operation
    async def pause(self, *, timeout: float | None = None) -> None:
        """End the workers; topics, credentials, values and positions stay.

        >>> flow.pause()
        """
        await self._post(self._path("pause"), Message, None, timeout)

    @operation
    async def resume(self, *, wait_s: float = DEPLOY_WAIT_S, timeout: float | None = None) -> Deployment:
        """Continue where the pipeline was paused, and return when its workers are ready.

        >>> [(gap.partition, gap.start, gap.end) for gap in flow.resume().gaps]
        [(3, 1200, 1450)]
        """
        return await self._post(self._path("resume"), Deployment, None, timeout, wait_s)

    @operation
    async def rewind(
        self,
        to: Literal["earliest", "latest"] | str | datetime | Mapping[int, int],
        *,
        wait_s: float = DEPLOY_WAIT_S,
        timeout: float | None = None,
    ) -> Rewound:
        """Move the positions of the pipeline in its source.

        `to` is a time, `earliest`, `latest`, or an offset for each partition.

        >>> flow.rewind({0: 1200}).positions["0"].after
        1200
        """
        if isinstance(to, Mapping):
            target: Any = {str(partition): offset for partition, offset in to.items()}
        else:
            target = to.isoformat() if isinstance(to, datetime) else to
        return await self._post(self._path("rewind"), Rewound, {"to": target}, timeout, wait_s)

    @operation
    async def rollback(
        self, revision: int, *, wait_s: float = DEPLOY_WAIT_S, timeout: float | None = None
    ) -> Deployment | None:
        """Save an earlier revision as the newest one, and deploy it if the pipeline runs.

        Returns the deployment; None when the pipeline is not deployed or is paused. `config` has the saved revision.

        >>> flow.rollback(3).revision
        4
        """
        call = Call("POST", self._path("rollback"), dict, body={"revision": revision}, timeout=timeout)
        response = await self._send(call, wait_s)
        if "pipeline_config" in response:
            self.config = convert(response, FlowConfig)
            return None
        self.config = await self._get(self._path(), FlowConfig, timeout)
        return convert(response, Deployment)

    @operation
    async def teardown(self, *, timeout: float | None = None) -> None:
        """Remove workers, topics and credentials.

        The configuration and the values of its filters stay.

        >>> flow.teardown()
        """
        await self._post(self._path("teardown"), Message, None, timeout, DEPLOY_WAIT_S)

    @operation
    async def rotate_credentials(self, *, timeout: float | None = None) -> Deployment:
        """Replace the readers' password, and return the deployment with the new one.

        >>> flow.rotate_credentials().sink().username
        'dep-01ke0a3c6w2z4x8v9b1n5m7q0k'
        """
        return await self._post(self._path("deploy", "credentials"), Deployment, None, timeout)

    # Revisions

    @iteration
    async def revisions(self, *, page_size: int = 100, timeout: float | None = None) -> AsyncGenerator[Revision, None]:
        """Yield the stored revisions, newest first.

        >>> [(each.revision, each.changed) for each in flow.revisions()]
        [(2, ['name']), (1, [])]
        """
        async for revision in self._items(self._path("revisions"), RevisionPage, {"limit": page_size}, timeout):
            yield revision

    @operation
    async def read_revision(self, revision: int, *, timeout: float | None = None) -> FlowConfig:
        """Return the configuration as it was at a revision.

        >>> flow.read_revision(1).name
        'Transfers of one token'
        """
        return await self._get(self._path("revisions", revision), FlowConfig, timeout)

    @operation
    async def diff(self, revision: int, against: int | None = None, *, timeout: float | None = None) -> Diff:
        """Compare a revision with another one, by default with the one before.

        >>> flow.diff(2).diff.splitlines()[0]
        '--- revision 1'
        """
        return await self._get(self._path("revisions", revision, "diff"), Diff, timeout, against=against)

    # Observation

    @operation
    async def stats(self, *, timeout: float | None = None) -> Stats:
        """Return the state of each worker, and the lag.

        >>> flow.stats().workers_health.healthy_workers
        1
        """
        return await self._get(self._path("deploy", "stats"), Stats, timeout)

    @operation
    async def metrics(
        self, time_range: TimeRange = "1h", *, types: Sequence[str] | None = None, timeout: float | None = None
    ) -> Metrics:
        """Return metrics over time, all or some types.

        >>> [point.value for point in flow.metrics().points("messages_received")]
        [1200.0]
        """
        return await self._metrics(Metrics, time_range, types, timeout)

    @operation
    async def metrics_by_transform(
        self, time_range: TimeRange = "1h", *, types: Sequence[str] | None = None, timeout: float | None = None
    ) -> TransformMetrics:
        """Return the metrics of each transform over time.

        >>> [(each.metric_type, each.points) for each in flow.metrics_by_transform().metrics]
        [('dropped', [])]
        """
        return await self._metrics(TransformMetrics, time_range, types, timeout, by="transform")

    @operation
    async def metrics_summary(
        self, time_range: TimeRange = "1h", *, types: Sequence[str] | None = None, timeout: float | None = None
    ) -> MetricsSummary:
        """Return the metrics of a time range, each as one value.

        >>> flow.metrics_summary().total_latency.p99
        31.0
        """
        return await self._metrics(MetricsSummary, time_range, types, timeout, aggregated=True)

    @operation
    async def logs(self, *, limit: int | None = None, timeout: float | None = None) -> Sequence[LogLine]:
        """Return log lines of the workers and `console.log` lines of the scripts, newest first.

        >>> flow.logs()[0].message
        'a line of console.log'
        """
        return (await self._get(self._path("deploy", "logs"), Logs, timeout, limit=limit)).lines

    @operation
    async def records(
        self,
        sink: str | None = None,
        *,
        limit: int = 10,
        start: datetime | str | None = None,
        timeout: float | None = None,
    ) -> Sequence[Record]:
        """Return the newest outputs of a sink (or `dlq`), oldest first.

        With `start`, return the first ones from that time on.

        >>> flow.records("transfers")[0].headers["headwater-src"]
        'stream.base.log/2/4711/0'
        """
        query = {"sink": sink, "limit": limit, "from": start}
        return (await self._get(self._path("deploy", "records"), Records, timeout, **query)).items

    @iteration
    async def tail(
        self,
        sink: str | None = None,
        *,
        on_open: OnOpen | None = None,
        on_skipped: OnSkipped | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Record, None]:
        """Yield the new records of a sink (or `dlq`), at most 200 per second.

        The iteration ends with the deployment. A broken connection is opened again.

        Args:
            sink: The name of a sink, or `dlq`; by default the first sink with a topic.
            on_open: Called when a connection is open: records that are written from then on are shown.
            on_skipped: Called with a Skipped, whose `count` is the number of records that are not shown, because they
                are too many.
            timeout: The seconds to wait for each connection.

        >>> with flow.tail("transfers") as items:
        ...     next(items).offset
        4711
        """
        address = self._path("deploy", "records", "tail")
        async for record in tail(self._session, address, {"sink": sink}, TailHooks(on_open, on_skipped), timeout):
            yield record

    async def _replace(self, document: Document, if_revision: int | None, timeout: float | None) -> Self:
        headers = {} if if_revision is None else {"If-Match": f'"{if_revision}"'}
        call = Call("PUT", self._path(), FlowConfig, body=document, headers=headers, timeout=timeout)
        self.config = await self._send(call)
        return self

    async def _until_stable(self, deployment: Deployment, timeout: float | None) -> Deployment:
        while deployment.condition == "RollingOut":
            await self._session.io.sleep(POLL_S)
            deployment = await self._get(self._path("deploy"), Deployment, timeout)
        if deployment.condition in {"RolledBack", "Failed"}:
            error = DeployFailed(Problem(status=200, title=deployment.condition, detail=deployment.reason))
            error.deployment = deployment
            raise error
        return deployment

    async def _metrics(
        self, kind: type[MetricsT], time_range: str, types: Sequence[str] | None, timeout: float | None, **query: Any
    ) -> MetricsT:
        names = ",".join(types) if types else None
        return await self._get(
            self._path("deploy", "metrics"), kind, timeout, time_range=time_range, metrics=names, **query
        )

    def _uid(self, name: str) -> str:
        """Return the uid of the transform with this name or uid. Raises KeyError."""
        transforms = self.config.pipeline.transforms
        for transform in transforms:
            if name in (transform.name, transform.uid):
                return transform.uid
        known = ", ".join(transform.name or transform.uid for transform in transforms) or "none"
        raise KeyError(f"{self.name!r} has no transform with the name or uid {name!r}. It has: {known}.")

    def _path(self, *more: str | int) -> str:
        return path("flow", self.id, *more)


def _pipeline_changes(
    from_source: Source | None,
    transforms: Sequence[Document] | None,
    sinks: Sequence[Document] | None,
    parallelism: int | Mapping[str, int] | None,
    delivery: str | None,
) -> dict[str, Any]:
    return without_none(
        {
            "source": source(*from_source) if isinstance(from_source, tuple) else from_source,
            "transforms": transforms,
            "sinks": sinks,
            "parallelism": parallelism,
            "delivery": delivery,
        }
    )


def _editable(config: FlowConfig) -> dict[str, Any]:
    """Return the members of a configuration that a request sets."""
    members = {"name": config.name, "description": config.description, "tags": config.tags}
    return without_none({**members, "external_id": config.external_id})


class Flow(FlowOperations, Synchronous):
    """A pipeline."""

    @property
    def filters(self) -> Filters[Filter]:
        """The sets of the filters, by the name or uid of the transform: `flow.filters["token"]`."""
        return Filters(self._session, self.config, Filter)

    @property
    def dead_letters(self) -> DeadLetters:
        """The records that could not be processed."""
        return DeadLetters(self._session, self.id)


class AsyncFlow(FlowOperations, Asynchronous):
    """A pipeline, for asyncio."""

    @property
    def filters(self) -> Filters[AsyncFilter]:
        """The sets of the filters, by the name or uid of the transform: `flow.filters["token"]`."""
        return Filters(self._session, self.config, AsyncFilter)

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """The records that could not be processed."""
        return AsyncDeadLetters(self._session, self.id)
