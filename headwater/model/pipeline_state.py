"""The state of a configuration in one word, as lists and error messages name it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from headwater.model.deployment import Condition, DesiredPhase, ObservedWorker
from headwater.model.pagination import ListPosition
from headwater.model.positions import GroupPositions

PipelineState = Literal["draft", "deployed", "paused", "failing", "unreadable"]
PIPELINE_STATES: tuple[PipelineState, ...] = get_args(PipelineState)

NOT_READY_FOR = timedelta(seconds=60)
"""A pipeline is failing when one of its workers has not been ready for this long."""


@dataclass(frozen=True, slots=True)
class DeploymentSummary:
    """An active deployment, without its configuration and secrets.

    Attributes:
        stream: The name of the stream that the effective revision reads; empty when it is unknown.
        source_epoch: The number at the end of the name of the effective revision's consumer group.
        positions: The stored positions of this consumer group; None while its committed offsets are the positions.
    """

    id: str
    desired: DesiredPhase
    condition: Condition
    workers: Sequence[ObservedWorker]
    stream: str
    source_epoch: int
    positions: GroupPositions | None = None

    def is_failing(self, now: datetime) -> bool:
        """Return whether the last rollout has failed or was rolled back, or a worker is failing."""
        has_failed = self.condition in (Condition.FAILED, Condition.ROLLED_BACK)
        return has_failed or any(_is_failing(worker, now) for worker in self.workers)


def _is_failing(worker: ObservedWorker, now: datetime) -> bool:
    not_ready_since = worker.not_ready_since
    return worker.is_crash_looping or (not_ready_since is not None and now - not_ready_since >= NOT_READY_FOR)


@dataclass(frozen=True, slots=True)
class ConfigurationSummary:
    """A configuration with its deployment, but without its pipeline.

    Attributes:
        updated_at: When the newest revision was saved.
        is_row_readable: Whether this version can read the stored tags and the passwords of the deployment. Whether it
            can read the pipeline is not known without the pipeline.
        deployment: The active deployment; None when there is none, or when its teardown was requested.
    """

    id: str
    name: str
    external_id: str | None
    tags: tuple[str, ...]
    revision: int
    created_at: datetime
    updated_at: datetime
    is_row_readable: bool
    deployment: DeploymentSummary | None

    @property
    def position(self) -> ListPosition:
        """The position of the configuration in lists."""
        return ListPosition(self.created_at, self.id)

    def state(self, now: datetime, *, is_pipeline_readable: bool) -> PipelineState:
        """Return the state of the configuration."""
        if not (self.is_row_readable and is_pipeline_readable):
            return "unreadable"
        if self.deployment is None:
            return "draft"
        if self.deployment.desired is DesiredPhase.PAUSED:
            return "paused"
        return "failing" if self.deployment.is_failing(now) else "deployed"


@dataclass(frozen=True, slots=True)
class ConfigurationQuery:
    """Selects configurations.

    Attributes:
        text: A part of the id, the name or the external_id, in any case; None selects all.
        tag: A tag; None selects all.
        state: The state; None selects all.
    """

    text: str | None = None
    tag: str | None = None
    state: PipelineState | None = None

    def matches(self, summary: ConfigurationSummary) -> bool:
        """Return whether the text and the tag select a configuration. The state is not compared."""
        if self.tag is not None and self.tag not in summary.tags:
            return False
        if self.text is None:
            return True
        text = self.text.lower()
        return any(text in name.lower() for name in (summary.id, summary.name, summary.external_id or ""))
