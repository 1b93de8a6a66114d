"""How a deployment changes: by a deploy, a teardown, new credentials, and what the controller observes.

Pure functions over the values of `headwater.model`; the stores call them inside their transactions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.errors import NotFound, TeardownGoesOn, Unreadable
from headwater.model.deployment import Condition, Deployment, Desired, Observed, Phase
from headwater.model.flow import Flow, Source
from headwater.model.stream import stream_name


@dataclass(frozen=True, slots=True)
class Rollout:
    """A revision that a deployment was asked to run, its stream, and the epoch of the source group that reads it.

    retired: it owns nothing any more; the row stays, so that no epoch is used twice.
    """

    revision: int
    stream: str
    source_epoch: int
    retired: bool = False


def stream_of(source: Source) -> str:
    """What decides whether positions can be carried over: the stream, not where a reader starts in it."""
    return stream_name(source.chain, source.entity, zerolag=source.is_zerolag)


def first_rollout(new: Deployment, flow: Flow) -> Deployment:
    """The deployment to insert for a flow that has no active one."""
    return replace(new, flow_id=flow.id, owner=flow.owner, config=flow.pipeline_config, desired_revision=flow.revision)


def needs_rollout(current: Deployment, flow: Flow) -> bool:
    """True when a deploy call must raise the generation. Raises TeardownGoesOn.

    A try that still goes on is never started over: deploy calls at once do not race.
    """
    if current.desired is Desired.ABSENT:
        raise TeardownGoesOn("A teardown goes on. Deploy again when it has ended; GET …/deploy then answers 404.")
    if current.desired_revision != flow.revision:
        return True
    return _gave_up(current)


def _gave_up(current: Deployment) -> bool:
    """The last try has ended, without success."""
    return current.is_reconciled and (current.phase is Phase.FAILED or current.condition is Condition.ROLLED_BACK)


def roll_out(current: Deployment, flow: Flow, history: Sequence[Rollout]) -> Deployment:
    """The active deployment, asked to run the flow's newest revision."""
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


def _fallback(current: Deployment, asked: int) -> int | None:
    """What a rollout of `asked` goes back to when it fails."""
    if current.stable_revision is not None or current.observed_revision == asked:
        return current.stable_revision
    return current.observed_revision


def _source_epoch(current: Deployment, flow: Flow, history: Sequence[Rollout]) -> int:
    """Resume where the running revision stands when the stream is the same, else start a group that is new.

    The revision that last ran comes first: after a failed try of another stream, its positions still count. Those of
    the try that was asked for last count where it may have read, and a new group would not begin before that.
    """
    stream = stream_of(flow.pipeline_config.source)
    epochs = {rollout.revision: rollout.source_epoch for rollout in history if rollout.stream == stream}
    if current.observed_revision in epochs:
        return epochs[current.observed_revision]
    if current.desired_revision in epochs and _goes_on(current, flow):
        return epochs[current.desired_revision]
    return 1 + max(rollout.source_epoch for rollout in history)


def _goes_on(current: Deployment, flow: Flow) -> bool:
    """Whether a revision reads on where the try before it began: "latest" of a try that was given up is long ago."""
    start_at = flow.pipeline_config.source.start_at
    if start_at != current.config.source.start_at:
        return False
    return start_at != "latest" or current.desired_revision == flow.revision or not _gave_up(current)


def tear_down(current: Deployment, *, delete_flow: bool = False) -> Deployment:
    """The deployment, asked to go. The generation rises once, however often this is asked."""
    asked = current.desired is Desired.ABSENT
    return replace(
        current,
        desired=Desired.ABSENT,
        generation=current.generation + (not asked),
        delete_flow=current.delete_flow or delete_flow,
    )


def filters_only_in(revisions: Collection[int], filters: Mapping[int, frozenset[str]]) -> frozenset[str]:
    """The filters that some of the revisions have, and no other one. filters: those of each stored revision."""
    some = frozenset[str]().union(*(uids for number, uids in filters.items() if number in revisions))
    return some.difference(*(uids for number, uids in filters.items() if number not in revisions))


def new_credentials(current: Deployment, reader_password: str) -> Deployment:
    """The deployment with another password for its readers. Raises NotFound while a teardown goes on, Unreadable."""
    if current.desired is Desired.ABSENT:
        raise not_deployed()
    if current.unreadable:
        raise Unreadable(current.unreadable)
    return replace(current, reader_password=reader_password, credentials=current.credentials + 1)


def renew_credentials(current: Deployment, reader_password: str, worker_password: str) -> Deployment:
    """The deployment with other passwords in place of those that can't be opened, asked to run its revision anew."""
    return replace(
        current,
        reader_password=reader_password,
        worker_password=worker_password,
        credentials=current.credentials + 1,
        generation=current.generation + 1,
        condition=Condition.ROLLING_OUT,
        reason="",
        unreadable=current.config.unreadable,
    )


def apply_observation(current: Deployment, seen: Observed) -> Deployment:
    """The deployment with what the controller saw; unchanged when that is older news, or the deployment has ended.

    A rollout that was asked for since keeps its condition: what was seen belongs to the one before.
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
        observed_credentials=seen.observed_credentials,
        condition=seen.condition if newest else current.condition,
        # A worker's last words may hold anything; PostgreSQL stores no NUL.
        reason=seen.reason.replace("\0", "\N{SYMBOL FOR NULL}") if newest else current.reason,
        previous_revisions=() if seen.retired and newest else current.previous_revisions,
    )
    if seen.phase is not Phase.ABSENT:
        return observed
    return replace(observed, reader_password="", worker_password="", workers=(), previous_revisions=())


def _is_proven(current: Deployment, seen: Observed) -> bool:
    """True when the desired revision is stable: nothing goes back to another one any more."""
    is_stable = seen.condition is Condition.STABLE and seen.phase is Phase.RUNNING
    return is_stable and seen.observed_revision == current.desired_revision


def not_deployed() -> NotFound:
    """Return the error of a configuration without a deployment."""
    return NotFound("This configuration is not deployed. Deploy it with POST …/deploy.")
