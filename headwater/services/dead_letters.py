"""Lists and summarizes the dead letters of a deployment."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from headwater.brokers.topic_history import LogRecord, TopicHistory
from headwater.errors import Fault, InvalidInput
from headwater.model.dead_letter import (
    ATTEMPTS_HEADER,
    COLUMN_HEADER,
    MESSAGE_HEADER,
    OTHER_LETTERS,
    DeadLetter,
    LastRedrive,
    LetterHeaders,
    LetterId,
    LetterKind,
    encode_letter_cursor,
    parse_letter_cursor,
    parse_letter_total_name,
)
from headwater.model.deployment import Deployment, dead_letter_topic
from headwater.model.outputs import OUTPUT_ID_HEADER, REVISION_HEADER
from headwater.model.redrive import LetterOutcome
from headwater.services.newest_first import NewestFirst
from headwater.services.topic_history_with_deadline import TopicHistoryWithDeadline
from headwater.stores.protocols.metrics import MetricStore
from headwater.stores.protocols.redrives import RedriveOutcomeStore

MAX_SCANNED = 20_000
"""How many letters a page looks at to find the letters that the request selects."""
MAX_SCANNED_BYTES = 64 << 20
"""A page ends when the letters that it has looked at are together this large."""
MAX_EXAMPLES_SCANNED = 5_000
"""How many of the newest letters a summary looks at to find examples."""
MAX_PAGE_BYTES = 8 << 20
"""A page ends before its records exceed this size. A single letter may be larger."""
TIMEOUT_S = 10.0
"""After this time, a request reads no further letters from Kafka, and fails."""


_UNKNOWN_COMPONENT = (
    "is the uid of no transform and the name of no sink of this pipeline; GET /api/v1/flow/{config_id} has them, and "
    "GET …/dead-letters/summary lists the transforms and sinks of earlier revisions"
)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Selects letters; None selects letters with any value.

    Attributes:
        error: The class of the error.
        component: The uid of the transform, or the name of the sink.
    """

    error: str | None = None
    component: str | None = None

    def selects(self, record: LogRecord) -> bool:
        """Return whether the letter in a record is selected."""
        return LetterHeaders(record.headers).has_kind(self.error, self.component)


@dataclass(frozen=True, slots=True)
class LetterPage:
    """A page of letters, the newest first.

    Attributes:
        letters: The letters.
        cursor: The cursor of the next page; None on the last page.
    """

    letters: list[DeadLetter]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LetterSummary:
    """The letters with one kind of error since the deployment began.

    Attributes:
        kind: The class and the place of the error.
        count: How many letters were written. Letters that retention has removed are included.
        first: When the first of them was counted.
        last: When the last of them was counted.
        example: One of these letters. None when none of the newest MAX_EXAMPLES_SCANNED letters is one of them, or when
            the transaction that counted them has ended a moment ago, and its letters are not readable yet.
    """

    kind: LetterKind
    count: int
    first: datetime
    last: datetime
    example: LetterId | None


class DeadLetters:
    """Reads the dead letters of deployments.

    The methods may block, and raise BrokerUnavailable and RedisUnavailable.

    Args:
        history: Reads the dead-letter topics.
        metrics: Has the counts of letters, which workers write.
        outcomes: Has the outcomes of redriven letters.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        history: TopicHistory,
        metrics: MetricStore,
        outcomes: RedriveOutcomeStore,
        clock: Callable[[], float],
    ) -> None:
        self._history = history
        self._metrics = metrics
        self._outcomes = outcomes
        self._clock = clock

    def page(self, deployment: Deployment, selected: LetterFilter, cursor: str | None, limit: int) -> LetterPage:
        """Return letters, the newest first.

        A page looks at MAX_SCANNED letters at most. So it may have fewer than `limit` letters although further letters
        follow on the next page.
        """
        topic = dead_letter_topic(deployment.config_id)
        history = self._history_with_deadline()
        ranges = history.ranges(topic)
        ends = (
            {partition: offsets.end for partition, offsets in ranges.items()}
            if cursor is None
            else parse_letter_cursor(cursor)
        )
        records = NewestFirst(history, topic, ends, ranges)
        found = _select(records, selected, limit)
        has_more = records.peek() is not None
        next_cursor = encode_letter_cursor(records.positions()) if has_more else None
        outcomes = self._outcomes.outcomes(deployment.id, [letter_id(record) for record in found])
        return LetterPage([_letter(record, outcomes.get(letter_id(record))) for record in found], next_cursor)

    def summary(self, deployment: Deployment) -> list[LetterSummary]:
        """Return how many letters have each kind of error, the one with the newest letter first."""
        totals = self._metrics.letter_totals(deployment.id).items()
        by_kind = {kind: total for name, total in totals if (kind := parse_letter_total_name(name)) is not None}
        examples = self._examples(dead_letter_topic(deployment.config_id), set(by_kind) - {OTHER_LETTERS})
        summaries = [
            LetterSummary(kind, total.count, _utc(total.first), _utc(total.last), examples.get(kind))
            for kind, total in by_kind.items()
        ]
        return sorted(summaries, key=lambda summary: summary.last, reverse=True)

    def require_component(self, deployment: Deployment, name: str | None, pointer: str, parameter: str = "") -> None:
        """Raise InvalidInput when no letter can have this uid of a transform or name of a sink.

        The name is looked up in the pipelines of the deployed revisions, and then in the counts of letters, which also
        contain the transforms and sinks of earlier revisions.

        Args:
            deployment: The deployment.
            name: The uid or the name; None is accepted.
            pointer: Where the request has it.
            parameter: The query parameter that has it; empty for a member of a body.
        """
        if name is None or deployment.unreadable_reason:
            return
        configs = [revision.config for revision in deployment.revisions]
        known = {transform.uid for config in configs for transform in config.transforms}
        known.update(sink.name for config in configs for sink in config.sinks)
        if name in known:
            return
        totals = self._metrics.letter_totals(deployment.id)
        kinds = {kind for total in totals if (kind := parse_letter_total_name(total)) is not None}
        if OTHER_LETTERS in kinds or name in {kind.component for kind in kinds}:
            return
        raise InvalidInput("The request was refused.", [Fault(pointer, _UNKNOWN_COMPONENT)], parameter)

    def _examples(self, topic: str, kinds: set[LetterKind]) -> dict[LetterKind, LetterId]:
        """Return the newest letter of each kind among the newest letters of the topic."""
        examples: dict[LetterKind, LetterId] = {}
        if not kinds:
            return examples
        history = self._history_with_deadline()
        ranges = history.ranges(topic)
        records = NewestFirst(history, topic, {partition: offsets.end for partition, offsets in ranges.items()}, ranges)
        for record in islice(records, MAX_EXAMPLES_SCANNED):
            examples.setdefault(LetterHeaders(record.headers).kind, letter_id(record))
            if examples.keys() >= kinds:
                break
        return examples

    def _history_with_deadline(self) -> TopicHistoryWithDeadline:
        return TopicHistoryWithDeadline(self._history, self._clock, TIMEOUT_S)


def _utc(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)


def _select(records: NewestFirst, selected: LetterFilter, limit: int) -> list[LogRecord]:
    """Take the next records that are selected, at most `limit`."""
    found: list[LogRecord] = []
    page_bytes = scanned_bytes = scanned = 0
    while len(found) < limit and scanned < MAX_SCANNED and scanned_bytes < MAX_SCANNED_BYTES:
        record = records.peek()
        if record is None:
            break
        size, is_selected = len(record.value or b""), selected.selects(record)
        if is_selected and found and page_bytes + size > MAX_PAGE_BYTES:
            break
        next(records)
        scanned, scanned_bytes = scanned + 1, scanned_bytes + size
        if is_selected:
            page_bytes += size
            found.append(record)
    return found


def letter_id(record: LogRecord) -> LetterId:
    """Return the id of the letter in a record of a dead-letter topic."""
    return LetterId(record.partition, record.offset)


def _letter(record: LogRecord, outcome: LetterOutcome | None) -> DeadLetter:
    headers = LetterHeaders(record.headers)
    return DeadLetter(
        id=letter_id(record),
        time=_utc(record.timestamp / 1000),
        kind=headers.kind,
        message=headers.text(MESSAGE_HEADER),
        column=headers.integer(COLUMN_HEADER),
        attempts=headers.integer(ATTEMPTS_HEADER) or 1,
        revision=headers.integer(REVISION_HEADER),
        source=headers.text(OUTPUT_ID_HEADER),
        value=record.value,
        redriven=None if outcome is None else LastRedrive(_utc(outcome.time_s), outcome.outcome),
    )
