"""A batch on its way through the child: what is still to run, and what each outcome means. No I/O here.

A batch runs as segments. One that is interrupted, too large or fatal is taken apart until the records at fault stand
alone; a record is blamed for time or death only when it runs alone, so that a busy machine blames nobody.
"""

import enum
import signal
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import msgspec
import numpy as np

from headwater.model.record import RecordBatch, Rows, runs
from headwater.model.transform import MAX_OUTPUT_BYTES, MAX_OUTPUTS_BYTES
from headwater.native import Texts
from headwater.sandbox.lines import Admitted, admit, long_integers
from headwater.sandbox.marks import unmarked
from headwater.sandbox.results import Results, ScriptError, parse_error

SLICE_MS = 250
"""How long a segment runs before it is interrupted and goes on behind the record that it was at."""
ALONE_MS = (75, 300, 1200, 2000, 10_000)
"""How long a suspected record runs alone, from run to run; those that found it above the CPU limit don't count."""
JUDGED_MS = 1000
"""How long it may take to run a record once more that ran to its end before: CPU time alone decides on it."""
CPU_LIMIT_S = 0.050
MAX_SEGMENT_BYTES = 8 << 20
_FROM_SCRIPT, _FOR_SCRIPT = 4, 8
_MAX_SAFE = 2**53 - 1
_RUNS_OVER_LIMIT = 2
_MAX_KEPT_REPLIES, _MAX_KEPT_QUESTION_BYTES = 20_000, 1_000
_DEATHS = 2
"""Of a record before it is blamed: the first child may have been full of what others left, the next one is new."""
_KILLS_BY_SYSTEM = 3
_FOREIGN = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
"""Deaths that somebody else wanted: no script can send its process a signal. The system's SIGKILL may be its fault."""


class Mode(enum.IntEnum):
    """How a segment runs."""

    WHOLE = 0
    TRACED = 1  # the child names each record before it starts with it
    ALONE = 2  # one record; its script waits for the answers of `flow.contains`
    JUDGED = 3  # as ALONE, but in the realm of rehearsals: what it returns is not used, only the time that it takes

    @property
    def is_lone(self) -> bool:
        """Whether it is for one record, on which it decides."""
        return self in (Mode.ALONE, Mode.JUDGED)

    @property
    def flag(self) -> int:
        """The harness's flag."""
        return min(self, Mode.ALONE)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of a batch that run together.

    tries: lone runs so far; over: those above the CPU limit; deaths: that may be its own doing; killed: deaths by
    the system's SIGKILL. first_run: no run of it has ended well.
    """

    rows: Sequence[int]
    mode: Mode = Mode.WHOLE
    tries: int = 0
    over: int = 0
    deaths: int = 0
    killed: int = 0
    first_run: bool = True

    @property
    def limit_ms(self) -> int:
        """The time after which the engine interrupts it."""
        if self.mode is Mode.JUDGED:
            return JUDGED_MS
        return ALONE_MS[min(self.tries - self.over, len(ALONE_MS) - 1)] if self.mode is Mode.ALONE else SLICE_MS

    def again(self, *, over: int = 0, deaths: int = 0, killed: int = 0) -> "Segment":
        """The same record, alone once more."""
        tries, over, deaths, killed = self.tries + 1, self.over + over, self.deaths + deaths, self.killed + killed
        mode = Mode.JUDGED if self.mode is Mode.JUDGED else Mode.ALONE
        return replace(self, mode=mode, tries=tries, over=over, deaths=deaths, killed=killed)


class Death(NamedTuple):
    """How a child died over a segment: its exit status, and when we ended it, why.

    overdue: for its time; cpu_s is the CPU time that it had since the segment was sent. broken: for what it sent.
    """

    status: int
    overdue: bool = False
    broken: bool = False
    cpu_s: float = 0.0


@dataclass(slots=True)
class Job:
    """One batch. for_script: another script gets the outputs. keeps_state: the script may keep something from record to
    record, so that no record may run twice in one state. replies: what was answered to questions that a script waited
    for, so that a batch that runs again gets farther. errors: by row. several: some row may have more than one
    output. crashed: a child died over it.
    """

    batch: RecordBatch
    script: int
    for_script: bool = False
    keeps_state: bool = False
    errors: dict[int, ScriptError] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    replies: dict[bytes, bytes] = field(default_factory=dict)
    several: bool = False
    crashed: bool = False
    finished: bool = False
    _lines: Texts = field(init=False)
    _long: list[int | list[int]] = field(init=False)
    _whole: Texts | None = None
    _outputs: list[bytes] = field(default_factory=list)
    _work: deque[Segment] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._outputs = [b""] * len(self.batch)
        self._lines, self.errors, self._long = (
            Admitted(self.batch.values, {}, []) if self.batch.for_script else admit(self.batch.values)
        )
        rows = range(len(self.batch))
        self._work.extend(self._cut([row for row in rows if row not in self.errors] if self.errors else rows))

    @property
    def outputs(self) -> Texts:
        """Per row b"" (dropped), one record, or several with tabs between."""
        return Texts.of(self._outputs) if self._whole is None else self._whole

    @property
    def flags(self) -> int:
        """The harness's flags of the batch."""
        return self.batch.for_script * _FROM_SCRIPT | self.for_script * _FOR_SCRIPT

    @property
    def pending(self) -> Segment | None:
        """What to run next; None when nothing is left that does not run."""
        return self._work[0] if self._work else None

    def remember(self, question: bytes, reply: bytes) -> None:
        """Keep a reply for the case that the question is asked again."""
        if len(question) <= _MAX_KEPT_QUESTION_BYTES and len(self.replies) < _MAX_KEPT_REPLIES:
            self.replies[question] = reply

    def started(self, segment: Segment) -> None:
        """The pending segment runs from now on."""
        assert segment is self._work[0]
        self._work.popleft()

    def give_back(self, segment: Segment) -> None:
        """A segment did not run, or not to its end, for a reason that has nothing to do with it."""
        self._work.appendleft(segment)

    def payload(self, segment: Segment) -> tuple[bytes, memoryview]:
        """Two lines of heads, and a line per record."""
        batch, lines, long = self.batch, self._lines, self._long
        if len(segment.rows) < len(batch):
            rows = Rows("i", segment.rows)
            batch, lines = batch.take(rows), lines.take(rows)
            long = [] if batch.for_script else long_integers(lines)
        return _head(batch, long), memoryview(lines.text)[:-1]

    def take_results(self, segment: Segment, results: Results, cpu_s: float) -> bool:
        """Use what a segment returned. cpu_s: CPU time of its last pass.

        True when the script must be loaded anew, since a record was stopped in it or has to run again.
        """
        if segment.mode.is_lone:
            return self._judge(segment, results, cpu_s)
        rows = segment.rows
        self._store(rows[: results.end], results)
        self.logs += results.logs
        # Where all records ran once, one is suspected only if the CPU time of all leaves room for it.
        slow = results.slow if not self.keeps_state or cpu_s > CPU_LIMIT_S else []
        mode = Mode.JUDGED if self.keeps_state else Mode.ALONE
        later = [Segment([rows[i]], mode, first_run=False) for i in slow]
        later += [Segment([rows[i]], Mode.ALONE) for i in results.unfinished]
        rest = rows[results.end :]
        if results.interrupted:
            later += [Segment(rest[:1], Mode.ALONE), Segment(rest[1:], segment.mode)]
        else:
            later.append(Segment(rest, segment.mode))
        self._push(later)
        return self.keeps_state and results.interrupted

    def take_death(self, segment: Segment, death: Death, traced: int | None) -> None:
        """The child died over a segment. traced: the record that it was at, by its number in the segment."""
        rows = segment.rows
        if segment.mode.is_lone:
            self._judge_death(segment, death)
        elif segment.mode is Mode.WHOLE:
            self._push([Segment(rows, Mode.TRACED)])
        elif traced is not None and traced < len(rows):
            before, after = rows[:traced], rows[traced + 1 :]
            suspect = Segment([rows[traced]], Mode.ALONE, deaths=int(_may_be_its_own(death)))
            self._push([suspect, Segment(before), Segment(after, Mode.TRACED)])  # the new child is still empty
        else:
            half = len(rows) // 2
            self._push([Segment(rows[:half], Mode.TRACED), Segment(rows[half:], Mode.TRACED if half else Mode.ALONE)])

    def _judge(self, segment: Segment, results: Results, cpu_s: float) -> bool:
        if not results.interrupted and cpu_s <= CPU_LIMIT_S:
            if segment.mode is Mode.ALONE:
                self._store(segment.rows, results)
            # A slow record had its say when it ran with the others.
            if segment.first_run:
                self.logs += results.logs
            return False
        again = segment.again(over=int(cpu_s > CPU_LIMIT_S))
        if self.keeps_state and segment.mode is Mode.ALONE and not results.interrupted:
            return self._judge_in_rehearsal(segment, again, results)
        if again.over < _RUNS_OVER_LIMIT:
            self._push([again])
        else:
            self._blame_time(again)
        return segment.mode is Mode.ALONE and (self.keeps_state or again.over >= _RUNS_OVER_LIMIT)

    def _judge_in_rehearsal(self, segment: Segment, again: Segment, results: Results) -> bool:
        """A record has run to its end in the state that counts, but took too long; it may only have filled a table."""
        self._store(segment.rows, results)
        if segment.first_run:
            self.logs += results.logs
        self._push([replace(again, mode=Mode.JUDGED, over=0, first_run=False)])
        return False

    def _judge_death(self, segment: Segment, death: Death) -> None:
        again = segment.again(deaths=int(_may_be_its_own(death)), killed=int(_is_killed(death)))
        if death.broken:
            broke = ScriptError("SandboxCrash", "the script broke its sandbox", attempts=again.tries + 1)
            self._fail(again.rows[0], broke)
        elif again.deaths < _DEATHS and again.killed < _KILLS_BY_SYSTEM:
            self._push([again])
        elif death.overdue:
            self._blame_time(again)
        else:
            self._fail(again.rows[0], _crash(death.status, again.tries + 1))

    def _blame_time(self, segment: Segment) -> None:
        message = "the script used more than 50 ms of CPU time for this record"
        self._fail(segment.rows[0], ScriptError("Timeout", message, attempts=segment.tries + 1))

    def _fail(self, row: int, error: ScriptError) -> None:
        """An earlier run may have given the record an output."""
        if self._whole is not None:
            self._outputs, self._whole = [line or b"" for line in self._whole], None
        self._outputs[row] = b""
        self.errors[row] = error

    def _push(self, segments: Sequence[Segment]) -> None:
        self._work.extendleft(segment for segment in reversed(segments) if len(segment.rows))

    def _store(self, rows: Sequence[int], results: Results) -> None:
        self.several |= results.several
        if len(rows) == len(self.batch) and results.clean:
            self._whole = results.lines
            self.errors.clear()
            return
        for row, line in zip(rows, cast("Iterable[bytes]", results.lines), strict=True):
            if line.startswith(b"!"):
                self._fail(row, parse_error(line))
            elif len(line) > MAX_OUTPUT_BYTES and (message := _too_large(line, marked=self.for_script)):
                self._fail(row, ScriptError("OutputTooLarge", message))
            else:
                self._outputs[row] = line
                self.errors.pop(row, None)

    def _cut(self, rows: Sequence[int]) -> list[Segment]:
        """Segments of at most MAX_SEGMENT_BYTES; a larger record is a segment of its own."""
        if len(self._lines.text) <= MAX_SEGMENT_BYTES:
            return [Segment(rows)] if len(rows) else []
        sizes, segments, start, size = self._lines.sizes, [], 0, 0
        for i, row in enumerate(rows):
            size += sizes[row]
            if size > MAX_SEGMENT_BYTES and i > start:
                segments.append(Segment(rows[start:i]))
                start, size = i, sizes[row]
        return [*segments, Segment(rows[start:])]


def _too_large(line: bytes, *, marked: bool) -> str | None:
    """What is wrong with the size of a record's outputs."""
    parts = line.split(b"\t")
    sizes = [len(unmarked(part) if marked else part) for part in parts]
    if max(sizes) > MAX_OUTPUT_BYTES:
        return f"the returned record is larger than {MAX_OUTPUT_BYTES:,} bytes"
    if sum(sizes) > MAX_OUTPUTS_BYTES:
        return f"the returned records are larger than {MAX_OUTPUTS_BYTES:,} bytes together"
    return None


def _is_killed(death: Death) -> bool:
    return death.status == -signal.SIGKILL and not (death.overdue or death.broken)


def _may_be_its_own(death: Death) -> bool:
    """Whether the record that it was at may have brought it about: not when it got no CPU, or others ended it."""
    if death.overdue:
        return death.cpu_s > CPU_LIMIT_S
    return death.status not in _FOREIGN and death.status != -signal.SIGKILL


def _crash(status: int, attempts: int) -> ScriptError:
    if status == -signal.SIGKILL:
        return ScriptError("OutOfMemory", "the system ended the script's process three times", attempts=attempts)
    cause = signal.Signals(-status).name if status < 0 else f"status {status}"
    message = f"the script ended its process ({cause}); most often it needs more than 128 MB of memory"
    return ScriptError("SandboxCrash", message, attempts=attempts)


def _head(batch: RecordBatch, long: list[int | list[int]]) -> bytes:
    """A line for scripts that ask for time or chance, and one of the long integers.

    The columns are told by their runs; offsets count on from row to row, so theirs are the runs of what is added.
    """
    timestamps, partitions, offsets, indexes = (
        np.frombuffer(column, np.int64) for column in (batch.timestamps, batch.partitions, batch.offsets, batch.indexes)
    )
    columns = {
        "topic": batch.topic,
        "timestamps": runs(timestamps),
        "partitions": runs(partitions),
        "offsets": runs(offsets - np.arange(len(offsets))),
        "indexes": _exact(*runs(indexes)),
    }
    return b"%b\n%b\n" % (msgspec.json.encode(columns), msgspec.json.encode([len(batch), *long]))


def _exact(numbers: list[int], ends: list[int]) -> tuple[list[int] | list[str], list[int]]:
    """Numbers as text where JavaScript could not hold one: the seed of a record's chance is made of their digits."""
    return ([str(number) for number in numbers], ends) if max(numbers, default=0) > _MAX_SAFE else (numbers, ends)
