"""The actions of a plan. plan.py chooses them, and executor.py carries them out.

Each action is idempotent, so a reconciliation may be interrupted between any two of them.
"""

from dataclasses import dataclass
from enum import StrEnum

from headwater.model.deployment import DeployedRevision, Observation
from headwater.model.worker_spec import WorkerSet


@dataclass(frozen=True, slots=True)
class PrepareRevision:
    """Create topics, users and ACLs, and set the start offsets.

    The offsets are set only when no running revision reads the same source.
    """

    target: DeployedRevision


@dataclass(frozen=True, slots=True)
class EnsureWorkers:
    """Make the running worker set equal to this one.

    Attributes:
        is_repeated: Whether workers of this generation and revision were started before. The action then repeats that
            start, or changes the number of workers.
    """

    worker_set: WorkerSet
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class StopWorkers:
    """Stop all workers.

    Attributes:
        must_have_ended: Whether the next actions must wait until all workers have ended.
    """

    must_have_ended: bool


@dataclass(frozen=True, slots=True)
class SavePositions:
    """Read the positions of the ended workers, and store them with this observed state.

    This action ends the reconciliation.
    """

    observed: Observation


@dataclass(frozen=True, slots=True)
class RewindPositions:
    """Move the positions in a revision's source to the target of the pending rewind.

    The moved positions and the result are stored with this observed state. This action ends the reconciliation.
    """

    target: DeployedRevision
    observed: Observation


@dataclass(frozen=True, slots=True)
class RestorePositions:
    """Commit the stored positions, and remove them with this observed state.

    When retention has deleted records at a position, no position of its group is committed: it is moved to the first
    record and stored with its gap, and the next reconciliation commits it. No worker may start before the stored
    positions are removed from the database. This action ends the reconciliation.
    """

    target: DeployedRevision
    observed: Observation


@dataclass(frozen=True, slots=True)
class ChangeReaderPassword:
    """Set the stored password of the readers' user in Kafka."""


class TopicSync(StrEnum):
    """The part of the topics that SyncTopics brings up to date."""

    SETTINGS = "settings"
    PARTITIONS_AND_SETTINGS = "partitions and settings"


@dataclass(frozen=True, slots=True)
class SyncTopics:
    """Bring the topics of the running revision up to date.

    With partitions, missing topics are created, and outputs get more partitions when the source has more.
    """

    target: DeployedRevision
    sync: TopicSync


@dataclass(frozen=True, slots=True)
class ChangeTopicSettings:
    """Apply the topic settings of a revision whose workers have taken over.

    PrepareRevision leaves out compaction, because the workers of the previous revision still write. This action adds
    it. SyncTopics applies the same settings later, but suppresses errors; this action raises them.
    """

    target: DeployedRevision


@dataclass(frozen=True, slots=True)
class RemovePrevious:
    """Remove the subscriptions, ACLs and topics that the revision `kept` does not use."""

    kept: DeployedRevision


@dataclass(frozen=True, slots=True)
class RemoveAll:
    """Remove the subscriptions, then the ACLs, users and topics, then the metrics.

    No worker runs: StopWorkers with `must_have_ended` precedes this action in its plan.
    """


@dataclass(frozen=True, slots=True)
class StoreObservation:
    """Store the observed state. This action ends the reconciliation."""

    observed: Observation


Action = (
    PrepareRevision
    | EnsureWorkers
    | StopWorkers
    | SavePositions
    | RewindPositions
    | RestorePositions
    | ChangeReaderPassword
    | SyncTopics
    | ChangeTopicSettings
    | RemovePrevious
    | RemoveAll
    | StoreObservation
)
