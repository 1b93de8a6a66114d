"""Configurations of pipelines."""

from datetime import datetime
from typing import Any

from headwater_client.decoding import convert
from headwater_client.model import Model
from headwater_client.problem import Fault


class Source(Model, frozen=True, kw_only=True):
    """The stream that a pipeline reads.

    Attributes:
        start_at: `latest`, `earliest` or a time: where a new deployment starts.
    """

    type: str
    chain: str
    entity: str
    is_zerolag: bool = False
    start_at: str = "latest"


class Transform(Model, frozen=True, kw_only=True):
    """A transform, `v8` or `redis_set_filter` by its `type`.

    Attributes:
        name: Your own name of the transform.
        script: The script of a `v8` transform.
        filter_expr: The expression of a `redis_set_filter` transform.
        warnings: What the server found when the transform was saved.
    """

    uid: str
    type: str
    name: str | None = None
    script: str | None = None
    filter_expr: str | None = None
    warnings: list[Fault] | None = None


class Sink(Model, frozen=True, kw_only=True):
    """A sink, `kafka` or `prices` by its `type`. Only a `kafka` sink has the optional members."""

    uid: str
    type: str
    name: str
    partitions: int | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    compression: str | None = None
    cleanup_policy: str | None = None


class WorkerBounds(Model, frozen=True, kw_only=True):
    """The bounds between which the number of workers follows the load."""

    min: int
    max: int


class PipelineConfig(Model, frozen=True, kw_only=True):
    """The stream that a pipeline reads, its transforms and its sinks."""

    source: Source
    sinks: list[Sink]
    transforms: list[Transform] = []
    parallelism: int | WorkerBounds = 1
    delivery: str = "at_least_once"


class FlowConfig(Model, frozen=True, kw_only=True):
    """A configuration.

    Attributes:
        pipeline_config: The JSON object as the server sent it, with members that this version does not know.
            `pipeline` is its typed form.
        revision: The number of the revision: 1 at first, and incremented by each change.
        external_id: Your own id of the configuration.
        unreadable: Why the server can't read the configuration; None when it can.
        warnings: What the server found when the configuration was saved.
    """

    id: str
    name: str
    description: str
    tags: list[str]
    owner_org_team_user_id: str
    created_at: datetime
    updated_at: datetime
    revision: int
    pipeline_config: Any
    external_id: str | None = None
    unreadable: str | None = None
    warnings: list[Fault] | None = None

    @property
    def pipeline(self) -> PipelineConfig:
        """The typed form of `pipeline_config`.

        Raises msgspec.ValidationError for an unreadable configuration.
        """
        return convert(self.pipeline_config, PipelineConfig)
