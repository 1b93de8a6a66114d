"""The protocols of the stores of redrives: their rows, and the outcomes of their letters."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headwater.model.dead_letter import LetterId
from headwater.model.deployment import Deployment
from headwater.model.redrive import (
    LetterOutcome,
    LetterOutcomes,
    OpenRedrive,
    Redrive,
    RedriveCounts,
    RedriveProgress,
    RedriveSelection,
    RedriveState,
)


class RedriveStore(Protocol):
    """The redrives of deployments, in the SQL database."""

    def require_redrivable(self, owner: str, config_id: str) -> Deployment:
        """Return the active deployment of a configuration, whose letters may be redriven now.

        Raises NotFound when the configuration does not exist. Raises Conflict when it is not deployed, is paused, has
        failed, or has MAX_OPEN_REDRIVES open redrives, or its owner has MAX_OPEN_REDRIVES_OF_OWNER.
        """

    def request(
        self, deployment: Deployment, new_id: str, selection: RedriveSelection, requested: int, at: datetime
    ) -> Redrive:
        """Store a new redrive of a deployment, with the next number, and audit it.

        A redrive without letters is done at once. The deployment keeps its last MAX_KEPT_REDRIVES redrives, and all
        open ones.

        Raises the errors of `require_redrivable`, and Conflict when the deployment has ended: a later deployment of the
        configuration has other letters.
        """

    def get(self, config_id: str, redrive_id: str) -> Redrive | None:
        """Return a redrive of a configuration; None when there is none with this id."""

    def open_selections(self, deployment_id: str) -> Mapping[str, RedriveSelection]:
        """Return the selections of the open redrives of a deployment, by the ids of the redrives."""

    def list_open(self) -> Sequence[OpenRedrive]:
        """Return the open redrives of all deployments, by deployment in the order of their numbers."""

    def finish(self, redrive_id: str, state: RedriveState, counts: RedriveCounts, at: datetime) -> None:
        """Store the end of a redrive that is running, and remove its selection."""


class RedriveOutcomeStore(Protocol):
    """The outcomes of letters, in Redis.

    All methods raise RedisUnavailable.
    """

    def record(
        self, deployment_id: str, number: int, outcomes: LetterOutcomes, now_s: int, *, in_transaction: bool = False
    ) -> bool:
        """Store the outcomes of letters in a redrive, and count each letter of the redrive once.

        A later outcome of the same letter replaces the earlier one, in the counts too. Returns whether the redrive is
        throttled.

        Args:
            deployment_id: The deployment.
            number: The number of the redrive.
            outcomes: The outcomes.
            now_s: The present time in seconds since the epoch.
            in_transaction: Whether the outcomes are stored before the transaction with the outputs is committed.
        """

    def outcomes(self, deployment_id: str, letters: Collection[LetterId]) -> Mapping[LetterId, LetterOutcome]:
        """Return the last outcome of each letter that has one."""

    def progress(self, deployment_id: str, number: int) -> RedriveProgress:
        """Return how far a redrive has come."""

    def finish(self, deployment_id: str, number: int) -> None:
        """Store that the worker has processed and committed all letters of a redrive."""

    def expire_progress(self, deployment_id: str, number: int) -> None:
        """Let the progress of a redrive expire soon, because its counts are stored with its end."""

    def set_throttled(self, deployment_id: str, number: int, *, is_throttled: bool) -> None:
        """Set whether a redrive must read slowly, because the pipeline lags."""

    def drop(self, deployment_id: str) -> None:
        """Remove the outcomes of the letters of a deployment.

        The caller must ensure that no redrive of the deployment runs. The counts of its redrives stay: the controller
        reads them when it ends the open ones. Afterwards they expire.
        """
