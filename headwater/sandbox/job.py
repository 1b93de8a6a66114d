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
"""The time limits of the lone runs of a suspected record. A run above the CPU limit does not move on to the next."""
JUDGED_MS = 1000
"""The time limit of a further run of a record that ran to its end before: its CPU time alone decides on it."""
CPU_LIMIT_S = 0.050
MAX_SEGMENT_BYTES = 8 << 20
REHEARSED = 16
"""The harness's flag of a segment that it rehearses first."""
_FROM_SCRIPT, _FEEDS_SCRIPT = 4, 8
_MAX_SAFE = 2**53 - 1
_RUNS_OVER_LIMIT = 2
_MAX_KEPT_REPLIES, _MAX_KEPT_QUESTION_BYTES = 20_000, 1_000
_DEATHS = 2
"""After how many deaths a record is blamed: other records may have filled the first child, but the next one is new."""
_KILLS_BY_SYSTEM = 3
_FOREIGN = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
"""Signals from outside, since no script can send one. SIGKILL may come from the OOM killer: it is counted apart."""


class Mode(enum.IntEnum):
    """How a segment runs."""

    WHOLE = 0
    TRACED = 1  # the child names each record before it starts with it
    ALONE = 2  # one record; its script waits for the answers of `flow.contains`
    JUDGED = 3  # as ALONE, but in the realm of rehearsals: what it returns is not used, only the time that it takes

    @property
    def is_lone(self) -> bool:
        """Whether the segment is one record, whose run decides whether the record is at fault."""
        return self in (Mode.ALONE, Mode.JUDGED)

    @property
    def flag(self) -> int:
        """The harness's flag, which is the same for ALONE and JUDGED."""
        return min(self, Mode.ALONE)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of a batch that run together.

    Attributes:
        rows: The numbers of the rows.
        mode: How they run.
        tries: How often the record ran alone so far.
        over: How many of these runs were above the CPU limit.
        deaths: How many deaths of a child count against the record.
        killed: How many deaths came by the system's SIGKILL.
        first_run: Whether no run of the record has come to its end.
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
        """The time after which the engine interrupts the segment."""
        if self.mode is Mode.JUDGED:
            return JUDGED_MS
        return ALONE_MS[min(self.tries - self.over, len(ALONE_MS) - 1)] if self.mode is Mode.ALONE else SLICE_MS

    def again(self, *, over: int = 0, deaths: int = 0, killed: int = 0) -> "Segment":
        """The same record, alone once more."""
        tries, over, deaths, killed = self.tries + 1, self.over + over, self.deaths + deaths, self.killed + killed
        mode = Mode.JUDGED if self.mode is Mode.JUDGED else Mode.ALONE
        return replace(self, mode=mode, tries=tries, over=over, deaths=deaths, killed=killed)


class Death(NamedTuple):
    """How a child died over a segment.

    Attributes:
        status: The exit status.
        overdue: Whether the parent ended the child because its time was over.
        broken: Whether the parent ended the child because it broke the protocol.
        cpu_s: The CPU time that an overdue child used for the segment.
    """

    status: int
    overdue: bool = False
    broken: bool = False
    cpu_s: float = 0.0


@dataclass(slots=True)
class Job:
    """One batch on its way through a script.

    Attributes:
        script: The script's number.
        feeds_script: Whether another script gets the outputs.
        keeps_state: Whether the script may keep something from record to record. No record runs twice in one state.
        errors: The errors by row.
        replies: The answers to questions that the script waited for; a batch that runs again does not ask them again.
        several: Whether some row may have more than one output.
        crashed: Whether a child died over the batch.
    """

    batch: RecordBatch
    script: int
    feeds_script: bool = False
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
        """For each row b"" (dropped), one record, or several records with tabs between."""
        return Texts.of(self._outputs) if self._whole is None else self._whole

    @property
    def flags(self) -> int:
        """The harness's flags of the batch."""
        return self.batch.for_script * _FROM_SCRIPT | self.feeds_script * _FEEDS_SCRIPT

    @property
    def pending(self) -> Segment | None:
        """The segment to run next; None when all that is left is running."""
        return self._work[0] if self._work else None

    def remember(self, question: bytes, reply: bytes) -> None:
        """Keep the reply to a question, which the script may ask again when the batch runs again."""
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
            suspect = Segment([rows[traced]], Mode.ALONE, deaths=int(_is_evidence(death)))
            self._push([suspect, Segment(before), Segment(after, Mode.TRACED)])  # the new child is still empty
        else:
            half = len(rows) // 2
            self._push([Segment(rows[:half], Mode.TRACED), Segment(rows[half:], Mode.TRACED if half else Mode.ALONE)])

    def _judge(self, segment: Segment, results: Results, cpu_s: float) -> bool:
        if not results.interrupted and cpu_s <= CPU_LIMIT_S:
            if segment.mode is Mode.ALONE:
                self._store(segment.rows, results)
            # What a slow record printed was kept when it ran with the others.
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
        """Keep the result of a record that ran to its end but took too long, and measure it again in a rehearsal.

        It may only have filled a table, which the next records find there.
        """
        self._store(segment.rows, results)
        if segment.first_run:
            self.logs += results.logs
        self._push([replace(again, mode=Mode.JUDGED, over=0, first_run=False)])
        return False

    def _judge_death(self, segment: Segment, death: Death) -> None:
        again = segment.again(deaths=int(_is_evidence(death)), killed=int(_is_killed(death)))
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
        """Give a record an error in place of the output that an earlier run may have made."""
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
            elif len(line) > MAX_OUTPUT_BYTES and (message := _too_large(line, marked=self.feeds_script)):
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


def _is_evidence(death: Death) -> bool:
    """Whether a death counts against the record that ran: not for want of CPU, nor when others ended the child."""
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
    """Two lines: the columns, for scripts that ask for the time or a random number, and the places of long integers.

    A column is written as runs of equal values. Offsets most often grow by one from row to row, so that the runs of
    their differences from the row's number are written.
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
    """Numbers, as text where a double can't hold one: their digits are the seed of a record's random numbers."""
    return ([str(number) for number in numbers], ends) if max(numbers, default=0) > _MAX_SAFE else (numbers, ends)
