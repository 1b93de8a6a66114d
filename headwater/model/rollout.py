"""The transitions of a deployment, as pure functions.

The stores call them inside their transactions. Each function returns the deployment after a request (deploy, pause,
rewind, teardown, rotation of a password) or after an observation of the controller.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headwater.errors import Conflict, NotFound, StoredDataUnreadable, TeardownInProgress
from headwater.model.deployment import Condition, Deployment, DesiredPhase, Observation, Phase
from headwater.model.flow import Flow, Source
from headwater.model.positions import Rewind, RewindTarget, StoredPositions, gaps_after_rewind
from headwater.model.stream import stream_name

REWIND_REPEATABLE_FOR = timedelta(hours=1)
"""How long after a request to rewind an identical request can be a retry.

While the rewind is in progress, an identical request always is a retry. After that, it is one until this time is over
or a client has got the result. After a rewind that failed, or another request such as a pause, it is a new rewind.
"""


@dataclass(frozen=True, slots=True)
class RolloutHistoryEntry:
    """A revision that a deploy call has requested for a deployment.

    Attributes:
        revision: The number of the revision.
        stream: The stream that the revision reads.
        source_epoch: The number at the end of the name of the consumer group that reads the stream.
        retired: Whether the resources of the revision have been removed. The entry is kept, so that no name is used
            twice.
    """

    revision: int
    stream: str
    source_epoch: int
    retired: bool = False


def stream_of(source: Source) -> str:
    """Return the name of the stream of a source.

    Revisions that read the same stream can share a consumer group, and so its offsets; `_source_epoch` says when.
    """
    return stream_name(source.chain, source.entity, zerolag=source.is_zerolag)


def first_rollout(new: Deployment, flow: Flow) -> Deployment:
    """Return the deployment to insert for a configuration that has no active deployment."""
    return replace(
        new, config_id=flow.id, owner=flow.owner, config=flow.pipeline_config, desired_revision=flow.revision
    )


def needs_rollout(current: Deployment, flow: Flow) -> bool:
    """Whether a deploy call must start a rollout. Raises TeardownInProgress.

    A rollout in progress is never restarted, so concurrent deploy calls do not conflict.
    """
    if current.desired is DesiredPhase.ABSENT:
        raise TeardownInProgress("Teardown in progress. Deploy again when it has ended; GET …/deploy then returns 404.")
    if current.desired is DesiredPhase.PAUSED or current.desired_revision != flow.revision:
        return True
    return _has_failed(current)


def _has_failed(current: Deployment) -> bool:
    """Whether the last rollout has ended without success."""
    has_no_success = current.condition in (Condition.FAILED, Condition.ROLLED_BACK)
    return current.is_reconciled and (current.phase is Phase.FAILED or has_no_success)


def roll_out(current: Deployment, flow: Flow, history: Sequence[RolloutHistoryEntry]) -> Deployment:
    """Return the deployment after a deploy call, which also resumes a paused deployment.

    The newest revision of the configuration becomes the desired revision. Raises StoredDataUnreadable when the stored
    positions can't be read: workers would start elsewhere.
    """
    if not current.has_readable_positions:
        raise StoredDataUnreadable(current.unreadable_reason)
    return replace(
        current,
        desired=DesiredPhase.RUNNING,
        config=flow.pipeline_config,
        desired_revision=flow.revision,
        generation=current.generation + 1,
        source_epoch=_source_epoch(current, flow, history),
        rollback_revision=_rollback_revision(current, flow.revision),
        condition=Condition.ROLLING_OUT,
        reason="",
        previous_revisions=tuple(revision for revision in current.revisions if revision.number != flow.revision),
        unreadable_reason="",
    )


def _rollback_revision(current: Deployment, number: int) -> int | None:
    """Return the revision to roll back to when a rollout of revision `number` fails."""
    if current.rollback_revision is not None or current.observed_revision == number:
        return current.rollback_revision
    return current.observed_revision


def _source_epoch(current: Deployment, flow: Flow, history: Sequence[RolloutHistoryEntry]) -> int:
    """Return the `source_epoch` of the newest revision, which names its consumer group.

    - The group of the revision whose workers were ready last is used again, when that revision reads the same stream as
      the newest revision. This holds even after a failed rollout of a revision that reads another stream.
    - Otherwise, the group of the revision that was requested last is used again, when that revision reads the same
      stream, because the group may have committed offsets. `_continues_last_requested` has the exceptions.
    - In all other cases, the group is new.
    """
    stream = stream_of(flow.pipeline_config.source)
    epochs = {entry.revision: entry.source_epoch for entry in history if entry.stream == stream}
    last_ready, last_requested = current.observed_revision, current.desired_revision
    if last_ready in epochs:
        return epochs[last_ready]
    if last_requested in epochs and _continues_last_requested(current, flow):
        return epochs[last_requested]
    return 1 + max(entry.source_epoch for entry in history)


def _continues_last_requested(current: Deployment, flow: Flow) -> bool:
    """Whether the newest revision continues at the offsets of the last requested revision.

    Returns False when `start_at` has changed. With `start_at` "latest", returns False too when the last requested
    revision is another one whose rollout has failed: its offset was the latest at that time, and is out of date.
    """
    start_at = flow.pipeline_config.source.start_at
    if start_at != current.config.source.start_at:
        return False
    return start_at != "latest" or current.desired_revision == flow.revision or not _has_failed(current)


def pause(current: Deployment) -> Deployment:
    """Return the deployment after a request to pause: its desired phase is PAUSED.

    Only the first request raises the generation. The condition of the rollout stays, and so do the gaps that no
    response has contained yet. Raises StoredDataUnreadable.
    """
    _require_readable(current)
    if current.desired is DesiredPhase.PAUSED:
        return current
    generation = current.generation + 1
    return replace(current, desired=DesiredPhase.PAUSED, generation=generation, gaps=current.unreported_gaps)


def rewind(current: Deployment, to: RewindTarget, now: datetime) -> Deployment:
    """Return the deployment after a request to rewind.

    A client repeats its request after a 503, and a second rewind would lose records or process them again. Therefore a
    request that repeats the last one changes nothing while the last one is in progress. After that, it changes nothing
    until a client has got the result, but for at most REWIND_REPEATABLE_FOR. A request after a failed rewind, or after
    another request such as a pause, is a new rewind.

    The desired phase stays. The condition of the last rollout stays too, because a rewind is not a rollout. Only a
    failed deployment is rolled out again. Raises StoredDataUnreadable.
    """
    _require_readable(current)
    if current.rewind is not None and _repeats_rewind(current, current.rewind, to, now):
        return current
    generation = current.generation + 1
    has_failed = current.desired is DesiredPhase.RUNNING and current.condition is Condition.FAILED
    return replace(
        current,
        generation=generation,
        rewind=Rewind(generation=generation, to=to, requested_at=now),
        gaps=gaps_after_rewind(current.unreported_gaps, to),
        condition=Condition.ROLLING_OUT if has_failed else current.condition,
        reason="" if has_failed else current.reason,
    )


def _repeats_rewind(current: Deployment, last: Rewind, to: RewindTarget, now: datetime) -> bool:
    """Whether a request repeats the last rewind.

    That rewind is in progress, or no client has got its result.
    """
    if (last.generation, last.to) != (current.generation, to):
        return False
    if not current.is_reconciled:
        return True
    is_unanswered = last.state == "done" and not last.is_answered and current.phase is not Phase.FAILED
    return is_unanswered and now - last.requested_at < REWIND_REPEATABLE_FOR


def mark_rewind_answered(current: Deployment, generation: int) -> Deployment:
    """Return the deployment after a client has got the result of the rewind of this generation."""
    last = current.rewind
    if last is None or last.generation != generation:
        return current
    return replace(current, rewind=last.model_copy(update={"is_answered": True}))


def _require_readable(current: Deployment) -> None:
    if current.unreadable_reason:
        raise StoredDataUnreadable(current.unreadable_reason)


def tear_down(current: Deployment, *, delete_configuration: bool = False) -> Deployment:
    """Return the deployment after a teardown request: its desired phase is ABSENT.

    Only the first request raises the generation.
    """
    is_first = current.desired is not DesiredPhase.ABSENT
    return replace(
        current,
        desired=DesiredPhase.ABSENT,
        generation=current.generation + is_first,
        delete_configuration=current.delete_configuration or delete_configuration,
    )


def rotate_reader_password(current: Deployment, reader_password: str) -> Deployment:
    """Return the deployment with another password for its readers. Raises StoredDataUnreadable."""
    _require_readable(current)
    return replace(current, reader_password=reader_password, credentials_version=current.credentials_version + 1)


def replace_unreadable_passwords(current: Deployment, reader_password: str, worker_password: str) -> Deployment:
    """Return the deployment with new passwords in place of passwords that can't be decrypted.

    The generation of a running deployment is raised too, so that the controller rolls out the desired revision again,
    with the new passwords. A paused deployment stays paused: the resume rolls out a revision anyway.
    """
    renewed = replace(
        current,
        reader_password=reader_password,
        worker_password=worker_password,
        credentials_version=current.credentials_version + 1,
        unreadable_reason=current.config.unreadable_reason,
    )
    if current.desired is DesiredPhase.PAUSED:
        return renewed
    return replace(renewed, generation=current.generation + 1, condition=Condition.ROLLING_OUT, reason="")


def apply_observation(current: Deployment, observation: Observation) -> Deployment:
    """Return the deployment with an observation of the controller.

    An observation changes nothing when the deployment has ended, or when a newer generation has been observed. When a
    newer rollout was requested meanwhile, the deployment keeps the condition and the reason of the newer rollout.
    """
    if current.phase is Phase.ABSENT or observation.observed_generation < current.observed_generation:
        return current
    is_newest = observation.observed_generation >= current.generation
    is_stable = is_newest and _has_become_stable(current, observation)
    observed = replace(
        current,
        phase=observation.phase,
        observed_revision=observation.observed_revision,
        observed_generation=observation.observed_generation,
        rollback_revision=observation.observed_revision if is_stable else current.rollback_revision,
        observed_credentials_version=observation.observed_credentials_version,
        condition=observation.condition if is_newest else current.condition,
        # The reason may contain text of a worker, and PostgreSQL can't store NUL.
        reason=observation.reason.replace("\0", "\N{SYMBOL FOR NULL}") if is_newest else current.reason,
        previous_revisions=() if observation.previous_removed and is_newest else current.previous_revisions,
        positions=current.positions if observation.positions is None else observation.positions,
        rewind=_observed_rewind(current, observation),
        gaps=current.gaps if observation.gaps is None else observation.gaps,
    )
    if observation.phase is not Phase.ABSENT:
        return observed
    return replace(
        observed,
        reader_password="",
        worker_password="",
        workers=(),
        previous_revisions=(),
        positions=StoredPositions(),
        rewind=None,
        gaps=(),
        scaling=None,
    )


def _observed_rewind(current: Deployment, observation: Observation) -> Rewind | None:
    """Return the last request to rewind, with its result when the observation has it."""
    result = observation.rewind
    is_of_last = current.rewind is not None and result is not None and result.generation == current.rewind.generation
    return result if is_of_last else current.rewind


def _has_become_stable(current: Deployment, observation: Observation) -> bool:
    """Whether the desired revision has become stable. From now on it is not rolled back."""
    is_stable = observation.condition is Condition.STABLE and observation.phase is Phase.RUNNING
    return is_stable and observation.observed_revision == current.desired_revision


def not_deployed_conflict() -> Conflict:
    """Return the error (409) of a pause, resume, rewind or redrive without a deployment."""
    return Conflict("This configuration is in the state draft: it is not deployed. Deploy it with POST …/deploy.")


def deployment_not_found() -> NotFound:
    """Return the error (404) of any other request that needs a deployment, when there is none."""
    return NotFound("This configuration is not deployed. Deploy it with POST …/deploy.")
