"""The state machine of one batch, which handles results, timeouts and crashes.

This module does no I/O. A batch runs as segments. A segment that times out, is too large or kills the child is split
until the faulty record is a segment of its own.

A suspect is a record that took long, or that ran when the child died. It runs alone, and fails with a timeout or crash
only if it is at fault then too, so that a busy machine never fails a record.
"""

import enum
import signal
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple, cast

import msgspec
import numpy as np

from headwater.model.outputs import MAX_OUTPUT_BYTES, MAX_TOTAL_OUTPUT_BYTES
from headwater.model.record import RecordBatch, RowIndexes, find_runs
from headwater.native import BytesColumn
from headwater.sandbox.bigint_marks import remove_marks
from headwater.sandbox.json_lines import ConvertedLines, find_long_integers_by_row, to_lines
from headwater.sandbox.results import OUTPUT_SEPARATOR, Results, ScriptFailure, parse_error

SEGMENT_LIMIT_MS = 250
"""The time limit of each pass of a segment.

After an interruption, the records after the interrupted one run as a new segment.
"""
LONE_RUN_LIMITS_MS = (75, 300, 1200, 2000, 10_000)
"""The time limits of the successive lone runs of a suspect.

After a run that used more CPU time than allowed, the next run has the same limit.
"""
MEASUREMENT_LIMIT_MS = 1000
"""The time limit of a run that only measures a record's CPU time; the record already has its result."""
CPU_LIMIT_S = 0.050
"""The CPU time that a script may use for one record."""
MAX_SEGMENT_BYTES = 8 << 20
MAX_LOG_LINES_PER_BATCH = 200
"""The number of printed lines of a batch that are kept. harness/records.js has the same limit for each segment."""
INPUT_FROM_SCRIPT_FLAG = 4
"""The flag of a SEGMENT frame whose records another script has written."""
FEEDS_SCRIPT_FLAG = 8
"""The flag of a SEGMENT frame whose outputs go to another script."""
DRY_RUN_FLAG = 16
"""The flag of a SEGMENT frame that gets a dry run first. harness/main.js has the same numbers as these flags."""
_MAX_SAFE_INTEGER = 2**53 - 1
_MAX_RUNS_OVER_LIMIT = 2
"""The number of lone runs over the CPU limit after which a record fails."""
_MAX_CACHED_RESPONSES, _MAX_CACHED_REQUEST_BYTES = 20_000, 1_000
_MAX_CHILD_DEATHS = 2
"""The number of child deaths after which a record fails.

Other records may have filled the memory of the first child; the second child is fresh.
"""
_MAX_OOM_KILLS = 3
_EXTERNAL_SIGNALS = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGQUIT})
"""Signals that come from outside, because no script can send one.

SIGKILL may come from the OOM killer, so it is counted separately.
"""


NOT_RUN = ScriptFailure("NotRun", "the outputs of the records before it are too large together", attempts=0)
"""The failure of a row that waited for a run, or for a repeated run, when the outputs of the batch became too large."""


class Mode(enum.IntEnum):
    """How a segment runs. The values of the first three modes are flags of SEGMENT frames."""

    NORMAL = 0  # any number of records
    TRACED = 1  # the child sends TRACE before it processes each record
    ALONE = 2  # one record; its script waits for the answers of `flow.contains`
    MEASURED = 3  # one record, if possible in the realm for dry runs; only its CPU time counts, its output is discarded

    @property
    def is_lone(self) -> bool:
        """Whether the segment is one record, whose run decides whether the record is at fault."""
        return self in (Mode.ALONE, Mode.MEASURED)

    @property
    def flag(self) -> int:
        """The flag of the SEGMENT frame. The harness runs a MEASURED record like one that is ALONE."""
        return min(self, Mode.ALONE)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of a batch that run together.

    Attributes:
        rows: The numbers of the rows.
        mode: How the rows run.
        lone_runs: The number of times that the record ran alone so far.
        runs_over_limit: The number of these runs that used too much CPU time.
        deaths: The number of child deaths that count against the record.
        oom_kills: The number of child deaths by a SIGKILL that the parent did not send.
        needs_logs: Whether the log lines of the record are not stored yet. They are stored once, with the first run
            whose result counts.
    """

    rows: Sequence[int]
    mode: Mode = Mode.NORMAL
    lone_runs: int = 0
    runs_over_limit: int = 0
    deaths: int = 0
    oom_kills: int = 0
    needs_logs: bool = True

    @property
    def limit_ms(self) -> int:
        """The time after which V8 interrupts a pass of the segment."""
        if self.mode is Mode.MEASURED:
            return MEASUREMENT_LIMIT_MS
        if self.mode is not Mode.ALONE:
            return SEGMENT_LIMIT_MS
        return LONE_RUN_LIMITS_MS[min(self.lone_runs - self.runs_over_limit, len(LONE_RUN_LIMITS_MS) - 1)]

    def for_retry(
        self, *, count_over_limit: bool = False, count_death: bool = False, count_oom_kill: bool = False
    ) -> "Segment":
        """Return the segment for another lone run of the same record.

        Each flag adds 1 to the count of that name.
        """
        return replace(
            self,
            mode=Mode.MEASURED if self.mode is Mode.MEASURED else Mode.ALONE,
            lone_runs=self.lone_runs + 1,
            runs_over_limit=self.runs_over_limit + count_over_limit,
            deaths=self.deaths + count_death,
            oom_kills=self.oom_kills + count_oom_kill,
        )


class ChildDeath(NamedTuple):
    """How a child died during a segment.

    Attributes:
        status: The exit status.
        overdue: Whether the parent killed the child because it exceeded its time limit.
        protocol_error: How the child violated the protocol, so that the parent killed it; empty when it did not.
        cpu_s: The CPU time that an overdue child used for its last run of the segment.
    """

    status: int
    overdue: bool = False
    protocol_error: str = ""
    cpu_s: float = 0.0


@dataclass(slots=True)
class ScriptBatch:
    """One batch that a script processes, with its results so far.

    Attributes:
        batch: The records.
        script_number: The script's number.
        feeds_script: Whether the outputs go to another script.
        must_block: Whether the script is blocking (see AnalysedScript). Then the script's own realm runs each record at
            most once before it is reloaded. The realm for dry runs may run a record several times.
        max_batch_output_bytes: When the outputs of the batch exceed this size, the script is not called for the
            remaining rows, which have the failure NOT_RUN. The outputs may exceed the size by the outputs of the
            segments in flight. None is no limit.
        failures: By row, why its record failed.
        logs: The first MAX_LOG_LINES_PER_BATCH lines that the script printed.
        cached_responses: The payloads of SYNC_LOOKUP_RESPONSE frames, by the payload of the SYNC_LOOKUP_REQUEST frame.
            The script may send the same request when a segment runs again.
        has_multiple_outputs: Whether any row may have more than one output.
        crashed: Whether a segment of the batch was running when its child died.
        finished: Whether each row has its outputs or a failure.
    """

    batch: RecordBatch
    script_number: int
    feeds_script: bool = False
    _: KW_ONLY
    must_block: bool = False
    max_batch_output_bytes: int | None = None
    failures: dict[int, ScriptFailure] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    cached_responses: dict[bytes, bytes] = field(default_factory=dict)
    has_multiple_outputs: bool = False
    crashed: bool = False
    finished: bool = False
    _lines: BytesColumn = field(init=False)
    """The records as the child receives them."""
    _long_integers: list[int | list[int]] = field(init=False)
    """Candidates for long integers in the lines, see `find_long_integers_by_row`."""
    _complete_outputs: BytesColumn | None = None
    """The outputs of all rows, if one segment had them all. Then `_outputs` is not used."""
    _outputs: list[bytes] = field(default_factory=list)
    _output_bytes: int = 0
    """The size of the outputs so far."""
    _queue: deque[Segment] = field(default_factory=deque)
    """The segments that are not in flight, in the order in which they run."""

    def __post_init__(self) -> None:
        self._outputs = [b""] * len(self.batch)
        self._lines, self.failures, self._long_integers = (
            ConvertedLines(self.batch.values, {}, [])
            if self.batch.may_have_bigint_marks
            else to_lines(self.batch.values)
        )
        rows = range(len(self.batch))
        self._queue.extend(
            self._split_by_size([row for row in rows if row not in self.failures] if self.failures else rows)
        )

    @property
    def outputs(self) -> BytesColumn:
        """For each row b"" (dropped), or its outputs with OUTPUT_SEPARATOR between them."""
        return BytesColumn.of(self._outputs) if self._complete_outputs is None else self._complete_outputs

    @property
    def flags(self) -> int:
        """The flags of the SEGMENT frames of all segments."""
        return self.batch.may_have_bigint_marks * INPUT_FROM_SCRIPT_FLAG | self.feeds_script * FEEDS_SCRIPT_FLAG

    @property
    def pending(self) -> Segment | None:
        """The segment to run next; None when all remaining segments are in flight."""
        return self._queue[0] if self._queue else None

    def cache_response(self, request: bytes, response: bytes) -> None:
        """Cache a response, if its lookup request is short and few responses are cached."""
        if len(request) <= _MAX_CACHED_REQUEST_BYTES and len(self.cached_responses) < _MAX_CACHED_RESPONSES:
            self.cached_responses[request] = response

    def mark_sent(self, segment: Segment) -> None:
        """Remove the pending segment from the queue, because it is sent to the child now."""
        assert segment is self._queue[0]
        self._queue.popleft()

    def requeue(self, segment: Segment) -> None:
        """Put a segment back at the front of the queue.

        The segment did not complete, for a reason outside of the segment.
        """
        self._queue.appendleft(segment)

    def payload(self, segment: Segment) -> tuple[bytes, memoryview]:
        """Return the payload of a SEGMENT frame without the binary header.

        The payload consists of the columns, the long integers, and the records.
        """
        batch, lines, long_integers = self.batch, self._lines, self._long_integers
        if len(segment.rows) < len(batch):
            rows = RowIndexes("i", segment.rows)
            batch, lines = batch.take(rows), lines.select_rows(rows)
            long_integers = [] if batch.may_have_bigint_marks else find_long_integers_by_row(lines)
        return _segment_header(batch, long_integers), memoryview(lines.buffer)[:-1]

    def apply_results(self, segment: Segment, results: Results, cpu_s: float) -> bool:
        """Apply the results of a segment. `cpu_s` is the CPU time of its last pass.

        Returns True when the script must be reloaded: after an interruption of a blocking script, whose variables may
        then be inconsistent, and after a record in the mode ALONE failed with a timeout.
        """
        if segment.mode.is_lone:
            return self._evaluate_lone_run(segment, results, cpu_s)
        rows = segment.rows
        self._store(rows[: results.record_count], results)
        self._add_logs(results.logs)
        # A blocking script ran each record once. So a record can have exceeded the limit only if the CPU time of the
        # whole segment did.
        slow_indexes = results.slow_indexes if not self.must_block or cpu_s > CPU_LIMIT_S else []
        mode = Mode.MEASURED if self.must_block else Mode.ALONE
        next_segments = [Segment([rows[index]], mode, needs_logs=False) for index in slow_indexes]
        next_segments += [Segment([rows[index]], Mode.ALONE) for index in results.unfinished_indexes]
        rest = rows[results.record_count :]
        if results.interrupted:
            next_segments += [Segment(rest[:1], Mode.ALONE), Segment(rest[1:], segment.mode)]
        else:
            next_segments.append(Segment(rest, segment.mode))
        self._push_front(next_segments)
        return self.must_block and results.interrupted

    def apply_death(self, segment: Segment, death: ChildDeath, traced: int | None) -> None:
        """Apply the death of the child during a segment.

        `traced` is the index in the segment of the record that was running, from the last TRACE frame.
        """
        rows = segment.rows
        if segment.mode.is_lone:
            self._evaluate_death(segment, death)
        elif segment.mode is Mode.NORMAL:
            self._push_front([Segment(rows, Mode.TRACED)])
        elif traced is not None and traced < len(rows):
            before, after = rows[:traced], rows[traced + 1 :]
            suspect = Segment([rows[traced]], Mode.ALONE, deaths=int(_counts_against_record(death)))
            # The rows before ran without a crash, and the new child has free memory, so they need no trace.
            self._push_front([suspect, Segment(before), Segment(after, Mode.TRACED)])
        else:
            # The child died before its first TRACE frame, so it is not known which record ran: bisect the segment.
            half = len(rows) // 2
            self._push_front(
                [Segment(rows[:half], Mode.TRACED), Segment(rows[half:], Mode.TRACED if half else Mode.ALONE)]
            )

    def _evaluate_lone_run(self, segment: Segment, results: Results, cpu_s: float) -> bool:
        """Store the result of a lone run, or run the record again, or let the record fail.

        Returns True when the script must be reloaded, as `apply_results` says.
        """
        if not results.interrupted and cpu_s <= CPU_LIMIT_S:
            if segment.mode is Mode.ALONE:
                self._store(segment.rows, results)
            if segment.needs_logs:
                self._add_logs(results.logs)
            return False
        retry = segment.for_retry(count_over_limit=cpu_s > CPU_LIMIT_S)
        if self.must_block and segment.mode is Mode.ALONE and not results.interrupted:
            return self._measure_in_dry_run_realm(segment, retry, results)
        has_failed = retry.runs_over_limit >= _MAX_RUNS_OVER_LIMIT
        if has_failed:
            self._fail_with_timeout(retry)
        else:
            self._push_front([retry])
        # A MEASURED record ran in the realm for dry runs, whose state does not count. If it had to run in the script's
        # own realm and was interrupted, the sandbox reloads this realm.
        return segment.mode is Mode.ALONE and (self.must_block or has_failed)

    def _measure_in_dry_run_realm(self, segment: Segment, retry: Segment, results: Results) -> bool:
        """Keep the result of a slow run, and measure the record in the realm for dry runs.

        The record may have been slow only because it filled an object that later records use.
        """
        self._store(segment.rows, results)
        if segment.needs_logs:
            self._add_logs(results.logs)
        self._push_front([replace(retry, mode=Mode.MEASURED, runs_over_limit=0, needs_logs=False)])
        return False

    def _evaluate_death(self, segment: Segment, death: ChildDeath) -> None:
        retry = segment.for_retry(count_death=_counts_against_record(death), count_oom_kill=_is_oom_kill(death))
        if death.protocol_error:
            self._fail(retry.rows[0], _protocol_failure(death.protocol_error, retry.lone_runs + 1))
        elif retry.deaths < _MAX_CHILD_DEATHS and retry.oom_kills < _MAX_OOM_KILLS:
            self._push_front([retry])
        elif death.overdue:
            self._fail_with_timeout(retry)
        else:
            self._fail(retry.rows[0], _crash_failure(death.status, retry.lone_runs + 1))

    def _fail_with_timeout(self, segment: Segment) -> None:
        message = "the script used more than 50 ms of CPU time for this record"
        self._fail(segment.rows[0], ScriptFailure("Timeout", message, attempts=segment.lone_runs + 1))

    def _fail(self, row: int, failure: ScriptFailure) -> None:
        """Store why a record failed, and drop the output of an earlier run."""
        if self._complete_outputs is not None:
            self._outputs, self._complete_outputs = [line or b"" for line in self._complete_outputs], None
        self._outputs[row] = b""
        self.failures[row] = failure

    def _push_front(self, segments: Sequence[Segment]) -> None:
        self._queue.extendleft(segment for segment in reversed(segments) if len(segment.rows))
        self._give_up_if_too_large()

    def _give_up_if_too_large(self) -> None:
        """Let the rows that wait for a run fail, when the outputs are too large."""
        if self.max_batch_output_bytes is None or self._output_bytes <= self.max_batch_output_bytes:
            return
        for segment in self._queue:
            for row in segment.rows:
                self._fail(row, NOT_RUN)
        self._queue.clear()

    def _add_logs(self, lines: Sequence[str]) -> None:
        self.logs += lines[: MAX_LOG_LINES_PER_BATCH - len(self.logs)]

    def _store(self, rows: Sequence[int], results: Results) -> None:
        self._output_bytes += len(results.lines.buffer)
        self._give_up_if_too_large()
        self.has_multiple_outputs |= results.has_multiple_outputs
        if len(rows) == len(self.batch) and results.need_no_checks:
            self._complete_outputs = results.lines
            self.failures.clear()
            return
        for row, line in zip(rows, cast("Iterable[bytes]", results.lines), strict=True):
            if line.startswith(b"!"):
                self._fail(row, parse_error(line))
            elif len(line) > MAX_OUTPUT_BYTES and (message := _size_error(line, marked=self.feeds_script)):
                self._fail(row, ScriptFailure("OutputTooLarge", message))
            else:
                self._outputs[row] = line
                self.failures.pop(row, None)

    def _split_by_size(self, rows: Sequence[int]) -> list[Segment]:
        """Split rows into segments of at most MAX_SEGMENT_BYTES.

        A larger record is a segment of its own.
        """
        if len(self._lines.buffer) <= MAX_SEGMENT_BYTES:
            return [Segment(rows)] if len(rows) else []
        sizes, segments, start, size = self._lines.sizes, [], 0, 0
        for i, row in enumerate(rows):
            size += sizes[row]
            if size > MAX_SEGMENT_BYTES and i > start:
                segments.append(Segment(rows[start:i]))
                start, size = i, sizes[row]
        return [*segments, Segment(rows[start:])]


def _size_error(line: bytes, *, marked: bool) -> str | None:
    """Return the error message when a record's outputs are too large, else None.

    With `marked`, BigInts have marks, which do not count.
    """
    sizes = [len(remove_marks(output) if marked else output) for output in line.split(OUTPUT_SEPARATOR)]
    if max(sizes) > MAX_OUTPUT_BYTES:
        return f"the returned record is larger than {MAX_OUTPUT_BYTES:,} bytes"
    if sum(sizes) > MAX_TOTAL_OUTPUT_BYTES:
        return f"the returned records are larger than {MAX_TOTAL_OUTPUT_BYTES:,} bytes together"
    return None


def _is_oom_kill(death: ChildDeath) -> bool:
    return death.status == -signal.SIGKILL and not (death.overdue or death.protocol_error)


def _counts_against_record(death: ChildDeath) -> bool:
    """Return whether a death counts against the running record.

    Returns False when the child was starved of CPU, or when a signal came from outside.
    """
    if death.overdue:
        return death.cpu_s > CPU_LIMIT_S
    return death.status not in _EXTERNAL_SIGNALS and death.status != -signal.SIGKILL


def _protocol_failure(reason: str, attempts: int) -> ScriptFailure:
    advice = "if the script does nothing unusual for this record, report a bug of Headwater"
    message = f"the sandbox ended the script's process ({reason}); {advice}"
    return ScriptFailure("SandboxCrash", message, attempts=attempts)


def _crash_failure(status: int, attempts: int) -> ScriptFailure:
    if status == -signal.SIGKILL:
        return ScriptFailure("OutOfMemory", "the system ended the script's process three times", attempts=attempts)
    cause = signal.Signals(-status).name if status < 0 else f"status {status}"
    message = f"the script ended its process ({cause}); most often it needs more than 128 MB of memory"
    return ScriptFailure("SandboxCrash", message, attempts=attempts)


def _segment_header(batch: RecordBatch, long_integers: list[int | list[int]]) -> bytes:
    """Return two lines of JSON, with the record columns, and with the offsets of long integers.

    Date.now and Math.random use the columns. A column is written as runs of equal values. Offsets usually grow by
    one per row, so offset minus row number is encoded: its runs are long.
    """
    timestamps, partitions, offsets, indexes = (
        np.frombuffer(column, np.int64) for column in (batch.timestamps, batch.partitions, batch.offsets, batch.indexes)
    )
    columns = {
        "topic": batch.topic,
        "timestamps": find_runs(timestamps),
        "partitions": find_runs(partitions),
        "offsets": find_runs(offsets - np.arange(len(offsets))),
        "indexes": _as_strings_if_large(*find_runs(indexes)),
    }
    return b"%b\n%b\n" % (msgspec.json.encode(columns), msgspec.json.encode([len(batch), *long_integers]))


def _as_strings_if_large(numbers: list[int], ends: list[int]) -> tuple[list[int] | list[str], list[int]]:
    """Return the numbers, or all of them as strings when one exceeds 2^53 - 1.

    The harness needs their exact digits, which seed a record's random numbers.
    """
    if max(numbers, default=0) > _MAX_SAFE_INTEGER:
        return [str(number) for number in numbers], ends
    return numbers, ends
