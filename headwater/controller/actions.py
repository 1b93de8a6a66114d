"""The actions of a round: values that `plan` chooses and `executor` carries out.

Each action is idempotent, so a round may be cut off between any two of them.
"""

from dataclasses import dataclass

from headwater.model.deployment import Observed, Revision
from headwater.model.worker import WorkerSet


@dataclass(frozen=True, slots=True)
class PrepareRevision:
    """Create topics, users and rules, and set the first position of a source that no worker reads yet."""

    target: Revision


@dataclass(frozen=True, slots=True)
class EnsureWorkers:
    """Make the running worker set equal this one."""

    workers: WorkerSet


@dataclass(frozen=True, slots=True)
class StopWorkers:
    """Stop all workers. required: whether the next actions wait until all workers have ended."""

    required: bool


@dataclass(frozen=True, slots=True)
class ChangeReaderPassword:
    """Give the readers' user its newest password."""


@dataclass(frozen=True, slots=True)
class MatchTopics:
    """Give the outputs the partitions that the source has gained, and the settings of a revision that runs."""

    target: Revision


@dataclass(frozen=True, slots=True)
class ChangeTopicSettings:
    """Give the topics the settings of a revision whose workers have taken over."""

    target: Revision


@dataclass(frozen=True, slots=True)
class RemovePrevious:
    """Remove subscriptions, rules and topics that only other revisions than `kept` have."""

    kept: Revision


@dataclass(frozen=True, slots=True)
class RemoveEverything:
    """Remove subscriptions, then rules, users and topics, then metrics. No worker runs."""


@dataclass(frozen=True, slots=True)
class RecordObserved:
    """Store the observed state. This action ends the round."""

    observed: Observed


Action = (
    PrepareRevision
    | EnsureWorkers
    | StopWorkers
    | ChangeReaderPassword
    | MatchTopics
    | ChangeTopicSettings
    | RemovePrevious
    | RemoveEverything
    | RecordObserved
)
