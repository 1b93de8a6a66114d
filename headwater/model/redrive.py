"""Redrives: dead letters that are sent through the running revision again."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from headwater.model.dead_letter import LetterHeaders, LetterId, RedriveOutcome
from headwater.model.deployment import worker_user

RedriveState = Literal["running", "done", "stopped"]
"""The state of a redrive. A redrive that waits for an earlier one, or for the end of a pause, is running."""

MAX_OPEN_REDRIVES = 10
"""How many redrives of a deployment may be running or waiting."""
MAX_OPEN_REDRIVES_OF_OWNER = 50
"""How many redrives of all deployments of an owner may be running or waiting."""
MAX_KEPT_REDRIVES = 100
"""How many redrives of a deployment are kept. Older ones are removed after they have ended."""
_SEPARATOR = ".redrive-"


class LetterRange(NamedTuple):
    """The offsets [start, end) of a partition, in which all selected letters are."""

    start: int
    end: int


class RedriveSelection(BaseModel):
    """The letters that a redrive sends.

    Letters with a position outside of `ranges` are not selected.

    Attributes:
        ranges: By partition, where the letters are. A letter that is written after the request is in no range.
        ids: The positions of the letters as (partition, offset), sorted; None selects letters by the other attributes.
        error: The class of the error; None selects letters with any class.
        transform_uid: The uid of the transform, or the name of the sink; None selects the letters of all
            transforms and sinks.
    """

    model_config = ConfigDict(frozen=True)

    ranges: dict[int, LetterRange]
    ids: tuple[tuple[int, int], ...] | None = None
    error: str | None = None
    transform_uid: str | None = None

    def selects_kind(self, headers: LetterHeaders) -> bool:
        """Return whether letters with these headers are selected, if `ids` is None."""
        return headers.has_kind(self.error, self.transform_uid)

    def selects(self, letter: LetterId, headers: LetterHeaders) -> bool:
        """Return whether a letter is selected. Whether it was redriven already is not checked."""
        within = self.ranges.get(letter.partition)
        if within is None or not within.start <= letter.offset < within.end:
            return False
        return self.selects_kind(headers) if self._id_set is None else letter in self._id_set

    @cached_property
    def _id_set(self) -> frozenset[tuple[int, int]] | None:
        return None if self.ids is None else frozenset(self.ids)


class RedriveSpec(BaseModel):
    """The part of a worker's spec that makes it redrive letters.

    Attributes:
        id: The id of the redrive, the value of the header REDRIVEN_HEADER.
        number: The number of the redrive in its deployment.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    number: int
    selection: RedriveSelection


@dataclass(frozen=True, slots=True)
class RedriveCounts:
    """How many letters had each outcome. A letter counts once."""

    delivered: int = 0
    dropped: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Redrive:
    """A redrive as it is stored.

    Attributes:
        id: The id of the redrive.
        config_id: The configuration.
        deployment_id: The deployment whose letters are sent.
        number: Counts the redrives of the deployment, from 1. They run one after the other in this order.
        created_at: When the redrive was requested.
        selection: The selected letters. The selection is empty after the redrive has ended.
        requested: How many letters were selected at the time of the request.
        counts: The outcomes, which are stored when the redrive ends.
        ended_at: When the redrive ended; None while it is running.
    """

    id: str
    config_id: str
    deployment_id: str
    number: int
    created_at: datetime
    selection: RedriveSelection
    requested: int
    state: RedriveState = "running"
    counts: RedriveCounts = RedriveCounts()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OpenRedrive:
    """A redrive that has not ended, without its selection, which may be large. See Redrive."""

    id: str
    config_id: str
    deployment_id: str
    number: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RedriveProgress:
    """How far the worker of a redrive has come.

    Attributes:
        counts: The outcomes so far.
        has_finished: Whether the worker has processed and committed all letters.
    """

    counts: RedriveCounts = RedriveCounts()
    has_finished: bool = False


@dataclass(frozen=True, slots=True)
class LetterOutcome:
    """The stored outcome of a letter.

    Attributes:
        outcome: The outcome.
        time_s: When it was stored, in seconds since the epoch.
        number: The number of the redrive.
        in_transaction: Whether it was stored before the transaction with the outputs was committed. The transaction may
            have been aborted.
    """

    outcome: RedriveOutcome
    time_s: int
    number: int
    in_transaction: bool = False


LetterOutcomes = dict[LetterId, RedriveOutcome]


def redrive_worker_set_id(deployment_id: str, number: int) -> str:
    """Return the id under which the orchestrator runs the worker of a redrive."""
    return f"{deployment_id}{_SEPARATOR}{number}"


def redrive_group(deployment_id: str, number: int) -> str:
    """Return the consumer group with which the worker of a redrive reads the dead-letter topic."""
    return f"{worker_user(deployment_id)}{_SEPARATOR}{number}"


def deployment_of(worker_set_id: str) -> str:
    """Return the deployment of a worker set, also of the worker set of a redrive."""
    return worker_set_id.partition(_SEPARATOR)[0]


def is_redrive(worker_set_id: str) -> bool:
    """Return whether a worker set runs a redrive."""
    return _SEPARATOR in worker_set_id
