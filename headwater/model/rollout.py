"""Computes the changes of a deployment.

They follow from a deploy, a teardown, new credentials, or an observation of the controller. These are pure functions.
The stores call them inside their transactions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.errors import NotFound, StoredDataUnreadable, TeardownInProgress
from headwater.model.deployment import Condition, Deployment, DesiredPhase, Observation, Phase
from headwater.model.flow import Flow, Source
from headwater.model.stream import stream_name


@dataclass(frozen=True, slots=True)
class RolloutHistoryEntry:
    """A revision that a deploy call requested, and how it is read.

    Attributes:
        revision: The number of the revision.
        stream: The stream of its source.
        source_epoch: The epoch of the consumer group that reads the stream.
        retired: Whether its resources have been removed. The row is kept, so that no epoch is used twice.
    """

    revision: int
    stream: str
    source_epoch: int
    retired: bool = False


def stream_of(source: Source) -> str:
    """Return the stream of a source.

    Two sources with the same stream share offsets; start_at does not matter.
    """
    return stream_name(source.chain, source.entity, zerolag=source.is_zerolag)


def first_rollout(new: Deployment, flow: Flow) -> Deployment:
    """Return the deployment to insert for a configuration that has no active one."""
    return replace(
        new, config_id=flow.id, owner=flow.owner, config=flow.pipeline_config, desired_revision=flow.revision
    )


def needs_rollout(current: Deployment, flow: Flow) -> bool:
    """Whether a deploy call must raise the generation. Raises TeardownInProgress.

    A rollout in progress is never restarted, so concurrent deploy calls do not conflict.
    """
    if current.desired is DesiredPhase.ABSENT:
        raise TeardownInProgress("Teardown in progress. Deploy again when it has ended; GET …/deploy then returns 404.")
    if current.desired_revision != flow.revision:
        return True
    return _gave_up(current)


def _gave_up(current: Deployment) -> bool:
    """Whether the last rollout has ended without success."""
    return current.is_reconciled and (current.phase is Phase.FAILED or current.condition is Condition.ROLLED_BACK)


def roll_out(current: Deployment, flow: Flow, history: Sequence[RolloutHistoryEntry]) -> Deployment:
    """Return the active deployment with the configuration's newest revision as its desired one."""
    return replace(
        current,
        config=flow.pipeline_config,
        desired_revision=flow.revision,
        generation=current.generation + 1,
        source_epoch=_source_epoch(current, flow, history),
        stable_revision=_fallback(current, flow.revision),
        condition=Condition.ROLLING_OUT,
        reason="",
        previous_revisions=tuple(revision for revision in current.revisions if revision.number != flow.revision),
        unreadable="",
    )


def _fallback(current: Deployment, number: int) -> int | None:
    """Return the revision to roll back to when a rollout of revision `number` fails."""
    if current.stable_revision is not None or current.observed_revision == number:
        return current.stable_revision
    return current.observed_revision


def _source_epoch(current: Deployment, flow: Flow, history: Sequence[RolloutHistoryEntry]) -> int:
    """Return the epoch of the consumer group that the newest revision reads with.

    When the revision that ran last has the same stream, its group is used again, even after a failed rollout of
    another stream. Otherwise the group of the last rollout is used again, if it has the same stream and may have
    committed offsets that a new group would not reach. In all other cases, the group is new.
    """
    stream = stream_of(flow.pipeline_config.source)
    epochs = {rollout.revision: rollout.source_epoch for rollout in history if rollout.stream == stream}
    if current.observed_revision in epochs:
        return epochs[current.observed_revision]
    if current.desired_revision in epochs and _goes_on(current, flow):
        return epochs[current.desired_revision]
    return 1 + max(rollout.source_epoch for rollout in history)


def _goes_on(current: Deployment, flow: Flow) -> bool:
    """Whether a revision continues at the offsets of the last rollout.

    It does not after a failed rollout from "latest": the offset that was the latest then is out of date.
    """
    start_at = flow.pipeline_config.source.start_at
    if start_at != current.config.source.start_at:
        return False
    return start_at != "latest" or current.desired_revision == flow.revision or not _gave_up(current)


def tear_down(current: Deployment, *, delete_configuration: bool = False) -> Deployment:
    """Return the deployment with the desired phase ABSENT.

    Only the first request raises the generation.
    """
    is_requested = current.desired is DesiredPhase.ABSENT
    return replace(
        current,
        desired=DesiredPhase.ABSENT,
        generation=current.generation + (not is_requested),
        delete_configuration=current.delete_configuration or delete_configuration,
    )


def filters_only_in(revisions: Collection[int], filters: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """Return the filters that are only in these revisions.

    `filters` has the filters of each stored revision.
    """
    some = frozenset[str]().union(*(uids for number, uids in filters.items() if number in revisions))
    return some.difference(*(uids for number, uids in filters.items() if number not in revisions))


def rotate_reader_password(current: Deployment, reader_password: str) -> Deployment:
    """Return the deployment with another password for its readers.

    Raises NotFound when a teardown is in progress, and Unreadable.
    """
    if current.desired is DesiredPhase.ABSENT:
        raise not_deployed()
    if current.unreadable:
        raise StoredDataUnreadable(current.unreadable)
    return replace(current, reader_password=reader_password, credentials_version=current.credentials_version + 1)


def replace_unreadable_passwords(current: Deployment, reader_password: str, worker_password: str) -> Deployment:
    """Return the deployment with a new generation and with new, readable passwords.

    The new passwords replace those that can't be decrypted. The new generation makes the controller roll out the
    desired revision again, with the new passwords.
    """
    return replace(
        current,
        reader_password=reader_password,
        worker_password=worker_password,
        credentials_version=current.credentials_version + 1,
        generation=current.generation + 1,
        condition=Condition.ROLLING_OUT,
        reason="",
        unreadable=current.config.unreadable,
    )


def apply_observation(current: Deployment, seen: Observation) -> Deployment:
    """Return the deployment with an observation of the controller.

    An observation of an older generation than the last one changes nothing, and neither does one of a deployment that
    has ended. When a newer rollout was requested meanwhile, the deployment keeps the condition and the reason of that.
    """
    if current.phase is Phase.ABSENT or seen.observed_generation < current.observed_generation:
        return current
    newest = seen.observed_generation >= current.generation
    proven = newest and _is_proven(current, seen)
    observed = replace(
        current,
        phase=seen.phase,
        observed_revision=seen.observed_revision,
        observed_generation=seen.observed_generation,
        stable_revision=seen.observed_revision if proven else current.stable_revision,
        observed_credentials_version=seen.observed_credentials_version,
        condition=seen.condition if newest else current.condition,
        # The reason may contain text of a worker, and PostgreSQL can't store NUL.
        reason=seen.reason.replace("\0", "\N{SYMBOL FOR NULL}") if newest else current.reason,
        previous_revisions=() if seen.retired and newest else current.previous_revisions,
    )
    if seen.phase is not Phase.ABSENT:
        return observed
    return replace(observed, reader_password="", worker_password="", workers=(), previous_revisions=())


def _is_proven(current: Deployment, seen: Observation) -> bool:
    """Whether the desired revision has become stable, so that no rollback can happen."""
    is_stable = seen.condition is Condition.STABLE and seen.phase is Phase.RUNNING
    return is_stable and seen.observed_revision == current.desired_revision


def not_deployed() -> NotFound:
    """Return the error of a configuration without a deployment."""
    return NotFound("This configuration is not deployed. Deploy it with POST …/deploy.")
