"""Requests redrives of dead letters, and reads their state."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.brokers.topic_history import LogRecord, OffsetRange, TopicHistory
from headwater.errors import Fault, InvalidInput, NotFound
from headwater.model.dead_letter import MAX_REDRIVEN_IDS, LetterHeaders, LetterId
from headwater.model.deployment import Deployment, dead_letter_topic
from headwater.model.redrive import LetterRange, Redrive, RedriveSelection
from headwater.model.value_sets import MAX_REPORTED_FAULTS
from headwater.services.dead_letters import letter_id
from headwater.services.ids import NewId, Now
from headwater.services.topic_history_with_deadline import TopicHistoryWithDeadline
from headwater.stores.protocols.redrives import RedriveOutcomeStore, RedriveStore

MAX_COUNT_S = 45.0
"""After this time, a request reads no further letters from Kafka, and fails. A request lasts a minute at most."""
FIRST_READ_OFFSETS = 1_000
"""How many offsets of all partitions together are read at first."""
MAX_READ_OFFSETS = 10_000
"""How many offsets of all partitions together are read at once, at most."""
QUICK_READ_S = 0.5
"""After a read that is this quick, the next chunk is twice as large."""
SLOW_READ_S = 2.0
"""After a read that lasts longer, the next chunk is half as large, because the letters are large."""
_UNLIMITED = 1 << 40
_MISSING = "is no dead letter of this pipeline; Kafka's retention may have removed it"
_IS_STUB = "does not contain its record, which the dead-letter topic could not take; leave this id out"


@dataclass(frozen=True, slots=True)
class LetterQuery:
    """The letters that a request names.

    Attributes:
        ids: The letters; None when the other members select them.
        error: The class of the error; None selects letters with any class.
        component: The uid of the transform, or the name of the sink; None selects the letters of all transforms and
        sinks.
    """

    ids: Sequence[LetterId] | None = None
    error: str | None = None
    component: str | None = None


class Redrives:
    """Requests redrives, and reads their state.

    A letter whose value is a stub is never redriven: a stub replaces a source record that the dead-letter topic could
    not take. The methods may block, and raise Unavailable errors.

    Args:
        store: The redrives.
        outcomes: The outcomes of redriven letters.
        history: Reads the dead-letter topics.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        *,
        store: RedriveStore,
        outcomes: RedriveOutcomeStore,
        history: TopicHistory,
        now: Now,
        new_id: NewId,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._outcomes = outcomes
        self._history = history
        self._now = now
        self._new_id = new_id
        self._clock = clock

    def count(self, owner: str, config_id: str, query: LetterQuery) -> int:
        """Return how many letters a redrive would send. Raises the errors of `request`."""
        deployment = self._store.require_redrivable(owner, config_id)
        return self._select(deployment, query)[1]

    def request(self, owner: str, config_id: str, query: LetterQuery) -> Redrive:
        """Request that the controller redrives letters.

        Raises NotFound, Conflict when the pipeline is not deployed, is paused, or is deployed anew meanwhile, and
        InvalidInput for ids of letters that do not exist.
        """
        deployment = self._store.require_redrivable(owner, config_id)
        selection, requested = self._select(deployment, query)
        return self._store.request(deployment, self._new_id(), selection, requested, self._now())

    def get(self, config_id: str, redrive_id: str) -> Redrive:
        """Return a redrive with its present counts. Raises NotFound.

        The caller must ensure that the configuration belongs to the owner.
        """
        redrive = self._store.get(config_id, redrive_id)
        if redrive is None:
            raise NotFound("This configuration has no redrive with this id. POST …/dead-letters/redrive returns ids.")
        if redrive.state != "running":
            return redrive
        return replace(redrive, counts=self._outcomes.progress(redrive.deployment_id, redrive.number).counts)

    def _select(self, deployment: Deployment, query: LetterQuery) -> tuple[RedriveSelection, int]:
        """Return the selection of a query, and how many letters it selects."""
        topic = dead_letter_topic(deployment.config_id)
        history = TopicHistoryWithDeadline(self._history, self._clock, MAX_COUNT_S)
        ranges = history.ranges(topic)
        if query.ids is None:
            found = self._letters_of_kind(deployment, history, topic, ranges, query)
        else:
            found = self._named_letters(history, topic, ranges, query.ids)
        selection = RedriveSelection(
            ranges=found.ranges(),
            ids=None if query.ids is None else tuple(sorted({(each.partition, each.offset) for each in query.ids})),
            error=query.error,
            transform_uid=query.component,
        )
        return selection, found.count

    def _letters_of_kind(
        self,
        deployment: Deployment,
        history: TopicHistoryWithDeadline,
        topic: str,
        ranges: Mapping[int, OffsetRange],
        query: LetterQuery,
    ) -> "_FoundLetters":
        """Return the letters that were not redriven yet, and that no open redrive sends.

        Raises InvalidInput when the topic has letters, but none with the error and the transform of the query.
        """
        found, size, kinds_match = _FoundLetters(), _ChunkSize(), list[bool]()
        # The selections are read before the outcomes: the letters of a redrive that ends in between have outcomes.
        open_selections = self._store.open_selections(deployment.id).values()
        selection = RedriveSelection(ranges={}, error=query.error, transform_uid=query.component)
        for records in self._read(history, topic, _chunks(ranges, size), size, _too_many_error):
            of_kind = [
                (letter_id(each), headers)
                for each in records
                if selection.selects_kind(headers := LetterHeaders(each.headers))
            ]
            if records:
                kinds_match.append(bool(of_kind))
            letters = [
                letter
                for letter, headers in of_kind
                if not headers.is_stub and not any(each.selects(letter, headers) for each in open_selections)
            ]
            redriven = self._outcomes.outcomes(deployment.id, letters)
            for letter in letters:
                if letter not in redriven:
                    found.add(letter)
        if kinds_match and not any(kinds_match):
            _refuse_unmatched_kind(query)
        return found

    def _named_letters(
        self, history: TopicHistoryWithDeadline, topic: str, ranges: Mapping[int, OffsetRange], ids: Sequence[LetterId]
    ) -> "_FoundLetters":
        """Return the letters with these ids.

        Raises InvalidInput for letters that do not exist, or whose value is a stub.
        """
        size = _ChunkSize()
        wanted: set[tuple[int, int]] = set(ids)
        is_stub_by_letter = {
            letter_id(record): LetterHeaders(record.headers).is_stub
            for records in self._read(history, topic, _chunks_with(ids, ranges, size), size, _too_far_apart_error)
            for record in records
            if letter_id(record) in wanted
        }
        unusable = [index for index, letter in enumerate(ids) if is_stub_by_letter.get(letter, True)]
        if unusable:
            faults = [
                Fault(f"/ids/{index}", _IS_STUB if ids[index] in is_stub_by_letter else _MISSING)
                for index in unusable[:MAX_REPORTED_FAULTS]
            ]
            raise InvalidInput("No letter was redriven.", faults)
        found = _FoundLetters()
        for letter in sorted(set(ids)):
            found.add(letter)
        return found

    def _read(
        self,
        history: TopicHistoryWithDeadline,
        topic: str,
        chunks: Iterator[Mapping[int, OffsetRange]],
        size: "_ChunkSize",
        too_slow_error: Callable[[], InvalidInput],
    ) -> Iterator[Sequence[LogRecord]]:
        """Yield the records of chunks without their values, and adapt the size of the next chunk.

        Raises the error that `too_slow_error` returns, when MAX_COUNT_S seconds are over.
        """
        for chunk in chunks:
            if history.is_over():
                raise too_slow_error()
            begun = self._clock()
            read = history.read(topic, chunk, _UNLIMITED, with_values=False)
            size.adapt(self._clock() - begun)
            yield [record for each in read.values() for record in each.records]


class _FoundLetters:
    """The first and the last letter of each partition, and the number of letters.

    Attributes:
        count: The number of letters.
    """

    def __init__(self) -> None:
        self.count = 0
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def add(self, letter: LetterId) -> None:
        """Add a letter. The letters of a partition are added in order."""
        self._starts.setdefault(letter.partition, letter.offset)
        self._ends[letter.partition] = letter.offset + 1
        self.count += 1

    def ranges(self) -> dict[int, LetterRange]:
        """Return the range of each partition that has letters."""
        return {partition: LetterRange(start, self._ends[partition]) for partition, start in self._starts.items()}


class _ChunkSize:
    """How many offsets are read at once.

    Kafka sends whole letters, so that the time of a read depends on the size of the letters.

    Attributes:
        offsets: The number of offsets of all partitions together.
    """

    def __init__(self) -> None:
        self.offsets = FIRST_READ_OFFSETS

    def adapt(self, duration_s: float) -> None:
        """Adapt the size to the duration of the last read."""
        if duration_s > SLOW_READ_S:
            self.offsets = max(1, self.offsets // 2)
        elif duration_s < QUICK_READ_S:
            self.offsets = min(2 * self.offsets, MAX_READ_OFFSETS)


def _refuse_unmatched_kind(query: LetterQuery) -> None:
    """Raise InvalidInput when a query names a class of error or a transform.

    The caller has found that no letter matches the query.
    """
    named = {"/error": query.error, "/transform_uid": query.component}
    is_pair = None not in named.values()
    together = " together with the other of `error` and `transform_uid`" if is_pair else ""
    detail = f"is in no dead letter{together}; GET …/dead-letters/summary lists the errors of each transform"
    faults = [Fault(pointer, detail) for pointer, name in named.items() if name is not None]
    if faults:
        raise InvalidInput("No letter was redriven.", faults)


def _too_many_error() -> InvalidInput:
    return InvalidInput(
        f"The dead-letter topic has too many letters to count them within {MAX_COUNT_S:g} s. Name the letters by "
        f"`ids`, which GET …/dead-letters returns, at most {MAX_REDRIVEN_IDS:,} in a request."
    )


def _too_far_apart_error() -> InvalidInput:
    return InvalidInput(
        f"The letters could not be read within {MAX_COUNT_S:g} s, because they are far apart in the dead-letter "
        "topic, or large. Name fewer letters in a request."
    )


def _chunks(ranges: Mapping[int, OffsetRange], size: _ChunkSize) -> Iterator[Mapping[int, OffsetRange]]:
    """Split the ranges of all partitions into chunks, in order."""
    starts = {partition: offsets.start for partition, offsets in ranges.items()}
    while unread := {partition: start for partition, start in starts.items() if start < ranges[partition].end}:
        count = max(1, size.offsets // len(unread))
        starts |= {partition: min(start + count, ranges[partition].end) for partition, start in unread.items()}
        yield {partition: OffsetRange(start, starts[partition]) for partition, start in unread.items()}


def _chunks_with(
    ids: Collection[LetterId], ranges: Mapping[int, OffsetRange], size: _ChunkSize
) -> Iterator[Mapping[int, OffsetRange]]:
    """Return chunks that contain the letters of `ids` whose offsets are in the ranges.

    Letters that are near each other are in one chunk.
    """
    chunk: list[LetterId] = []
    for letter in sorted(set(ids)):
        if letter.partition not in ranges or letter.offset not in range(*ranges[letter.partition]):
            continue
        if chunk and (letter.partition != chunk[0].partition or letter.offset >= chunk[0].offset + size.offsets):
            yield {chunk[0].partition: OffsetRange(chunk[0].offset, chunk[-1].offset + 1)}
            chunk = []
        chunk.append(letter)
    if chunk:
        yield {chunk[0].partition: OffsetRange(chunk[0].offset, chunk[-1].offset + 1)}
