"""Stores, moves and restores the positions of a deployment whose workers have ended."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import structlog

from headwater.brokers.base import TopicOffsets
from headwater.controller.deployment_sources import Sources
from headwater.errors import BrokerUnavailable, DeployFailed
from headwater.model.binding import KafkaTopic
from headwater.model.deployment import DeployedRevision, Deployment, worker_group
from headwater.model.positions import (
    GroupPositions,
    Move,
    OffsetGap,
    Rewind,
    RewindTarget,
    StoredPositions,
    gaps_after_rewind,
)
from headwater.stores.protocols.metrics import MetricStore

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePositions:
    """Stores, moves and restores positions.

    The caller ensures that no worker of the deployment runs. A source on Pub/Sub has no positions: Pub/Sub keeps the
    messages that are not acknowledged.

    Attributes:
        sources: The sources of all deployments.
        metrics: The metric store. After a rewind, it counts the records again from the new positions.
        require_lease: Raises LeaseLost unless this controller still holds the lease.
    """

    sources: Sources
    metrics: MetricStore
    require_lease: Callable[[], None]

    def read(self, deployment: Deployment) -> StoredPositions:
        """Return the positions to store, of all consumer groups of a deployment.

        A group that already has stored positions keeps them, and the next resume must restore them
        (`is_restore_deferred` becomes False). For every other group, the committed offsets are read from Kafka. A group
        whose cluster is unavailable is left out, unless the desired or the effective revision reads with this group:
        then BrokerUnavailable is raised.
        """
        stored = deployment.positions.groups
        groups = {epoch: group.model_copy(update={"is_restore_deferred": False}) for epoch, group in stored.items()}
        read_epochs = {deployment.source_epoch, deployment.effective_revision.source_epoch}
        for epoch, binding in self._topics(deployment):
            if epoch in groups:
                continue
            group = worker_group(deployment.id, epoch)
            try:
                committed = self.sources.cluster(binding).committed_offsets(group, binding.topic)
            except BrokerUnavailable as error:
                if epoch in read_epochs:
                    raise
                log.warning("positions are not stored", deployment=deployment.id, epoch=epoch, reason=error.detail)
                continue
            if committed is not None:
                groups[epoch] = GroupPositions(
                    topic=binding.topic, topic_id=committed.topic_id, offsets=committed.offsets
                )
        return StoredPositions(groups=groups)

    def _topics(self, deployment: Deployment) -> Iterator[tuple[int, KafkaTopic]]:
        """Yield each source epoch of a deployment, with the topic that its group reads.

        A change of the source increments the epoch, which is a part of the group's name (Deployment.source_epoch).
        """
        sources = {revision.source_epoch: revision.config.source for revision in reversed(deployment.revisions)}
        for epoch, source in sources.items():
            binding = self.sources.bindings.find(source.chain, source.entity, zerolag=source.is_zerolag)
            if isinstance(binding, KafkaTopic):
                yield epoch, binding
            elif binding is None:
                log.warning(
                    "the stream is not bound any more, so its positions are left as they are", deployment=deployment.id
                )

    def rewind(self, deployment: Deployment, target: DeployedRevision) -> tuple[StoredPositions, Rewind]:
        """Return the positions after the pending rewind, and its result.

        The positions of the target revision's source are moved. A rewind that is not possible changes nothing, and its
        result has the reason. Raises Unavailable.
        """
        request, before = deployment.rewind, self.read(deployment)
        assert request is not None
        try:
            binding = self.sources.binding(target.config.source)
            if not isinstance(binding, KafkaTopic):
                self.sources.seek(deployment, target, _pubsub_position(request.to))
                return before, request.model_copy(update={"state": "done"})
            group = before.groups.get(target.source_epoch)
            after = self._rewound(group, binding, request.to, target.config.source.start_at)
        except DeployFailed as error:
            return before, request.model_copy(update={"state": "failed", "error": error.detail})
        moves = _moves(group, after, request.to)
        stored = StoredPositions(groups={**before.groups, target.source_epoch: after})
        return stored, request.model_copy(update={"state": "done", "moves": moves})

    def _rewound(
        self, before: GroupPositions | None, binding: KafkaTopic, to: RewindTarget, start_at: str
    ) -> GroupPositions:
        """Return the positions of a group after a rewind. Raises DeployFailed.

        When `to` has offsets of some partitions, the other partitions keep their positions. If there are no positions
        before the rewind, they start at `start_at`.
        """
        rewound = frozenset[int]() if before is None else before.rewound
        gaps = () if before is None else gaps_after_rewind(before.gaps, to)
        if isinstance(to, str):
            found = self._topic_offsets(binding, to)
            topic_id, offsets = found.topic_id, dict(found.offsets)
            rewound |= offsets.keys()
        else:
            first, end = self._topic_offsets(binding, "earliest"), self._topic_offsets(binding, "latest")
            if before is not None:
                _require_same_topic(before, binding, end)
            kept = self._topic_offsets(binding, start_at).offsets if before is None else before.offsets
            topic_id, offsets = end.topic_id, {**kept, **_clamped(to, first, end)}
            rewound |= to.keys()
        return GroupPositions(topic=binding.topic, topic_id=topic_id, offsets=offsets, gaps=gaps, rewound=rewound)

    def _topic_offsets(self, binding: KafkaTopic, position: str) -> TopicOffsets:
        """Return an offset of each partition of a topic.

        Raises DeployFailed when the topic does not exist.
        """
        found = self.sources.cluster(binding).topic_offsets(binding.topic, position)
        if found is None:
            raise self.sources.missing_topic_error(binding)
        return found

    def restore(
        self, deployment: Deployment, target: DeployedRevision
    ) -> tuple[StoredPositions, tuple[OffsetGap, ...]]:
        """Commit the stored positions.

        Return the positions to store, and the gaps in the source of the target revision. When retention has deleted
        records at a position, the position is moved and stored with its gap, and the next call commits it. So an
        interrupted call loses no gap.

        Positions of other sources stay stored when they can't be committed.

        Raises Unavailable, and DeployFailed when the stream of the target revision is not bound, or its positions
        belong to another topic than the present one.
        """
        self.sources.binding(target.config.source)
        groups = deployment.positions.groups
        unrestored, moved = dict(groups), dict[int, GroupPositions]()
        for epoch, binding in self._topics(deployment):
            stored = groups.get(epoch)
            if stored is None:
                continue
            try:
                moved_positions = self._restore_group(deployment, epoch, binding, stored)
            except (BrokerUnavailable, DeployFailed) as error:
                if epoch == target.source_epoch:
                    raise
                log.warning("positions are not restored", deployment=deployment.id, epoch=epoch, reason=error.detail)
                continue
            del unrestored[epoch]
            if moved_positions is not None:
                moved[epoch] = moved_positions
        gaps = deployment.unreported_gaps
        if moved:
            return StoredPositions(groups={**groups, **moved}), gaps
        restored = groups.get(target.source_epoch)
        return _deferred(deployment, unrestored), gaps if restored is None else (*gaps, *restored.gaps)

    def _restore_group(
        self, deployment: Deployment, epoch: int, binding: KafkaTopic, stored: GroupPositions
    ) -> GroupPositions | None:
        """Commit the positions of a group, and return None.

        When retention has deleted records at a position, commit nothing, and return the moved positions, which must be
        stored first.
        """
        cluster, group = self.sources.cluster(binding), worker_group(deployment.id, epoch)
        first = self._topic_offsets(binding, "earliest")
        _require_same_topic(stored, binding, first)
        offsets = self._newest_positions(group, binding, stored)
        if gaps := _gaps(offsets, first.offsets):
            moved = {**stored.offsets, **{gap.partition: gap.end for gap in gaps}}
            return stored.model_copy(update={"offsets": moved, "gaps": (*stored.gaps, *gaps)})
        self.require_lease()
        cluster.commit_offsets(group, binding.topic, TopicOffsets(first.topic_id or stored.topic_id, offsets))
        if rewound := {partition: offsets[partition] for partition in stored.rewound if partition in offsets}:
            self.metrics.restart_counting(deployment.id, group, rewound)
        return None

    def _newest_positions(self, group: str, binding: KafkaTopic, stored: GroupPositions) -> Mapping[int, int]:
        """Return for each partition the greater of the stored position and the committed offset.

        A committed offset is greater when the database was restored from a backup that was made during an earlier
        pause, or when a worker of another controller has committed after the pause. A position that was rewound is
        never replaced.
        """
        committed = self.sources.cluster(binding).committed_offsets(group, binding.topic)
        if committed is None or committed.topic_id != stored.topic_id:
            return stored.offsets
        kept = {partition: offset for partition, offset in stored.offsets.items() if partition in stored.rewound}
        newest = {
            partition: max(offset, stored.offsets.get(partition, offset))
            for partition, offset in committed.offsets.items()
        }
        return {**stored.offsets, **newest, **kept}


def _gaps(offsets: Mapping[int, int], first: Mapping[int, int]) -> tuple[OffsetGap, ...]:
    """Return the gaps between the positions and the first offsets of their partitions."""
    return tuple(
        OffsetGap(partition=partition, start=offset, end=first[partition])
        for partition, offset in sorted(offsets.items())
        if offset < first.get(partition, offset)
    )


def _deferred(deployment: Deployment, groups: Mapping[int, GroupPositions]) -> StoredPositions:
    """Return the positions that were not restored, of the sources that a revision still reads."""
    epochs = {revision.source_epoch for revision in deployment.revisions}
    return StoredPositions(
        groups={
            epoch: group.model_copy(update={"is_restore_deferred": True})
            for epoch, group in groups.items()
            if epoch in epochs
        }
    )


def _pubsub_position(to: RewindTarget) -> str:
    """Return the position in a Pub/Sub subscription. Raises DeployFailed for offsets."""
    if isinstance(to, str):
        return to
    raise DeployFailed(
        "The stream is read from Google Pub/Sub, which has no offsets. Rewind to earliest, latest or a time."
    )


def _clamped(to: Mapping[int, int], first: TopicOffsets, end: TopicOffsets) -> dict[int, int]:
    """Return the requested offsets, moved into the log of their partition. Raises DeployFailed."""
    if unknown := sorted(to.keys() - end.offsets.keys()):
        raise DeployFailed(
            f"The source has no partition {unknown[0]}: its partitions are 0 to {len(end.offsets) - 1}. Name one of "
            "these."
        )
    return {
        partition: max(first.offsets[partition], min(offset, end.offsets[partition]))
        for partition, offset in to.items()
    }


def _moves(before: GroupPositions | None, after: GroupPositions, to: RewindTarget) -> dict[int, Move]:
    """Return the position before and after of each partition that a rewind has moved."""
    old = {} if before is None else before.offsets
    moved = after.offsets if isinstance(to, str) else to
    return {number: Move(before=old.get(number), after=after.offsets[number]) for number in sorted(moved)}


def _require_same_topic(stored: GroupPositions, binding: KafkaTopic, present: TopicOffsets) -> None:
    """Raise DeployFailed when stored positions belong to another topic than the present one."""
    if stored.topic != binding.topic:
        raise DeployFailed(
            f"The stream is bound to the topic {binding.topic}, and the stored positions belong to {stored.topic}. "
            "Bind the stream to that topic again, rewind to earliest, latest or a time, or tear the pipeline down and "
            "deploy it again."
        )
    if stored.topic_id and present.topic_id and stored.topic_id != present.topic_id:
        raise DeployFailed(
            f"The topic {stored.topic} was deleted and created again while the pipeline was paused, so positions on it "
            "mean other records now. Rewind to earliest, latest or a time, or tear the pipeline down and deploy it "
            "again, to start on the new topic."
        )
